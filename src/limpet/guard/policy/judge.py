"""Whether a command may run under a policy. Pure but for the parse and for where links lead, both of which are handed in."""

import hashlib
import json
import posixpath
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from limpet.core.box_directories import HOME, OWN
from limpet.core.command import Argv, Command, Script
from limpet.guard.policy import paths
from limpet.guard.policy.analysis import analyze, plain_name
from limpet.guard.policy.bash.effects_found import Analysis, shortened
from limpet.guard.policy.bash.parser import Parser, Unreadable
from limpet.guard.policy.policy import Policy
from limpet.guard.policy.programs import destructive
from limpet.guard.policy.programs.catalog import known
from limpet.guard.policy.rules import PolicyRules
from limpet.guard.policy.verdict import Allowed, Denied, NeedsApproval, Verdict

Resolve = Callable[[str], Awaitable[str | None]]
Links = Callable[[str], Awaitable[Sequence[str] | None]]
KNOWN = 512
_Key = tuple[Script | Argv, str | None, tuple[tuple[str, str], ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judgement:
    """What can be said of a command without its files: refused, asked about, and the paths that are still to be looked at."""

    denied: Denied | None = None
    asks: str | None = None
    uses: tuple[paths.PathUse | paths.Unsure, ...] = ()


class Judge:
    """Judges commands by one policy. Verdicts are by text: a guard rail with good messages; the wall is the sandbox.

    `roots` are the directories that confinement always allows; `resolve` says where a path of the sandbox really leads: the real
    path of its nearest existing ancestor and the rest, None where that cannot be said (then the path is refused). Without it
    paths are compared by name only. `links` names the links in a directory (none where there is no such directory, None where
    it is unknown), so that a pattern (`src/*.py`) is refused that matches one which leads outside; without it patterns are not
    looked at so closely. `held` are the rules of the policy that the sandbox's walls hold: what cannot be judged by one of
    these is let through, and the wall decides. The newest 512 rulings are remembered; where paths lead is asked each time.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        parser: Parser,
        roots: Sequence[str] = OWN,
        home: str = HOME,
        resolve: Resolve | None = None,
        links: Links | None = None,
        held: frozenset[str] = frozenset(),
    ) -> None:
        self._policy = policy
        self._held = held
        self._parser = parser
        self._home = home
        self._place = roots[0] if roots else "/"
        self._roots = [posixpath.normpath(root) for root in (*roots, *(policy.allowed_paths or ()))]
        self._resolve = resolve
        self._links = links
        self._known: OrderedDict[_Key, _Judgement] = OrderedDict()

    async def judge(self, command: Command) -> Verdict:
        """The verdict. Never raises for what a command holds."""
        if _has_no_rules(self._policy):
            return Allowed()
        ruling = await self._ruling(command)
        if ruling.denied is not None:
            return ruling.denied
        for use in ruling.uses:
            if (denied := await self._outside(use) or await self._matches_outside(use)) is not None:
                return denied
        if ruling.asks is not None:
            return NeedsApproval(rule="confirm_destructive", reason=ruling.asks, digest=digest(command))
        return Allowed()

    @property
    def _holds_paths(self) -> bool:
        return "allowed_paths" in self._held

    async def _ruling(self, command: Command) -> _Judgement:
        key = (command.what, command.cwd, tuple(command.env.items()))
        if (earlier := self._known.get(key)) is not None:
            self._known.move_to_end(key)
            return earlier
        place = posixpath.join(self._place, command.cwd or "")
        analysis = await analyze(command, self._parser, home=self._home, place=place)
        ruling = (
            self._unreadable(analysis) if isinstance(analysis, Unreadable) else self._ruled(command, analysis, place)
        )
        self._known[key] = ruling
        if len(self._known) > KNOWN:
            self._known.popitem(last=False)
        return ruling

    def _unreadable(self, text: Unreadable) -> _Judgement:
        """What cannot be read is refused where a rule needs it read; else bash says itself what is wrong with it."""
        rulings = PolicyRules(self._policy, self._held)
        if rulings.strict is None:
            return _Judgement()
        remedy = "Write it in plain bash, and long texts into files."
        return _Judgement(denied=Denied(rule=rulings.strict, reason=f"The command {text.reason}.", remedy=remedy))

    def _ruled(self, command: Command, analysis: Analysis, place: str) -> _Judgement:
        rulings = PolicyRules(self._policy, self._held)
        denied = rulings.denied(analysis)
        if denied is not None:
            return _Judgement(denied=denied)
        uses: list[paths.PathUse | paths.Unsure] = []
        if self._policy.allowed_paths is not None:
            if command.cwd is not None:
                uses.append(paths.PathUse(place, command.cwd, place))
            for call in analysis.calls:
                if (name := plain_name(call)) is None or call.is_function:
                    continue
                # The words of an unknown program may mean anything; where a wall enforces the rule, they need not be guessed.
                if known(name) is not None or not self._holds_paths:
                    uses += paths.of_call(call, name)
            for opening in analysis.openings:
                uses += paths.of_opening(opening)
            for listing in analysis.listings:
                uses += paths.of_listing(listing)
        return _Judgement(asks=self._asks(analysis), uses=tuple(dict.fromkeys(uses)))

    def _asks(self, analysis: Analysis) -> str | None:
        if not self._policy.confirm_destructive:
            return None
        for call in analysis.calls:
            name = plain_name(call)
            if name is not None and not call.is_function and (why := destructive.destroys(call, name)) is not None:
                return f"`{shortened(call.source)}` needs a yes first: {why}."
        return None

    async def _outside(self, use: paths.PathUse | paths.Unsure) -> Denied | None:
        """The refusal of a path that is not, or not surely, in an allowed directory."""
        if isinstance(use, paths.Unsure):
            return None if self._holds_paths else _unsure(use.source, use.why, use.instead)
        path = use.absolute
        if path is None:
            return (
                None
                if self._holds_paths
                else _unsure(
                    use.source,
                    "counts from a directory that is not known before it runs",
                    "write the path from the root",
                )
            )
        if paths.is_device(posixpath.normpath(path)):
            return None
        real = await self._resolve(path) if self._resolve is not None else posixpath.normpath(path)
        if real is None:
            return (
                None
                if self._holds_paths
                else _unsure(use.source, "leads to an unknown place", "name a file that can be reached")
            )
        credentials = paths.CREDENTIALS.search(path) or paths.CREDENTIALS.search(real)
        if credentials and not self._policy.credential_paths_too:
            return Denied(
                rule="allowed_paths",
                reason=f"`{shortened(use.source)}` is {path}, and credentials lie there.",
                remedy="Leave it alone; credential_paths_too would open it.",
            )
        if any(real == root or real.startswith(root.rstrip("/") + "/") for root in await self._real_roots()):
            return None
        shown = path if real == posixpath.normpath(path) else f"{path}, which leads to {real},"
        return Denied(
            rule="allowed_paths",
            reason=f"`{shortened(use.source)}` is {shown} outside {', '.join(self._roots)}.",
            remedy="Use a path inside, or add the directory to allowed_paths.",
        )

    async def _matches_outside(self, use: paths.PathUse | paths.Unsure) -> Denied | None:
        """The refusal of a pattern that matches a link which leads outside."""
        if (
            self._holds_paths
            or self._links is None
            or isinstance(use, paths.Unsure)
            or not use.is_pattern
            or use.absolute is None
        ):
            return None
        directory = posixpath.dirname(use.absolute.rstrip("/"))
        names = await self._links(directory)
        if names is None:
            return _unsure(use.source, "matches names in a directory that cannot be read", "name the files")
        for name in names:
            if paths.may_match(use.path, name):
                found = paths.PathUse(posixpath.join(directory, name), use.source, use.place)
                if (denied := await self._outside(found)) is not None:
                    return denied
        return None

    async def _real_roots(self) -> list[str]:
        if self._resolve is None:
            return self._roots
        return [real for root in self._roots if (real := await self._resolve(root)) is not None]


def digest(command: Command) -> str:
    """Of the exact command: its text or argv, cwd and env. An approval holds for it and for nothing else."""
    match command.what:
        case Script(text):
            what: list[object] = ["script", text]
        case Argv(args):
            what = ["argv", *args]
    exact = json.dumps([what, command.cwd, sorted(command.env.items())], ensure_ascii=True)
    return hashlib.sha256(exact.encode()).hexdigest()


def _has_no_rules(policy: Policy) -> bool:
    return not (
        policy.blocks_platform_defaults
        or policy.blocked_commands
        or policy.readonly
        or policy.confirm_destructive
        or policy.allowed_commands is not None
        or policy.allowed_paths is not None
    )


def _unsure(source: str, why: str, instead: str) -> Denied:
    return Denied(
        rule="allowed_paths", reason=f"`{shortened(source)}` {why}.", remedy=f"{instead[:1].upper()}{instead[1:]}."
    )
