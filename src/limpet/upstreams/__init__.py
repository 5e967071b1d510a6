"""The providers of model turns, each behind the port in `upstream`."""
