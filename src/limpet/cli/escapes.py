"""Terminal escape sequences in output: the modes that a program switched on, and its queries to the terminal. Pure."""

import re
from dataclasses import dataclass, field

# Private modes (xterm's list) that a person notices when a program is left in the middle: cursor keys, wrapping, the cursor,
# mouse and focus reports, the other screen, pasted text in brackets, held back drawing.
_WATCHED = frozenset({1, 7, 9, 25, 47, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1015, 1016, 1047, 1049, 2004, 2026})
_ON_BY_ITSELF = frozenset({7, 25})
_SWITCH = re.compile(rb"\x1b\[\?([0-9;]{1,64})([hl])")
_UNFINISHED = re.compile(rb"\x1b(?:\[(?:\?[0-9;]{0,64})?)?\Z")
_KEYPAD = 1

# Requests for an answer: what and where it is, its modes, colours, window and clipboard; also those of DCS and of VT52.
_QUESTIONS = re.compile(
    rb"\x1b\[[?>=]?[0-9;]*[cn]|\x1b\[\??[0-9;]*\$p|\x1b\[>[0-9;]*q|\x1b\[\?[0-9;]*u|\x1b\[[0-9;]+t"
    rb"|\x1b\][0-9]+;(?:[^\x07\x1b;]*;)*\?(?:\x07|\x1b\\)|\x1bP[^\x1b]*\x1b\\|\x1bZ|\x05"
)


@dataclass(slots=True)
class Modes:
    """What a program's output has switched in the terminal so far."""

    _changed: dict[int, bool] = field(default_factory=dict)
    _rest: bytes = b""

    def see(self, output: bytes) -> None:
        """More of it; a sequence may lie across two pieces."""
        output = self._rest + output
        for numbers, switch in _SWITCH.findall(output):
            for number in numbers.split(b";"):
                if number and int(number) in _WATCHED:
                    self._changed[int(number)] = switch == b"h"
        unfinished = _UNFINISHED.search(output, max(0, len(output) - 70))
        self._rest = unfinished[0] if unfinished else b""

    def undo(self) -> bytes:
        """What brings the terminal back to where it was; empty where nothing is left switched."""
        left = sorted(number for number, on in self._changed.items() if on != (number in _ON_BY_ITSELF))
        if not left:
            return b""
        switches = [b"\x1b[?%d%s" % (number, b"h" if number in _ON_BY_ITSELF else b"l") for number in left]
        keypad = b"\x1b>" if _KEYPAD in left else b""
        return b"".join(switches) + keypad + b"\x1b[0m"


def without_questions(output: bytes) -> bytes:
    """Old output that may be shown again: the terminal's answers to it would arrive as if they had been typed."""
    return _QUESTIONS.sub(b"", output)
