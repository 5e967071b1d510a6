"""Which lines of a task are reported while it runs: those that a pattern matches. RE2 only, so no pattern takes exponential time."""

import re2  # type: ignore[import-untyped]  # google-re2 has no annotations


class PatternRefused(Exception):
    """RE2 does not take the pattern; the text says why."""


class LineMatcher:
    """Picks lines; without a pattern it picks all. Raises PatternRefused."""

    def __init__(self, pattern: str | None) -> None:
        self.pattern = pattern
        self.matched = 0
        self._compiled = None if pattern is None else _compile(pattern)

    def picks(self, line: str) -> bool:
        chosen = self._compiled is None or self._compiled.search(line) is not None
        self.matched += chosen
        return chosen


def _compile(pattern: str) -> "re2._Regexp":
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 8 << 20
    try:
        return re2.compile(pattern, options=options)
    except re2.error as error:
        reason = error.args[0] if error.args else "it cannot be read"
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise PatternRefused(text) from None
