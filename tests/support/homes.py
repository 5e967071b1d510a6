"""Homes for gateways and boxes, outside of pytest's own directory: every pytest that starts closes that to the users of boxes."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def short_home() -> Iterator[Path]:
    """A directory that is there, with a path short enough for a socket's address, which holds 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="lh-", ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o711)
        yield Path(directory)


@contextmanager
def home_apart() -> Iterator[Path]:
    """The path of a directory that is not there yet."""
    with tempfile.TemporaryDirectory(prefix="limpet-test-", ignore_cleanup_errors=True) as apart:
        Path(apart).chmod(0o711)
        yield Path(apart) / "home"
