"""Bodies of `POST /v1/responses` that no gateway may take, each with what it must say: `param`, `code`, a word of the remedy."""

from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Bad:
    """`says` must stand in the message; `status` is 400 where nothing else is said."""

    name: str
    body: Any
    param: str | None
    says: str
    code: str | None = "invalid_value"
    status: int = 400


def asked(**fields: Any) -> Json:
    """A good request but for these fields."""
    return {"model": "limpet/script", "input": "hello", **fields}


def of_tool(**fields: Any) -> Json:
    return asked(tools=[{"type": "shell", **fields}])


def of_place(**fields: Any) -> Json:
    return of_tool(environment=fields)


def of_item(**fields: Any) -> Json:
    return asked(input=[fields])


def of_call(**fields: Any) -> Json:
    return of_item(type="shell_call", call_id="call_1", **fields)


def of_output(entry: Any) -> Json:
    call = {"type": "shell_call", "call_id": "call_1", "action": {"commands": ["true"]}}
    return asked(input=[call, {"type": "shell_call_output", "call_id": "call_1", "output": [entry]}])


def entry(**fields: Any) -> Json:
    return {"stdout": "", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}, **fields}


TYPE, MISSING, LESS, MORE = (
    "invalid_type",
    "missing_required_parameter",
    "number_below_min_value",
    "number_above_max_value",
)
LONG, SHORT, MANY, FEW = (
    "string_above_max_length",
    "string_below_min_length",
    "array_above_max_length",
    "array_below_min_length",
)
_FUNCTION = {"type": "function", "name": "lookup", "parameters": {}}

REQUEST = [
    Bad("a-list", [], None, "must be a JSON object", None),
    Bad("a-text", "hello", None, "must be a JSON object", None),
    Bad("null", None, None, "must be a JSON object", None),
    Bad("nothing-in-it", {}, "model", "required", MISSING),
    Bad("no-model", {"input": "hello"}, "model", "required", MISSING),
    Bad("no-input", {"model": "limpet/script"}, "input", "text or a list of items", None),
    Bad("model-a-number", asked(model=5), "model", "string", TYPE),
    Bad("model-null", asked(model=None), "model", "string", TYPE),
    Bad("model-empty", asked(model=""), "model", "at least 1", SHORT),
    Bad("model-too-long", asked(model="m" * 513), "model", "512", LONG),
    Bad("model-unknown", asked(model="gpt-99"), "model", "limpet/", "model_not_found", 404),
    Bad("model-with-a-null-byte", asked(model="a\0b"), "model", "control characters"),
    Bad("input-a-number", asked(input=5), "input", "string or a list", TYPE),
    Bad("input-a-list-of-texts", asked(input=["hello"]), "input[0]", "object", TYPE),
    Bad("input-too-long", asked(input="x" * (10 * MIB + 1)), "input", "10485760", LONG),
    Bad("instructions-a-list", asked(instructions=["x"]), "instructions", "string", TYPE),
    Bad("stream-a-text", asked(stream="yes"), "stream", "true or false", TYPE),
    Bad("store-a-number", asked(store=1), "store", "true or false", TYPE),
    Bad("parallel-a-text", asked(parallel_tool_calls="true"), "parallel_tool_calls", "true or false", TYPE),
    Bad("max-tool-calls-zero", asked(max_tool_calls=0), "max_tool_calls", "greater than or equal to 1", LESS),
    Bad("max-tool-calls-a-text", asked(max_tool_calls="3"), "max_tool_calls", "integer", TYPE),
    Bad("max-tool-calls-true", asked(max_tool_calls=True), "max_tool_calls", "integer", TYPE),
    Bad("max-tokens-too-few", asked(max_output_tokens=15), "max_output_tokens", "16", LESS),
    Bad("max-tokens-half", asked(max_output_tokens=99.5), "max_output_tokens", "integer", TYPE),
    Bad("temperature-too-hot", asked(temperature=2.1), "temperature", "less than or equal to 2", MORE),
    Bad("temperature-below-zero", asked(temperature=-0.1), "temperature", "greater than or equal to 0", LESS),
    Bad("temperature-a-text", asked(temperature="hot"), "temperature", "number", TYPE),
    Bad("temperature-huge", asked(temperature=10**300), "temperature", "2", MORE),
    Bad("top-p-above-one", asked(top_p=1.01), "top_p", "less than or equal to 1", MORE),
    Bad("top-logprobs-21", asked(top_logprobs=21), "top_logprobs", "20", MORE),
    Bad("top-logprobs-huge", asked(top_logprobs=10**40), "top_logprobs", "20", MORE),
    Bad("truncation-unknown", asked(truncation="middle"), "truncation", "'auto' or 'disabled'"),
    Bad(
        "schema-without-name",
        asked(text={"format": {"type": "json_schema", "schema": {}}}),
        "text.format.name",
        "required",
        MISSING,
    ),
    Bad(
        "schema-without-schema",
        asked(text={"format": {"type": "json_schema", "name": "x"}}),
        "text.format.schema",
        "required",
        MISSING,
    ),
    Bad("prompt-template", asked(prompt={"id": "pmpt_1"}), "prompt", "instructions", "unsupported_parameter"),
    Bad(
        "moderation",
        asked(moderation={"model": "omni-moderation-latest"}),
        "moderation",
        "Leave it out",
        "unsupported_parameter",
    ),
    Bad("service-tier-unknown", asked(service_tier="gold"), "service_tier", "'priority'"),
    Bad("effort-unknown", asked(reasoning={"effort": "hard"}), "reasoning.effort", "'high'"),
    Bad("reasoning-a-text", asked(reasoning="high"), "reasoning", "object", TYPE),
    Bad("verbosity-unknown", asked(text={"verbosity": "chatty"}), "text.verbosity", "'medium'"),
    Bad("format-unknown", asked(text={"format": {"type": "xml"}}), "text.format.type", "'json_schema'"),
    Bad("metadata-a-list", asked(metadata=[]), "metadata", "object", TYPE),
    Bad("metadata-of-numbers", asked(metadata={"a": 1}), "metadata.a", "string", TYPE),
    Bad("metadata-value-too-long", asked(metadata={"a": "x" * 513}), "metadata.a", "512", LONG),
    Bad("metadata-too-many", asked(metadata={str(n): "" for n in range(17)}), "metadata", "16", MANY),
    Bad("safety-id-too-long", asked(safety_identifier="x" * 129), "safety_identifier", "128", LONG),
    Bad("include-a-text", asked(include="all"), "include", "list", TYPE),
    Bad("background", asked(background=True, store=False), "background", "leave `store` out"),
    Bad("conversation", asked(conversation=["conv_1"]), "conversation", "an object", "invalid_type"),
    Bad("no-context-management", asked(context_management=[]), "context_management", "at least 1", FEW),
    Bad("previous-a-number", asked(previous_response_id=7), "previous_response_id", "string", TYPE),
    Bad(
        "previous-unknown",
        asked(previous_response_id="resp_0"),
        "previous_response_id",
        "not found",
        "previous_response_not_found",
        404,
    ),
]

TOOLS = [
    Bad("tools-an-object", asked(tools={"type": "shell"}), "tools", "list", TYPE),
    Bad("tools-a-list-of-texts", asked(tools=["shell"]), "tools[0]", "object", TYPE),
    Bad("tool-without-type", asked(tools=[{}]), "tools[0].type", '"shell"', None),
    Bad("tool-type-a-number", asked(tools=[{"type": 1}]), "tools[0].type", '"shell"', None),
    Bad("tool-type-empty", asked(tools=[{"type": ""}]), "tools[0].type", '"shell"', None),
    Bad("two-shells", asked(tools=[{"type": "shell"}] * 2), "tools[1]", "Only one shell tool", None),
    Bad("function-without-name", asked(tools=[{"type": "function"}]), "tools[0].name", "required", MISSING),
    Bad("function-name-with-spaces", asked(tools=[_FUNCTION | {"name": "a b"}]), "tools[0].name", "a-zA-Z0-9_-"),
    Bad("function-name-too-long", asked(tools=[_FUNCTION | {"name": "a" * 129}]), "tools[0].name", "128", LONG),
    Bad("parameters-a-text", asked(tools=[_FUNCTION | {"parameters": "{}"}]), "tools[0].parameters", "object", TYPE),
    Bad("strict-a-text", asked(tools=[_FUNCTION | {"strict": "no"}]), "tools[0].strict", "true or false", TYPE),
    Bad("choice-unknown", asked(tool_choice="maybe"), "tool_choice", "'auto' or 'required'"),
    Bad("choice-without-type", asked(tool_choice={}), "tool_choice.type", "required", MISSING),
    Bad("choice-of-no-tool", asked(tool_choice="required"), "tool_choice", "at least one tool", None),
    Bad("choice-of-no-shell", asked(tool_choice={"type": "shell"}), "tool_choice", '{"type": "shell"}', None),
    Bad(
        "choice-of-another-function",
        asked(tools=[_FUNCTION], tool_choice={"type": "function", "name": "look"}),
        "tool_choice",
        "'look'",
        None,
    ),
    Bad("environment-a-text", of_tool(environment="local"), "tools[0].environment", "object", TYPE),
    Bad("environment-without-type", of_place(), "tools[0].environment.type", "`type`"),
    Bad("environment-unknown", of_place(type="vm"), "tools[0].environment.type", "'container_auto'"),
    Bad("callers-none", of_tool(allowed_callers=[]), "tools[0].allowed_callers", "at least 1", FEW),
    Bad("callers-unknown", of_tool(allowed_callers=["me"]), "tools[0].allowed_callers[0]", "'direct'"),
    Bad(
        "reference-to-nothing",
        of_place(type="container_reference"),
        "tools[0].environment.container_id",
        "required",
        MISSING,
    ),
    Bad(
        "reference-to-a-number",
        of_place(type="container_reference", container_id=5),
        "tools[0].environment.container_id",
        "string",
        TYPE,
    ),
    Bad(
        "reference-unknown",
        of_place(type="container_reference", container_id="cntr_0"),
        None,
        "POST /v1/containers",
        "container_not_found",
        404,
    ),
    Bad(
        "memory-a-number",
        of_place(type="container_auto", memory_limit=4),
        "tools[0].environment.memory_limit",
        "string",
        TYPE,
    ),
    Bad(
        "memory-of-no-unit",
        of_place(type="container_auto", memory_limit="much"),
        "tools[0].environment.memory_limit",
        "512m",
        "invalid_memory_limit",
    ),
    Bad(
        "network-a-text",
        of_place(type="container_auto", network_policy="none"),
        "tools[0].environment.network_policy",
        "object",
        TYPE,
    ),
    Bad(
        "too-many-files",
        of_place(type="container_auto", file_ids=["f"] * 51),
        "tools[0].environment.file_ids",
        "50",
        MANY,
    ),
    Bad(
        "expiry-of-half-a-minute",
        of_place(type="container_auto", expires_after={"anchor": "last_active_at", "minutes": 0.5}),
        "tools[0].environment.expires_after.minutes",
        "whole number",
        None,
    ),
]

ITEMS = [
    Bad("item-without-type", of_item(text="x"), "input[0].type", "`role` and `content`", None),
    Bad("item-type-a-number", of_item(type=3), "input[0].type", "`type`", None),
    Bad("message-of-a-stranger", of_item(role="boss", content="x"), "input[0].role", "'developer'"),
    Bad("message-without-content", of_item(role="user"), "input[0].content", "required", MISSING),
    Bad("content-a-number", of_item(role="user", content=1), "input[0].content", "list", TYPE),
    Bad("part-a-text", of_item(role="user", content=["x"]), "input[0].content[0]", "object", TYPE),
    Bad("part-without-type", of_item(role="user", content=[{}]), "input[0].content[0].type", "required", MISSING),
    Bad(
        "part-without-text",
        of_item(role="user", content=[{"type": "input_text"}]),
        "input[0].content[0].text",
        "required",
        MISSING,
    ),
    Bad("id-a-number", of_item(type="reasoning", id=4), "input[0].id", "string", TYPE),
    Bad("call-id-a-list", of_item(type="mcp_call", call_id=[]), "input[0].call_id", "string", TYPE),
    Bad("call-without-action", of_call(), "input[0].action", "required", MISSING),
    Bad("call-without-commands", of_call(action={}), "input[0].action.commands", "required", MISSING),
    Bad("commands-a-text", of_call(action={"commands": "ls"}), "input[0].action.commands", "list", TYPE),
    Bad("commands-of-numbers", of_call(action={"commands": [1]}), "input[0].action.commands[0]", "string", TYPE),
    Bad(
        "call-somewhere",
        of_call(action={"commands": ["ls"]}, environment={"type": "mars"}),
        "input[0].environment.type",
        "'local'",
    ),
    Bad("output-entry-a-text", of_output("done"), "input[1].output[0]", "object", TYPE),
    Bad("output-without-streams", of_output({}), "input[1].output[0].stdout", "required", MISSING),
    Bad("stdout-null", of_output(entry(stdout=None)), "input[1].output[0].stdout", "string", TYPE),
    Bad(
        "stdout-too-long", of_output(entry(stdout="x" * (10 * MIB + 1))), "input[1].output[0].stdout", "10485760", LONG
    ),
    Bad("outcome-a-number", of_output(entry(outcome=0)), "input[1].output[0].outcome", "object", TYPE),
    Bad("outcome-unknown", of_output(entry(outcome={"type": "died"})), "input[1].output[0].outcome.type", "'timeout'"),
    Bad(
        "exit-without-code",
        of_output(entry(outcome={"type": "exit"})),
        "input[1].output[0].outcome.exit_code",
        "required",
        MISSING,
    ),
    Bad(
        "an-output-that-answers-nothing",
        of_item(type="shell_call_output", call_id="call_x", output=[entry()]),
        "input",
        "No tool call found for shell call output with call_id call_x",
        None,
    ),
    Bad(
        "a-function-output-that-answers-nothing",
        of_item(type="function_call_output", call_id="call_x", output="x"),
        "input",
        "No tool call found for function call output with call_id call_x",
        None,
    ),
    Bad(
        "function-call-without-name",
        of_item(type="function_call", call_id="c", arguments=""),
        "input[0].name",
        "required",
        MISSING,
    ),
    Bad(
        "arguments-an-object",
        of_item(type="function_call", call_id="c", name="n", arguments={}),
        "input[0].arguments",
        "string",
        TYPE,
    ),
    Bad("reference-without-id", of_item(type="item_reference"), "input[0].id", "required", MISSING),
]

# What OpenAI's schema holds more closely than its clients show.
CLOSELY = [
    Bad("include-unknown", asked(include=["x"]), "include[0]", "reasoning.encrypted_content"),
    Bad(
        "obfuscation-a-text",
        asked(stream_options={"include_obfuscation": "x"}),
        "stream_options.include_obfuscation",
        "true or false",
        TYPE,
    ),
    Bad(
        "compacting-too-early",
        asked(context_management=[{"type": "compaction", "compact_threshold": 5}]),
        "context_management[0].compact_threshold",
        "1000",
        LESS,
    ),
    Bad(
        "context-managed-otherwise",
        asked(context_management=[{"type": "x"}]),
        "context_management[0].type",
        "compaction",
    ),
    Bad(
        "call-id-too-long",
        of_item(type="shell_call", call_id="c" * 65, action={"commands": []}),
        "input[0].call_id",
        "64",
        LONG,
    ),
    Bad("status-unknown", of_item(role="user", content="hi", status="zap"), "input[0].status", "completed"),
    Bad(
        "timeout-before-the-start",
        of_call(action={"commands": ["true"], "timeout_ms": -5}),
        "input[0].action.timeout_ms",
        "greater than or equal to 1",
        LESS,
    ),
    Bad(
        "local-skill-without-a-path",
        of_place(type="local", skills=[{"name": "n", "description": "d"}]),
        "tools[0].environment.skills[0].path",
        "required",
        MISSING,
    ),
]

ALL = [*REQUEST, *TOOLS, *ITEMS, *CLOSELY]
