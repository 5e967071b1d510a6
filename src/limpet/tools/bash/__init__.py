"""The tool `Bash` (seed 02): a shell for a model, with background tasks and a working directory that stays."""
