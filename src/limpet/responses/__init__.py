"""The agent loop: from a request to its events. No HTTP in here."""
