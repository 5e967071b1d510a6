"""Incoming HTTP connections: uvicorn with bounds on what a client may send, hold open and leave unread. Knows no route."""
