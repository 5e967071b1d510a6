"""What a scripted provider says, in words that no wire knows: each server spells them in its own protocol."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Text:
    """An assistant message, streamed in `pieces` deltas."""

    text: str
    pieces: int = 3


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Reasoning that is shown. `sealed` is the provider's proof of it: encrypted content, or a signature."""

    text: str
    sealed: str = "sealed-by-the-provider"
    pieces: int = 2


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function call; `arguments` as text is sent as it is, valid JSON or not. A call of `shell` is one of these too."""

    name: str
    arguments: Mapping[str, Any] | str
    call_id: str = "call_function_1"
    pieces: int = 3

    @property
    def text(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


@dataclass(frozen=True, slots=True)
class ShellCall:
    """A call of the provider's own shell tool (the Responses wire only). Style `events` streams the commands; `item` has them only in
    the finished item. `status` incomplete is a call that broke off."""

    commands: tuple[str, ...]
    call_id: str = "call_shell_1"
    timeout_ms: int | None = None
    max_output_length: int | None = None
    style: Literal["events", "item"] = "events"
    status: str = "completed"


@dataclass(frozen=True, slots=True)
class Raw:
    """A frame as it is; only the server whose wire it is can make sense of it."""

    event: Mapping[str, Any]


Said = Text | Reasoning | FunctionCall | ShellCall | Raw


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """How an answer is delivered. Frames are counted from 0.

    `cut_after` frames the connection is dropped, in the middle of the next one. `hold_after` frames it pauses until the test sets
    `server.release`. `leave_out` ends the answer cleanly so many frames early. `pace` waits so many seconds between frames. `chunk`
    sends so many bytes at a time, wherever that cuts.
    """

    cut_after: int | None = None
    hold_after: int | None = None
    leave_out: int = 0
    pace: float = 0.0
    chunk: int | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's answer. `ends` is how the wire says that it ended; `error` is in mid-stream, after what was said."""

    said: tuple[Said, ...]
    ends: Literal["completed", "max_output_tokens", "failed", "error"] = "completed"
    faults: Faults = field(default_factory=Faults)
    input_tokens: int = 11
    output_tokens: int = 7


@dataclass(frozen=True, slots=True)
class Refuse:
    """An HTTP error before the first byte of an answer. `body` replaces the wire's own error object."""

    status: int
    message: str = "The script refuses."
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class Drop:
    """The connection is closed without an answer, or after the head of one."""

    after_head: bool = False


Turn = Reply | Refuse | Drop


def reply(*said: Said | str, **options: Any) -> Reply:
    """A Reply; plain strings are texts. Options are those of Reply and of Faults."""
    faults = {name: options.pop(name) for name in Faults.__dataclass_fields__ if name in options}
    items = tuple(Text(each) if isinstance(each, str) else each for each in said)
    return Reply(items, faults=Faults(**faults), **options)


def pieces(text: str, count: int) -> list[str]:
    """The text in at most `count` parts, none of them empty."""
    size = max(1, -(-len(text) // count))
    return [text[at : at + size] for at in range(0, len(text), size)]
