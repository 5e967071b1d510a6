"""`limpet storage move`: moves stored bytes to where the settings say, and shows how far it is."""

import sys
import time
from pathlib import Path

import anyio

from limpet import wiring
from limpet.config import load_config
from limpet.store.blob_migration import Progress

# Seconds between progress lines where standard error is no terminal; on a terminal one line is redrawn.
LINE_SECONDS = 5.0
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def move(config: Path | None) -> int:
    """Exits 0 when everything is there, 1 when something could not be moved."""
    shown = _Shown()
    done = anyio.run(wiring.move_storage, load_config(config), shown)
    shown.end(done)
    for sentence in done.failed:
        print(f"limpet: {sentence}", file=sys.stderr)
    return 1 if done.failed else 0


def line(progress: Progress) -> str:
    """How far it is, for a person."""
    return f"moved {progress.moved} of {progress.all} files, {_size(progress.bytes)} of {_size(progress.all_bytes)}" + (
        f", {len(progress.failed)} could not be moved" if progress.failed else ""
    )


class _Shown:
    """Progress on standard error; the last word on standard output."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._at = time.monotonic()

    def __call__(self, progress: Progress) -> None:
        if self._is_terminal:
            print(f"\r{line(progress)}\x1b[K", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - self._at >= LINE_SECONDS:
            self._at = time.monotonic()
            print(line(progress), file=sys.stderr, flush=True)

    def end(self, progress: Progress) -> None:
        if self._is_terminal:
            print("\r\x1b[K", end="", file=sys.stderr)
        print(line(progress) if progress.all else "Everything is where the settings say.")


def _size(count: int) -> str:
    size, unit = float(count), 0
    while size >= 1024 and unit < len(UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{count} {UNITS[0]}" if unit == 0 else f"{size:.1f} {UNITS[unit]}"
