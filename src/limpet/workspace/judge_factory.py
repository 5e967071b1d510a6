"""What judging needs of the box it judges for: a parser of commands, where the box's directories are, where paths lead."""

from collections.abc import Sequence
from typing import Self

from limpet.core.ports import Sandbox, Walls
from limpet.guard.policy.bash.parser import Parser
from limpet.guard.policy.judge import Judge
from limpet.guard.policy.policy import Policy
from limpet.workspace.path_resolver import BoxDirectories, PathResolver
from limpet.workspace.walls import held_rules


class JudgeFactory:
    """Of one box. `async with` holds the parser, which is started when the first command is to be judged. `walls` are those that
    the kernel holds in it."""

    def __init__(self, sandbox: Sandbox, places: BoxDirectories, *, walls: Walls = Walls()) -> None:  # noqa: B008  # frozen
        self._sandbox = sandbox
        self.places = places
        self._walls = walls
        self._parser = Parser()
        self._is_open = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._is_open:
            await self._parser.__aexit__(None, None, None)

    async def ready(self) -> None:
        """Returns once commands can be read."""
        if not self._is_open:
            self._is_open = True
            await self._parser.__aenter__()

    def judge(self, policy: Policy, roots: Sequence[str]) -> Judge:
        """Who decides by this policy; `roots` are the directories that commands may use in any case."""
        resolver = PathResolver(self._sandbox, self.places)
        held = held_rules(policy, self._walls)
        if not set(self.places.roots) <= set(roots):  # a view that is held to less than the box has
            held -= {"allowed_paths"}
        return Judge(
            policy,
            parser=self._parser,
            roots=tuple(roots),
            home=self.places.home,
            resolve=resolver,
            links=resolver.links,
            held=held,
        )
