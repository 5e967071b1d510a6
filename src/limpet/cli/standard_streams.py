"""The three descriptors that every program expects to be open. Imports nothing that takes time."""

import os
import sys


def open_missing_streams() -> None:
    """Open the null device for each standard stream that this program was started without.

    Otherwise the first file or socket that it opens takes the number, and is then read or written as if it were that stream.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
