"""Outgoing connections: which hosts may be dialed, and how a URL of a request is fetched."""
