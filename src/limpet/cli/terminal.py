"""Output for people: text on the right stream. On a terminal, output of a box cannot control the terminal."""

import os
import re
import sys
from typing import BinaryIO, TextIO

DIM, PLAIN = "\x1b[2m", "\x1b[0m"

# Everything that moves the cursor, sets the title or the clipboard; colours, tabs and line ends may pass.
_STEERING = re.compile(r"\x1b(?!\[[0-9;]*m)|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f\x80-\x9f]")


class Screen:
    """Both streams of this process, written to as things come. Pieces of different kinds begin on a line of their own."""

    def __init__(self, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self._streams: dict[str, TextIO] = {"stdout": out or sys.stdout, "stderr": err or sys.stderr}
        self._kind = ""
        self._open: str | None = None  # the stream whose last line has no end yet

    def say(self, text: str) -> None:
        """Text of the model."""
        self._write("stdout", "text", text)

    def output(self, stream: str, text: str) -> None:
        """Output of a command, on its own stream."""
        self._write(stream, "output", text)

    def command(self, text: str) -> None:
        """A command that is about to run; only a terminal shows it."""
        if self._streams["stderr"].isatty():
            self._write("stderr", "command", f"{DIM}$ {shown(text)}{PLAIN}\n", trusted=True)

    def hint(self, text: str) -> None:
        """Something worth knowing; only a terminal shows it."""
        if self._streams["stderr"].isatty():
            self._write("stderr", "hint", f"{DIM}{shown(text)}{PLAIN}\n", trusted=True)

    def note(self, text: str) -> None:
        """Something that must be known."""
        self._write("stderr", "note", f"limpet: {text}\n")

    def end(self) -> None:
        """End of the text: the shell's prompt begins on a line of its own."""
        self._begin_line()

    def _write(self, stream: str, kind: str, text: str, *, trusted: bool = False) -> None:
        if not text:
            return
        if kind != self._kind:
            self._begin_line()
        self._kind = kind
        target = self._streams[stream]
        target.write(text if trusted or not target.isatty() else shown(text))
        target.flush()
        self._open = None if text.endswith("\n") else stream

    def _begin_line(self) -> None:
        if self._open is not None:
            self._streams[self._open].write("\n")
            self._streams[self._open].flush()
        self._open = None


def shown(text: str) -> str:
    """Text without what would steer a terminal; each such character becomes the replacement character."""
    return _STEERING.sub("\ufffd", text)


def let_go_of(stream: BinaryIO) -> None:
    """Point the stream at /dev/null after its reader has gone, so that later writes, also those at exit, raise nothing."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
