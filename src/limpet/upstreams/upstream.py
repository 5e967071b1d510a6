"""The port of a provider of model turns, and the values that pass through it.

One turn is one model answer. The language between loop and upstream is OpenAI's: input items and output events are the
Responses API's own dicts, so that a Responses-native provider is relayed and the others are translated once, at the border.
Only shell calls are translated for every provider: they arrive as CallBegun, CommandText and CallMade, however the provider spells them.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, Self

from limpet.upstreams.endings import IncompleteReason, ResponseError
from limpet.upstreams.usage import Usage

# On a message of `Turn.input` that stands for items which were left out, an object: `items` of them, `outputs` of the shell among them
# that came after the newest message of the user. It is the gateway's own and goes to no provider.
LEFT_OUT = "limpet_left_out"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellOffer:
    """The shell tool that a model is offered. `description` says where it runs, what persists, the time limit, where long output belongs
    and whether there is a network; function-tool providers embed it, a native one gets it only if its API has a field for it."""

    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What to ask for.

    `model` is the provider's own name of it. `input` holds Responses input items, oldest first; shell calls and outputs among them
    are canonical (`shell_call`, `shell_call_output`, the latter already trimmed to what the model may see). `tools` are the
    client's tools as given, without the shell; `shell` is set when the model may call the shell. `provider_shell` is a shell tool that
    the provider itself runs, only where it `has_native_shell`: its calls and their outputs are visible items like others. `options` are
    the remaining create parameters that were given (temperature, top_p, max_output_tokens, reasoning, text, tool_choice,
    parallel_tool_calls, metadata …), under their wire names. `attempt_id` is stable for this turn, for a provider that knows idempotency
    keys.
    """

    model: str
    input: Sequence[Mapping[str, Any]]
    instructions: str | None = None
    tools: Sequence[Mapping[str, Any]] = ()
    shell: ShellOffer | None = None
    provider_shell: Mapping[str, Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    attempt_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellArguments:
    """What a shell call asks for. `timeout_ms` and `max_output_length` are the model's own numbers, unchecked against any cap."""

    commands: tuple[str, ...]
    timeout_ms: int | None = None
    max_output_length: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BadArguments:
    """The model's arguments could not be read. `reason` tells the model what would be right; `raw` is what it sent."""

    reason: str
    raw: str


@dataclass(frozen=True, slots=True)
class Emit:
    """An event of a visible item, to be passed on. `output_index`, where it has one, counts within this turn from 0."""

    type: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallBegun:
    """The model has begun a shell call, the `index`-th item of this turn."""

    index: int
    call_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandText:
    """More text of one command of a begun call, as the model writes it. Optional: `CallMade` has the whole."""

    index: int
    command_index: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallMade:
    """The model has finished a shell call."""

    index: int
    call_id: str
    arguments: ShellArguments | BadArguments


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnded:
    """The last event of every turn. `usage` is None where the provider did not say. `response` holds fields of the provider's own
    response object that are worth showing (model, service_tier …). `status` failed carries `error`, incomplete `incomplete_reason`."""

    status: Literal["completed", "incomplete", "failed"]
    usage: Usage | None = None
    incomplete_reason: IncompleteReason | None = None
    error: ResponseError | None = None
    response: Mapping[str, Any] = field(default_factory=dict)


TurnEvent = Emit | CallBegun | CommandText | CallMade | TurnEnded


class ProviderCompaction(Protocol):
    """What compacts conversations at a provider."""

    async def compact(self, turn: Turn) -> dict[str, Any]:
        """The provider's own answer to `POST /responses/compact`: `output` is a list of items, one of them a compaction. Raises
        UpstreamRefused."""
        ...


class Upstream(Protocol):
    """A provider. Constructors only store; `async with` opens and closes its client."""

    @property
    def name(self) -> str:
        """The provider's name in the configuration."""
        ...

    @property
    def type(self) -> str:
        """Its type in the configuration: openai, openai_chat, anthropic, script …"""
        ...

    @property
    def has_native_shell(self) -> bool:
        """Whether its models know a shell tool of their own."""
        ...

    @property
    def compaction(self) -> ProviderCompaction | None:
        """What compacts conversations there. Such a provider also follows `context_management` and `compaction_trigger` in a turn, and
        reads the items that it sealed; None: the gateway does it."""
        ...

    @property
    def tool_types(self) -> frozenset[str] | None:
        """The types of tools that it accepts besides the shell, in a turn and within a namespace; None: every type."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc: object) -> None: ...

    async def model_names(self) -> Sequence[str]:
        """The models that the provider lists; none where it cannot be reached or lists none. Takes as long as the provider: callers
        bound it. Raises UpstreamRefused for a key that cannot be sent."""
        ...

    def stream(self, turn: Turn) -> AsyncGenerator[TurnEvent, None]:
        """The events of one turn, `TurnEnded` last. Items are complete: each `response.output_item.added` is followed by its `done`.
        Closing the iterator ends the request. The provider's key is in no event and no error.

        Raises:
            UpstreamRefused: before the first event. The provider refused the turn or could not be reached; 429 and 5xx were retried with
                back-off by then. Asking again may succeed.
            UpstreamBroken: after the first event. The answer broke off or could not be read; what was yielded before is kept.
        """
        ...
