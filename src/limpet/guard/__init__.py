"""May it run, what may be seen. Decides over values; does no I/O."""
