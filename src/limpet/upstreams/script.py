"""The built-in model that needs no key: it runs the shell blocks of the last user message and says what came out.

Deterministic but for the ids: the same turn gives the same events. It reaches no network and reads no files. It lets the gateway be
tried, and tested, without an account at a provider.
"""

import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from limpet.core.ids import CALL, new_id
from limpet.upstreams.function_names import TOOL_TYPES
from limpet.upstreams.item_events import Message
from limpet.upstreams.refusals import refuse_hosted_tools
from limpet.upstreams.upstream import (
    LEFT_OUT,
    CallBegun,
    CallMade,
    CommandText,
    ShellArguments,
    Turn,
    TurnEnded,
    TurnEvent,
)
from limpet.upstreams.usage import Usage

LANGUAGES = frozenset({"sh", "bash", "shell"})
TAIL_LINES = 20
TAIL_CHARACTERS = 2_000
PIECES = 4

EXAMPLE = "```sh\nuname -a\n```"
GREETING = f"""I am a script, not a language model. Each fenced block marked sh, bash or shell in your message becomes one shell \
call; then I tell you how each ended, what it printed and which files it wrote. For example:

{EXAMPLE}
"""
NO_SHELL = (
    "Your message has shell blocks, but the request does not offer the shell. "
    'Add {"type": "shell"} to its tools, and do not set tool_choice to "none".'
)

_FENCE = re.compile(r"(?P<indent> {0,3})(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>[^\n]*)")


@dataclass(frozen=True, slots=True)
class _CommandReport:
    """One command that has an output, as the input tells it."""

    command: str
    outcome: Mapping[str, Any]
    text: str


class ScriptUpstream:
    """Provider type `script`. Any model name is accepted."""

    type = "script"
    has_native_shell = False
    compaction = None
    tool_types = TOOL_TYPES

    def __init__(self, name: str = "limpet") -> None:
        self.name = name

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        return None

    async def model_names(self) -> Sequence[str]:
        """None: its one model is in the configuration."""
        return ()

    async def input_tokens(self, turn: Turn) -> int | None:
        """See `TokenCounter.input_tokens`."""
        return _given(turn)

    async def stream(self, turn: Turn) -> AsyncGenerator[TurnEvent, None]:
        """The next block as a call, or the closing text once each has an output. Raises UpstreamRefused for a tool of a provider's own."""
        refuse_hosted_tools(turn, provider=self.name)
        message, later = _split(turn.input)
        blocks = shell_blocks(_text_of(message))
        answered = sum(map(_outputs, later))
        may_call = turn.shell is not None and turn.options.get("tool_choice") != "none"
        if may_call and answered < len(blocks):
            said = blocks[answered]
            events = _call(said)
        else:
            said = _answer(blocks, later, may_call=may_call)
            events = _message(said)
        for event in events:
            yield event
        given = _given(turn)
        yield TurnEnded(status="completed", usage=Usage.counted(given=given, answered=len(said.split())))


def _given(turn: Turn) -> int:
    return _count_words([turn.instructions or "", *turn.input])


def shell_blocks(text: str) -> list[str]:
    """The contents of the fenced blocks marked sh, bash or shell, in order, without blank ones. Fences are those of CommonMark:
    three or more backticks or tildes; a block inside another one is text; an open block ends with the text."""
    found: list[str] = []
    lines = iter(text.splitlines())
    for line in lines:
        opened = _FENCE.fullmatch(line)
        if opened is None or ("`" in opened["info"] and opened["fence"][0] == "`"):
            continue
        body = list(_until_closed(lines, opened["fence"], len(opened["indent"])))
        words = opened["info"].split()
        if words and words[0].lower() in LANGUAGES and any(line.strip() for line in body):
            found.append("\n".join(body))
    return found


def _until_closed(lines: Iterator[str], fence: str, indent: int) -> Iterator[str]:
    for line in lines:
        closed = _FENCE.fullmatch(line)
        if closed and not closed["info"] and closed["fence"].startswith(fence):
            return
        lead = len(line) - len(line.lstrip(" "))
        yield line[min(indent, lead) :]


def _split(items: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]:
    """The last user message and what came after it."""
    for at in range(len(items) - 1, -1, -1):
        if items[at].get("role") == "user" and items[at].get("type", "message") == "message":
            return items[at], items[at + 1 :]
    return {}, items


def _outputs(item: Mapping[str, Any]) -> int:
    """The shell outputs that the item is, or stands for."""
    left_out: Mapping[str, int] = item.get(LEFT_OUT) or {}
    return int(item.get("type") == "shell_call_output") + left_out.get("outputs", 0)


def _text_of(message: Mapping[str, Any]) -> str:
    content = message.get("content", "")
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if isinstance(part.get("text"), str))


def _call(command: str) -> Iterator[TurnEvent]:
    call_id = new_id(CALL)
    yield CallBegun(index=0, call_id=call_id)
    for piece in _pieces(command):
        yield CommandText(index=0, command_index=0, text=piece)
    yield CallMade(index=0, call_id=call_id, arguments=ShellArguments(commands=(command,)))


def _message(text: str) -> Iterator[TurnEvent]:
    message = Message(0)
    yield from message.begin()
    for piece in _pieces(text):
        yield from message.delta(piece)
    yield from message.end()


def _pieces(text: str) -> Iterator[str]:
    """The text in at most PIECES parts, none of them empty."""
    size = max(1, -(-len(text) // PIECES))
    return (text[at : at + size] for at in range(0, len(text), size))


def _answer(blocks: Sequence[str], later: Sequence[Mapping[str, Any]], *, may_call: bool) -> str:
    ran, files = _what_happened(later)
    if ran:
        return _report(ran, files)
    if blocks and not may_call:
        return NO_SHELL
    return GREETING


def _what_happened(later: Sequence[Mapping[str, Any]]) -> tuple[list[_CommandReport], list[Mapping[str, Any]]]:
    """Each command with its outcome, in order, and the files; the last word on a path wins."""
    commands = {item["call_id"]: item["action"]["commands"] for item in later if item.get("type") == "shell_call"}
    ran: list[_CommandReport] = []
    files: dict[str, Mapping[str, Any]] = {}
    for item in later:
        if item.get("type") != "shell_call_output":
            continue
        texts = commands.get(item["call_id"], ())
        for at, output in enumerate(item["output"]):
            command = texts[at] if at < len(texts) else "a command"
            ran.append(_CommandReport(command, output["outcome"], output["stdout"] + output["stderr"]))
        files |= {file["path"]: file for file in item.get("output_files") or ()}
    return ran, list(files.values())


def _report(ran: Sequence[_CommandReport], files: Sequence[Mapping[str, Any]]) -> str:
    count = f"{len(ran)} commands" if len(ran) > 1 else "1 command"
    parts = [f"I ran {count}."]
    parts += [_one(at, command) for at, command in enumerate(ran, start=1)]
    if files:
        lines = [f"- {file['path']} ({file.get('bytes', '?')} bytes)" for file in files]
        parts.append("\n".join(["Files written:", *lines]))
    return "\n\n".join(parts) + "\n"


def _one(at: int, ran: _CommandReport) -> str:
    first, *rest = ran.command.strip().splitlines() or [""]
    shown = first[:80] + ("…" if rest or len(first) > 80 else "")
    timed_out = ran.outcome.get("type") == "timeout"
    ended = "timed out" if timed_out else f"ended with exit code {ran.outcome.get('exit_code')}"
    head = f"{at}. `{shown}` {ended}"
    tail, cut = _tail(ran.text)
    if not tail:
        return f"{head} and printed nothing."
    longest = max((len(run) for run in re.findall(r"`{3,}", tail)), default=2)
    fence = "`" * (longest + 1)
    return f"{head}{'. The end of its output:' if cut else ' and printed:'}\n\n{fence}\n{tail}\n{fence}"


def _tail(text: str) -> tuple[str, bool]:
    """The end of the output and whether something before it is left out."""
    whole = text.rstrip()
    tail = "\n".join(whole.splitlines()[-TAIL_LINES:])[-TAIL_CHARACTERS:]
    return tail, len(tail) < len(whole)


def _count_words(value: object) -> int:
    """Words of every text in a JSON value: what this model takes for tokens."""
    if isinstance(value, str):
        return len(value.split())
    if isinstance(value, Mapping):
        return sum(map(_count_words, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(_count_words, value))
    return 0
