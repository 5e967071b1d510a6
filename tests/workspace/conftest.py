"""Workspaces on the runtimes of this host."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def home() -> Iterator[Path]:
    """Short, for a socket's address, and passable, for boxes that run as users of their own."""
    with tempfile.TemporaryDirectory(prefix="lh-") as directory:
        Path(directory).chmod(0o711)
        yield Path(directory)
