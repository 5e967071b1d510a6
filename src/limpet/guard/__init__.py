"""Policy (which commands may run) and redaction (what of their output may be shown). Decides over values; does no I/O."""
