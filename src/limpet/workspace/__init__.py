"""The only way to a shell: one sandbox, and everything that happens to a command before and after it runs."""
