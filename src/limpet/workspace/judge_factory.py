"""What judging needs of the box it judges for: a parser of commands, where the box's directories are, where paths lead."""

import posixpath
from collections.abc import Sequence
from typing import Self

from limpet.core.command import Argv, Script
from limpet.core.ports import Sandbox, Walls
from limpet.guard.policy.bash.parser import Parser
from limpet.guard.policy.judge import Judge
from limpet.guard.policy.policy import Policy
from limpet.guard.policy.posix_shell import refuse_unlike_bash
from limpet.guard.policy.verdict import Denied
from limpet.workspace.path_resolver import BoxDirectories, PathResolver
from limpet.workspace.walls import held_rules


class BashReader:
    """The parser of commands, started when the first one is to be judged; one serves any number of boxes. `async with` ends it."""

    def __init__(self) -> None:
        self.parser = Parser()
        self._is_open = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._is_open:
            await self.parser.__aexit__(None, None, None)

    async def ready(self) -> None:
        """Returns once commands can be read."""
        if not self._is_open:
            self._is_open = True
            await self.parser.__aenter__()


class JudgeFactory:
    """Of one box. `reader` is open; `walls` are those that the kernel holds in the box."""

    def __init__(self, sandbox: Sandbox, places: BoxDirectories, *, reader: BashReader, walls: Walls = Walls()) -> None:  # noqa: B008  # frozen
        self._sandbox = sandbox
        self.places = places
        self._reader = reader
        self._walls = walls

    async def ready(self) -> None:
        """Returns once commands can be read."""
        await self._reader.ready()

    def refuse_unlike_bash(self, what: Script | Argv) -> Denied | None:
        """The refusal of what cannot be judged because another shell than bash runs it in this box."""
        return None if posixpath.basename(self._sandbox.ref.shell) == "bash" else refuse_unlike_bash(what)

    def judge(self, policy: Policy, roots: Sequence[str]) -> Judge:
        """Who decides by this policy; `roots` are the directories that commands may use in any case."""
        resolver = PathResolver(self._sandbox, self.places)
        held = held_rules(policy, self._walls)
        if not set(self.places.roots) <= set(roots):  # a view that is held to less than the box has
            held -= {"allowed_paths"}
        return Judge(
            policy,
            parser=self._reader.parser,
            roots=tuple(roots),
            home=self.places.home,
            resolve=resolver,
            links=resolver.links,
            held=held,
        )
