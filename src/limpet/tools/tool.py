"""The interface of a tool: what a model is shown, and what a call returns. Runs nothing."""

from collections.abc import Mapping
from typing import Any, Protocol

JsonObject = dict[str, Any]


class Tool(Protocol):
    """A tool of any kind. Its results are JSON values: redacted, and bounded in size."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str:
        """What the model reads: when to use it, and what its limits are."""
        ...

    @property
    def parameters(self) -> JsonObject:
        """A JSON Schema of type object."""
        ...

    async def call(self, arguments: Mapping[str, Any], *, call_id: str | None = None) -> JsonObject:
        """Execute one call. `call_id` is the model's own id of the call, and is what events carry.

        Wrong arguments, a refusal by the policy and a workspace that is gone come back as `failure(...)`, never as an exception: a
        model can act on a sentence. Cancelling the caller ends what was started.

        Raises: nothing but programming errors of Limpet itself.
        """
        ...


def failure(code: str, message: str, **facts: Any) -> JsonObject:
    """The result of a call that did nothing: `{"error": {"code", "message", …}}`. `message` says what was wrong, what is right,
    and shows an example where that helps."""
    return {"error": {"code": code, "message": message, **facts}}
