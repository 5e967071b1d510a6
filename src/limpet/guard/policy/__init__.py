"""Whether a command may run: judged under a policy before it starts. The only I/O is the parser's processes."""
