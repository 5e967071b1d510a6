"""A question to a provider, and what tests look for in the events of the turn."""

from limpet.upstreams.retries import RetryBudget
from limpet.upstreams.upstream import Emit, Turn, TurnEvent, Upstream

KEY = "sk-canary-5b1f0c9e77aa"
QUICK = RetryBudget(first_wait=0.001)
QUESTION = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]}


async def asked(upstream: Upstream, turn: Turn) -> list[TurnEvent]:
    return [event async for event in upstream.stream(turn)]


def text_of(events: list[TurnEvent], kind: str = "response.output_text.delta") -> str:
    return "".join(event.data["delta"] for event in events if isinstance(event, Emit) and event.type == kind)
