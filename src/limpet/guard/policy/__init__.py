"""May it run: a command under a policy, judged before it starts. Does no I/O but for the parser's processes."""
