"""`shell_cmd` (seed 03): one program with its arguments, run without a shell inside a trusted directory."""
