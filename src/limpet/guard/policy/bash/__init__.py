"""Bash scripts, read as bash would run them: parser, tree and an interpreter that runs nothing."""
