"""What a translated turn asks for besides its input: functions, choice, form of the answer, effort; in terms that belong to no wire.
Pure.

An option that the wires do not know is left out; a tool that neither the gateway nor the client can run is refused by its name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from limpet.core.errors import UpstreamRefused
from limpet.upstreams import patch_function, shell_function
from limpet.upstreams.function_names import FunctionNames
from limpet.upstreams.refusals import refuse_hosted_tools
from limpet.upstreams.upstream import Turn

EFFORTS = ("minimal", "low", "medium", "high", "xhigh", "max")
ANY_JSON = "Answer with one JSON object, and with nothing before or behind it: no other words, no code fence."
# OpenAI's `fast` is its `priority` by another name.
SERVICE_TIERS = {"auto": "auto", "default": "default", "flex": "flex", "priority": "priority", "fast": "priority"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedFunction:
    """A function that the model may call. `strict` only where the client asked for it."""

    name: str
    about: str | None
    parameters: Mapping[str, Any]
    strict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedFunctions:
    """Only these may be called; with `required` one of them must be."""

    names: tuple[str, ...]
    required: bool


ToolChoice = str | AllowedFunctions | None
"""`auto`, `none`, `required`, a choice among functions, or None where the client said nothing."""


@dataclass(frozen=True, slots=True)
class AnyJson:
    """The answer is a JSON object of any form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSchema:
    """The answer is JSON of this schema."""

    schema: Mapping[str, Any]
    name: str | None
    description: str | None
    strict: bool | None


def names_of(turn: Turn) -> FunctionNames:
    """The functions of a turn's tools."""
    return FunctionNames(turn.tools, taken=() if turn.shell is None else (shell_function.NAME,))


def functions_of(turn: Turn, names: FunctionNames, *, provider: str) -> list[OfferedFunction]:
    """The shell, where it is offered, and the client's functions. Raises UpstreamRefused (400) for a tool that is neither, and where
    the client's function has the shell's name."""
    refuse_hosted_tools(turn, provider=provider)
    functions = [
        OfferedFunction(
            name=tool.function,
            about=tool.about,
            parameters=tool.parameters(),
            strict=tool.definition.get("strict") is True,
        )
        for tool in names.tools
    ]
    if turn.shell is None:
        return functions
    shell_function.refuse_taken_name(turn, provider=provider)
    shell = OfferedFunction(
        name=shell_function.NAME, about=turn.shell.description, parameters=shell_function.parameters()
    )
    return [shell, *functions]


def answer_schema(turn: Turn, *, provider: str) -> AnswerSchema | None:
    """The schema that `text.format` asks for, None for text and for JSON of any form, which the model is told in words
    (`instructions_of`). Raises UpstreamRefused (400) for a form without translation."""
    form = answer_form(turn)
    match form:
        case None | AnswerSchema():
            return form
        case AnyJson():
            return None
        case kind:
            raise unknown_form(kind, provider=provider, known="json_schema, json_object or text")


def instructions_of(turn: Turn) -> str | None:
    """The instructions, for wires that have no word for JSON of any form: there they end with it."""
    if not isinstance(answer_form(turn), AnyJson):
        return turn.instructions
    return ANY_JSON if turn.instructions is None else f"{turn.instructions}\n\n{ANY_JSON}"


def answer_form(turn: Turn) -> AnswerSchema | AnyJson | str | None:
    """The form that `text.format` asks for, None for plain text; its name where it is another one."""
    wanted = (turn.options.get("text") or {}).get("format") or {}
    match wanted.get("type", "text"):
        case "text":
            return None
        case "json_object":
            return AnyJson()
        case "json_schema":
            return AnswerSchema(
                schema=wanted.get("schema") or {},
                name=wanted.get("name"),
                description=wanted.get("description"),
                strict=wanted.get("strict"),
            )
        case kind:
            return str(kind)


def unknown_form(kind: str, *, provider: str, known: str) -> UpstreamRefused:
    """The error for a form of the answer that the wire has no word for."""
    return UpstreamRefused(
        provider,
        400,
        f"it cannot be asked for text in the format {kind!r}. Use {known}.",
        code="unsupported_format",
        param="text.format",
    )


def effort_of(turn: Turn, *, provider: str) -> str | None:
    """The effort, `none` or one of EFFORTS; None where the client said nothing. Raises UpstreamRefused (400) for an unknown one."""
    effort = (turn.options.get("reasoning") or {}).get("effort")
    if effort is None or effort == "none" or effort in EFFORTS:
        return effort
    raise UpstreamRefused(
        provider,
        400,
        f"reasoning.effort cannot be {effort!r}. Use one of: none, {', '.join(EFFORTS)}.",
        code="unsupported_value",
        param="reasoning.effort",
    )


def service_tier_of(turn: Turn) -> str | None:
    """The tier, where it is one that the wires know."""
    tier = turn.options.get("service_tier")
    return SERVICE_TIERS.get(tier) if isinstance(tier, str) else None


def tool_choice_of(turn: Turn, names: FunctionNames, *, provider: str) -> ToolChoice:
    """Raises UpstreamRefused (400) for a choice that names no function."""
    choice = turn.options.get("tool_choice")
    if choice is None or choice in ("auto", "none", "required"):
        return choice
    if isinstance(choice, Mapping) and choice.get("type") == "allowed_tools":
        allowed = _named(choice.get("tools") or (), names, provider)
        return AllowedFunctions(names=allowed, required=choice.get("mode") == "required")
    return AllowedFunctions(names=_named([choice], names, provider), required=True)


def allowed_among(
    choice: ToolChoice, functions: Sequence[OfferedFunction], *, provider: str
) -> tuple[Sequence[OfferedFunction], ToolChoice]:
    """The functions that a choice leaves, and the choice among them. Raises UpstreamRefused (400) where it leaves none to a call that
    must be made."""
    if isinstance(choice, AllowedFunctions):
        left = [function for function in functions if function.name in choice.names]
        if choice.names and not left:
            raise _no_function(provider, f"names no tool of the request: {', '.join(choice.names)}")
        if not left:
            return functions, "none"
        if len(left) == len(functions):
            return functions, "required" if choice.required else "auto"
        return left, AllowedFunctions(names=tuple(each.name for each in left), required=choice.required)
    if choice == "required" and not functions:
        raise _no_function(provider, "is required and the request has no tools")
    return functions, choice


def _no_function(provider: str, what: str) -> UpstreamRefused:
    return UpstreamRefused(provider, 400, f"tool_choice {what}.", code="unsupported_value", param="tool_choice")


def _named(choices: Sequence[object], names: FunctionNames, provider: str) -> tuple[str, ...]:
    """The functions that the choices name; the shell is one of them, a whole namespace several."""
    named: list[str] = []
    for choice in choices:
        kind = choice.get("type") if isinstance(choice, Mapping) else choice
        if kind == "shell":
            named.append(shell_function.NAME)
        elif kind == patch_function.TYPE:
            named.append(patch_function.NAME)
        elif kind in ("function", "custom") and isinstance(choice, Mapping):
            named.append(names.chosen(str(choice.get("name")), choice.get("namespace")))
        elif kind == "namespace" and isinstance(choice, Mapping):
            named += [tool.function for tool in names.tools if tool.namespace == choice.get("name")]
        else:
            raise UpstreamRefused(
                provider,
                400,
                f"tool_choice cannot be {kind!r} with it. Use auto, none, required, the shell or a function.",
                code="unsupported_tool",
                param="tool_choice",
            )
    return tuple(named)
