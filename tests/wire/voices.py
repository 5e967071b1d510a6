"""The ways in which providers are spoken to, each with a scripted server: what its model says and what it was told, in one set of
words for all wires.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from tests.support.providers.anthropic import ScriptedAnthropic
from tests.support.providers.azure import ScriptedAzure
from tests.support.providers.bedrock import ScriptedBedrock
from tests.support.providers.gemini import ScriptedGemini
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
    model_name: str = "scripted-1"
    streams_by_address: bool = False
    refusal_code: str | None = None  # for what the request did wrong, where it has words of its own
    cuts_arguments: bool = True  # whether a call's arguments come in pieces


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
        Kind(
            "bedrock",
            ScriptedBedrock,
            'type = "bedrock"\nregion = "eu-west-1"',
            {"tool": {"name": "shell"}},
            model_name="anthropic.claude-scripted-1",
            streams_by_address=True,
            refusal_code="ValidationException",
        ),
        Kind(
            "gemini",
            ScriptedGemini,
            'type = "vertex"',
            {"mode": "ANY", "allowed_function_names": ["shell"]},
            model_name="gemini-scripted-1",
            streams_by_address=True,
            refusal_code="INVALID_ARGUMENT",
            cuts_arguments=False,
        ),
    )
}
TRANSLATED = ("chat", "anthropic", "bedrock", "gemini")
# The wire of "native" at other addresses: one test takes its road.
AZURE = Kind("azure", ScriptedAzure, 'type = "azure_openai"', {"type": "shell"}, has_native_shell=True)


@dataclass(frozen=True, slots=True)
class Voice:
    """One provider of a running gateway; `play` as in `Provider`."""

    kind: Kind
    provider: Provider

    @property
    def model(self) -> str:
        return f"{self.kind.name}/{self.kind.model_name}"

    @property
    def is_responses(self) -> bool:
        return issubclass(self.kind.wire, ScriptedResponses)

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
        return [_READ[self.kind.wire](body) for body in self.bodies]


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
    if item["type"] == "apply_patch_call":
        return item["operation"]
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


def _bedrock(body: Json) -> Told:
    blocks = [block for message in body["messages"] for block in message["content"]]
    config = body.get("toolConfig", {})
    tools = [tool["toolSpec"] for tool in config.get("tools", ()) if "toolSpec" in tool]
    uses = [block["toolUse"] for block in blocks if "toolUse" in block]
    results = [block["toolResult"] for block in blocks if "toolResult" in block]
    return Told(
        instructions="\n\n".join(block["text"] for block in body.get("system", ()) if "text" in block),
        tools={tool["name"]: {**tool, "parameters": tool["inputSchema"]["json"]} for tool in tools},
        choice="auto" if config.get("toolChoice", {"auto": {}}) == {"auto": {}} else config["toolChoice"],
        calls=[(use["toolUseId"], use["input"].get("commands", use["input"])) for use in uses],
        results=[(result["toolUseId"], _text_of(result["content"])) for result in results],
        thoughts=[block["reasoningContent"] for block in blocks if "reasoningContent" in block],
    )


# What stands at a call that Gemini did not make, base64 of "skip_thought_signature_validator" (ai.google.dev, "Thought signatures").
_UNSIGNED = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="


def _gemini(body: Json) -> Told:
    parts = [part for content in body["contents"] for part in content["parts"]]
    declared = [each for tool in body.get("tools", ()) for each in tool.get("functionDeclarations", ())]
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    results = [part["functionResponse"] for part in parts if "functionResponse" in part]
    choice = body.get("toolConfig", {}).get("functionCallingConfig", {"mode": "AUTO"})
    return Told(
        instructions="\n\n".join(part["text"] for part in body.get("systemInstruction", {}).get("parts", ())),
        tools={
            each["name"]: {**each, "parameters": each.get("parameters") or each["parameters_json_schema"]}
            for each in declared
        },
        choice="auto" if choice == {"mode": "AUTO"} else choice,
        calls=[(call["id"], call["args"].get("commands", call["args"])) for call in calls],
        results=[(result["id"], result["response"]["return_value"]) for result in results],
        thoughts=[part for part in parts if part.get("thoughtSignature", _UNSIGNED) != _UNSIGNED],
    )


_READ = {
    ScriptedResponses: _responses,
    ScriptedAzure: _responses,
    ScriptedChat: _chat,
    ScriptedAnthropic: _anthropic,
    ScriptedBedrock: _bedrock,
    ScriptedGemini: _gemini,
}


@contextmanager
def all_voices() -> Iterator[dict[str, Voice]]:
    """A scripted provider for each kind and Azure's, for the time of the block."""
    with ExitStack() as stack:
        kinds = {**KINDS, AZURE.name: AZURE}
        yield {name: Voice(kind, stack.enter_context(scripted_provider(kind.wire))) for name, kind in kinds.items()}


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
