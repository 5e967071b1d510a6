"""The host's end of an agent: its protocol, the client that speaks it, the payload that starts it. Knows no runtime."""
