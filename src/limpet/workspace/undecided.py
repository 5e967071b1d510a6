"""Until the guard can judge: whatever a policy would have to decide is denied."""

from collections.abc import Awaitable, Callable

from limpet.core.command import Command
from limpet.guard.policy import Policy
from limpet.guard.syntax import Parser
from limpet.guard.verdict import Denied, Verdict


class Judge:
    """Denies every command."""

    def __init__(
        self,
        policy: Policy,
        *,
        parser: Parser,
        roots: tuple[str, ...],
        home: str,
        resolve: Callable[[str], Awaitable[str | None]],
    ) -> None:
        self._policy = policy

    async def judge(self, command: Command) -> Verdict:
        return Denied(
            rule="policy", reason="Commands cannot be judged yet.", remedy="Open the workspace without a policy."
        )
