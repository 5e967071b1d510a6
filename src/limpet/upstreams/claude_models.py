"""What Claude models differ in as far as a request must know it. Pure. Source: Anthropic's documentation ("Models overview", "Extended
thinking", "Effort", "Structured outputs", "Prompt caching"), as pydantic-ai's profiles have it, which were measured.

A model that is not named here is asked as the oldest are: with a budget for thinking and a modest length.
"""

from dataclasses import dataclass

_FIFTH = ("claude-fable-5", "claude-mythos-5", "claude-opus-5", "claude-sonnet-5", "claude-haiku-5-5")
_ADAPTIVE = (
    *_FIFTH,
    "claude-mythos-preview",
    "claude-sonnet-4-6",
    "claude-opus-4-6",
    "claude-opus-4-7",
    "claude-opus-4-8",
)
_EFFORT = (*_FIFTH, "claude-sonnet-4-6", "claude-opus-4-5", "claude-opus-4-6", "claude-opus-4-7", "claude-opus-4-8")
_NEWEST = (*_FIFTH, "claude-opus-4-7", "claude-opus-4-8")  # take no temperature, and every effort
_LONG = (*_FIFTH, "claude-sonnet-4-6", "claude-opus-4-6", "claude-opus-4-7", "claude-opus-4-8")
_LONGER_THAN_OTHERS = ("claude-haiku-4-5", "claude-opus-4-5", "claude-sonnet-4-5")
_SCHEMAS = (*_LONG, *_LONGER_THAN_OTHERS, "claude-opus-4-1")
_INLINE_SYSTEM = ("claude-fable-5", "claude-mythos-5", "claude-opus-4-8", "claude-opus-5")
_THINKS_BY_DEFAULT = (*_FIFTH, "claude-mythos-preview")
_ALWAYS_THINKS = ("claude-fable-5", "claude-mythos-5", "claude-mythos-preview", "claude-opus-5-5")
_NEVER_FORCED = (
    "claude-fable-5-1",
    "claude-fable-5-2",
    "claude-mythos-5-1",
    "claude-mythos-5-2",
    "claude-opus-5-5",
    "claude-sonnet-5-5",
)
_BINDS_THINKING = (
    "claude-fable-5-1",
    "claude-fable-5-2",
    "claude-mythos-5-2",
    "claude-opus-5-5",
    "claude-sonnet-5-5",
    "claude-haiku-5-5",
)
# These refuse a request whose input and greatest length together exceed their context.
_EARLY = ("claude-3", "claude-4-", "claude-opus-4-0", "claude-opus-4-1", "claude-opus-4-2", "claude-opus-4@")
_EARLY_SONNET = ("claude-sonnet-4-0", "claude-sonnet-4-2", "claude-sonnet-4@")

BUDGETS = {"minimal": 1024, "low": 2048, "medium": 10_000, "high": 16_384, "xhigh": 32_768, "max": 32_768}
MODEST_TOKENS, EARLY_TOKENS, AFTER_THINKING = 16_384, 4096, 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaudeModel:
    """One model, by its name. `most_tokens` of output, None where that is not known; `usual_tokens` where the client asks for no length."""

    name: str
    most_tokens: int | None
    usual_tokens: int
    thinks_adaptively: bool
    knows_effort: bool
    knows_every_effort: bool
    takes_sampling: bool
    takes_schemas: bool
    takes_inline_system: bool
    takes_forced_tools: bool
    thinks_by_default: bool
    always_thinks: bool
    thinks_between_tools: bool
    binds_thinking: bool

    def effort(self, effort: str) -> str:
        """The nearest effort that it knows."""
        if effort == "minimal":
            return "low"
        if effort in ("xhigh", "max") and self.name.startswith("claude-opus-4-5"):
            return "high"
        return "max" if effort == "xhigh" and not self.knows_every_effort else effort


def claude_model(name: str) -> ClaudeModel:
    """The model of that name; of one that is not known what all take."""
    most = 128_000 if name.startswith(_LONG) else 64_000 if name.startswith(_LONGER_THAN_OTHERS) else None
    is_early = name in ("claude-opus-4", "claude-sonnet-4") or name.startswith((*_EARLY, *_EARLY_SONNET))
    return ClaudeModel(
        name=name,
        most_tokens=most,
        usual_tokens=EARLY_TOKENS if is_early else most or MODEST_TOKENS,
        thinks_adaptively=name.startswith(_ADAPTIVE),
        knows_effort=name.startswith(_EFFORT),
        knows_every_effort=name.startswith(_NEWEST),
        takes_sampling=not name.startswith(_NEWEST),
        takes_schemas=name.startswith(_SCHEMAS),
        takes_inline_system=name.startswith(_INLINE_SYSTEM),
        takes_forced_tools=not name.startswith(_NEVER_FORCED),
        thinks_by_default=name.startswith(_THINKS_BY_DEFAULT),
        always_thinks=name.startswith(_ALWAYS_THINKS),
        thinks_between_tools=name.startswith("claude-sonnet-5-5"),
        binds_thinking=name.startswith(_BINDS_THINKING),
    )
