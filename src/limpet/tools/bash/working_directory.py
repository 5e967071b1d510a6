"""The working directory of a session: where the next command starts. Derived from what the shell reports; no I/O."""

import posixpath
from dataclasses import dataclass

_GONE = " (deleted)"


@dataclass(frozen=True, slots=True)
class OutsideRoots:
    """A directory that is not allowed. `problem` is a sentence with what to do."""

    problem: str


class WorkingDirectory:
    """One session's directory, by the names that commands know. It begins in `start`; `roots` confine it, None lets it go anywhere."""

    def __init__(self, start: str, *, home: str, roots: tuple[str, ...] | None) -> None:
        self._start = start
        self._home = home
        self._roots = roots
        self.current = start
        self.previous: str | None = None  # where it was before it moved: what `cd -` goes back to

    def resolve(self, asked: str | None) -> str | OutsideRoots:
        """Where a command shall run: the session's directory, or what was asked for, relative to it."""
        if asked is None:
            return self.current
        if asked == "~" or asked.startswith("~/"):
            asked = self._home + asked[1:]
        path = posixpath.normpath(posixpath.join(self.current, asked))
        path = "/" + path.lstrip("/")
        if self._is_allowed(path):
            return path
        return OutsideRoots(
            f"cwd {asked} is {path}, outside {self._shown_roots()}. Use a directory below one of them, or add {path} to allowed_paths."
        )

    def go(self, began: str, told: str | None) -> str | None:
        """Take over where a command ended that began in `began`. Returns a sentence where that is not where it ended.

        A command that stayed where it began moves nothing, so that a `cwd` of one call is for that call.
        """
        if told is None or told == began:
            return None
        if told.endswith(_GONE):
            gone = told.removesuffix(_GONE)
            return (
                f"The command ended in {gone}, which does not exist any more; the next call starts in {self.current}."
            )
        if not self._is_allowed(told):
            return (
                f"The command ended in {told}, outside {self._shown_roots()}; the next call starts in {self.current}."
            )
        self.current, self.previous = told, began
        return None

    def fall_back(self) -> str:
        """The session's directory is gone: start over. Returns a sentence that says so."""
        gone, self.current, self.previous = self.current, self._start, None
        return f"The working directory {gone} does not exist any more; this ran in {self._start}."

    @property
    def is_away(self) -> bool:
        return self.current != self._start

    def _is_allowed(self, path: str) -> bool:
        if self._roots is None:
            return True
        return any(path == root or path.startswith(f"{root.rstrip('/')}/") for root in self._roots)

    def _shown_roots(self) -> str:
        return ", ".join(self._roots or ())
