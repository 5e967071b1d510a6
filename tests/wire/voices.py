"""The ways in which providers are spoken to, each with a scripted server: what its model says and what it was told, in one set of
words for all wires.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from tests.support.providers.anthropic import ScriptedAnthropic
from tests.support.providers.openai_chat import ScriptedChat
from tests.support.providers.openai_responses import ScriptedResponses
from tests.support.providers.server import Scripted, ScriptedServer
from tests.support.providers.turns import FunctionCall, Said, ShellCall
from tests.wire.provider import Provider, scripted_provider

Json = dict[str, Any]
KEY = "k7f3q9-tide"  # of 11 characters: what is configured is hidden whatever its length
KEY_VARIABLE = "PLANTED_PROVIDER_KEY"


@dataclass(frozen=True, slots=True)
class Told:
    """What one request told the model, read from its wire. `choice` is as the wire has it; `results` are (call id, what came back)."""

    instructions: str
    tools: dict[str, Json]
    choice: Any
    calls: list[tuple[str, Any]]
    results: list[tuple[str, Any]]
    thoughts: list[Json]


@dataclass(frozen=True, slots=True)
class Kind:
    """One way: its server, the settings of its section, and the request's forms."""

    name: str
    wire: type[ScriptedServer]
    settings: str
    forced_shell: Json
    has_native_shell: bool = False


KINDS = {
    kind.name: kind
    for kind in (
        Kind("native", ScriptedResponses, 'type = "openai"', {"type": "shell"}, has_native_shell=True),
        Kind(
            "function",
            ScriptedResponses,
            'type = "openai"\nnative_shell = false',
            {"type": "function", "name": "shell"},
        ),
        Kind("chat", ScriptedChat, 'type = "openai_chat"', {"type": "function", "function": {"name": "shell"}}),
        Kind("anthropic", ScriptedAnthropic, 'type = "anthropic"', {"type": "tool", "name": "shell"}),
    )
}
TRANSLATED = ("chat", "anthropic")


@dataclass(frozen=True, slots=True)
class Voice:
    """One provider of a running gateway; `play` as in `Provider`."""

    kind: Kind
    provider: Provider

    @property
    def model(self) -> str:
        return f"{self.kind.name}/scripted-1"

    @property
    def is_responses(self) -> bool:
        return self.kind.wire is ScriptedResponses

    def play(self, *turns: Said | str | tuple[Said | str, ...] | Scripted) -> None:
        self.provider.play(*turns)

    def shell(self, *commands: str, call_id: str = "call_shell_1") -> Said:
        """A model's shell call, as this wire spells it."""
        if self.kind.has_native_shell:
            return ShellCall(commands, call_id=call_id)
        return FunctionCall("shell", {"commands": list(commands)}, call_id=call_id)

    def bad_shell(self, call_id: str = "call_bad") -> Said:
        """A shell call that cannot be read."""
        if self.kind.has_native_shell:
            return ShellCall((), call_id=call_id, style="item")
        return FunctionCall("shell", '{"commands": 7}', call_id=call_id)

    def result(self, stdout: str, *, stderr: str = "", code: int = 0) -> Any:
        """What the model is to get back for one command, in this wire's own form."""
        if self.kind.has_native_shell:
            return [{"stdout": stdout, "stderr": stderr, "outcome": {"type": "exit", "exit_code": code}}]
        parts = [f"{name}:\n{text.rstrip()}" for name, text in (("stdout", stdout), ("stderr", stderr)) if text]
        return "\n".join([f"exit code: {code}", *(parts or ["(no output)"])])

    @property
    def bodies(self) -> list[Json]:
        """The requests' bodies since `play`."""
        return self.provider.asked

    @property
    def told(self) -> list[Told]:
        """The requests since `play`."""
        read = {ScriptedResponses: _responses, ScriptedChat: _chat, ScriptedAnthropic: _anthropic}[self.kind.wire]
        return [read(body) for body in self.bodies]


def _responses(body: Json) -> Told:
    items = body["input"]
    return Told(
        instructions=body.get("instructions") or "",
        tools={tool.get("name", tool["type"]): tool for tool in body["tools"]},
        choice=body.get("tool_choice", "auto"),
        calls=[(item["call_id"], _asked(item)) for item in items if item["type"].endswith("_call")],
        results=[(item["call_id"], item["output"]) for item in items if item["type"].endswith("_call_output")],
        thoughts=[item for item in items if item["type"] == "reasoning"],
    )


def _asked(item: Json) -> Any:
    return item["action"]["commands"] if item["type"] == "shell_call" else _arguments(item["arguments"])


def _arguments(text: str) -> Any:
    value = json.loads(text)
    return value.get("commands", value)


def _chat(body: Json) -> Told:
    messages = body["messages"]
    calls = [call for message in messages for call in message.get("tool_calls") or ()]
    return Told(
        instructions="\n\n".join(m["content"] for m in messages if m["role"] in ("system", "developer")),
        tools={tool["function"]["name"]: tool["function"] for tool in body.get("tools", ())},
        choice=body.get("tool_choice", "auto"),
        calls=[(call["id"], _arguments(call["function"]["arguments"])) for call in calls],
        results=[(m["tool_call_id"], m["content"]) for m in messages if m["role"] == "tool"],
        thoughts=[m for m in messages if "reasoning_content" in m],
    )


def _anthropic(body: Json) -> Told:
    blocks = [block for message in body["messages"] for block in message["content"] if isinstance(block, dict)]
    system = body.get("system") or ""
    choice = body.get("tool_choice", {"type": "auto"})
    return Told(
        instructions=system if isinstance(system, str) else "\n\n".join(block["text"] for block in system),
        tools={tool["name"]: tool for tool in body.get("tools", ())},
        choice="auto" if choice == {"type": "auto"} else choice,
        calls=[(b["id"], b["input"].get("commands", b["input"])) for b in blocks if b["type"] == "tool_use"],
        results=[(b["tool_use_id"], _text_of(b["content"])) for b in blocks if b["type"] == "tool_result"],
        thoughts=[b for b in blocks if b["type"] in ("thinking", "redacted_thinking")],
    )


def _text_of(content: str | list[Json]) -> str:
    return content if isinstance(content, str) else "".join(block["text"] for block in content)


@contextmanager
def all_voices() -> Iterator[dict[str, Voice]]:
    """A scripted provider for each kind, for the time of the block."""
    with ExitStack() as stack:
        yield {name: Voice(kind, stack.enter_context(scripted_provider(kind.wire))) for name, kind in KINDS.items()}


def section_of(voice: Voice) -> str:
    """Its sections of limpet.toml: itself, and `gone-…`, its like at an address where nobody listens. Their key comes from the
    environment (`KEY_VARIABLE`)."""
    addresses = {voice.kind.name: voice.provider.server.base_url, f"gone-{voice.kind.name}": "http://127.0.0.1:1/v1"}
    return "".join(
        f"""
[providers.{name}]
{voice.kind.settings}
base_url = "{address}"
api_key = "${{{KEY_VARIABLE}}}"
"""
        for name, address in addresses.items()
    )
