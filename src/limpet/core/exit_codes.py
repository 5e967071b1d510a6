"""Exit codes with a meaning that programs agree on (timeout(1), env(1), bash(1)), where a command has none of its own."""

TIMED_OUT = 124
LOST = 125  # how it ended is unknown: its box is gone
CANNOT_RUN = 126  # found, but no program, or refused
NOT_FOUND = 127
INTERRUPTED = 130  # 128 + SIGINT
KILLED = 137  # 128 + SIGKILL
