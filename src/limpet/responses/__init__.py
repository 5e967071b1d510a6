"""The agent loop: turns a request into events. Knows no HTTP."""
