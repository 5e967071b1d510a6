"""Fixtures of the contract tests."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def room() -> Iterator[Path]:
    """An empty directory that other users may pass through, as the user of a sandbox must; pytest's own are closed to them."""
    with tempfile.TemporaryDirectory(prefix="lr-") as directory:
        Path(directory).chmod(0o711)
        yield Path(directory)
