"""`shell_cmd` (docs/shell-cmd-tool.md): one program with its arguments, run without a shell inside a trusted directory."""
