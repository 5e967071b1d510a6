"""The network's one door: who may be dialed, and how something is fetched for a request."""
