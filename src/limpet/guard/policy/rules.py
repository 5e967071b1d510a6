"""The rules of a policy over what a command would do: names, readers, what the platform refuses. Pure."""

from limpet.core.command import Script
from limpet.guard.policy import paths
from limpet.guard.policy.analysis import plain_name
from limpet.guard.policy.bash import builtins
from limpet.guard.policy.bash.effects_found import Analysis, Call, Doubt, EvaluatedText, FileOpening, shortened
from limpet.guard.policy.policy import Policy
from limpet.guard.policy.posix_shell import refuse_unlike_bash
from limpet.guard.policy.programs import destructive, hazards, wrappers
from limpet.guard.policy.programs.catalog import WRITERS, known, plain
from limpet.guard.policy.programs.git_commands import only_reads
from limpet.guard.policy.programs.git_commands import read as read_git
from limpet.guard.policy.verdict import Denied

_OPAQUE_WRAPPERS = frozenset("sudo doas su chroot unshare watch flock setarch unbuffer caffeinate catchsegv".split())
_RUN_BY_POSIX_SHELLS = frozenset("sh dash ash watch flock".split())
_SHOWN = 30


class PolicyRules:
    """One policy's rules. `strict` is the rule because of which nothing unsure may run; None where there is none, or where the
    sandbox's walls hold all of them (`held`)."""

    def __init__(self, policy: Policy, held: frozenset[str] = frozenset()) -> None:
        self._policy = policy
        self._held = held
        self._allowed = policy.allowed_commands
        asked = {
            "allowed_commands": policy.allowed_commands is not None,
            "readonly": policy.readonly,
            "allowed_paths": policy.allowed_paths is not None,
        }
        self.strict = next((rule for rule, is_asked in asked.items() if is_asked and rule not in held), None)

    def denied(self, analysis: Analysis) -> Denied | None:
        """The first refusal; names before doubts, so that the message says the nearest thing."""
        if self._policy.blocks_platform_defaults and analysis.bombs:
            return _refused("blocked_commands", analysis.bombs[0], "it starts itself again and again")
        for call in analysis.calls:
            if (denied := self._call(call)) is not None:
                return denied
        for opening in analysis.openings:
            if (denied := self._opening(opening)) is not None:
                return denied
        if self.strict is None:
            return None
        doubts = (doubt for doubt in analysis.doubts if doubt.variable not in self._policy.environment)
        return next((self._doubted(doubt) for doubt in doubts), None)

    def _call(self, call: Call) -> Denied | None:
        name = plain_name(call)
        if name is None or call.is_function:
            return None
        if (denied := self._blocked(call, name)) is not None:
            return denied
        if call.in_shell and name in builtins.STEERING:
            return None
        return (
            self._not_allowed(call, name)
            or self._not_reading(call, name)
            or self._opaque(call, name)
            or self._hazard(call, name)
            or self._misread(call, name)
        )

    def _misread(self, call: Call, name: str) -> Denied | None:
        """A text that a POSIX shell runs, and that it may read otherwise than it was judged."""
        blocks = bool(self._policy.blocked_commands) and "blocked_commands" not in self._held
        if name not in _RUN_BY_POSIX_SHELLS or (self.strict is None and not blocks):
            return None
        inner = wrappers.unwrapped(call, name) or ()
        texts = (*(one.text for one in inner if isinstance(one, EvaluatedText)), *call.feed.texts)
        return next((denied for text in texts if (denied := refuse_unlike_bash(Script(text))) is not None), None)

    def _blocked(self, call: Call, name: str) -> Denied | None:
        for entry in self._policy.blocked_commands:
            parts = entry.split()
            if (
                parts
                and parts[0] in (name, call.name)
                and [word.text for word in call.fields[1 : len(parts)]] == parts[1:]
            ):
                return _refused("blocked_commands", call.source, f"{entry} is blocked")
        if self._policy.blocks_platform_defaults and (why := destructive.refused(call, name)) is not None:
            return _refused("blocked_commands", call.source, why)
        return None

    def _not_allowed(self, call: Call, name: str) -> Denied | None:
        if self._allowed is None or self._is_named(call, name) or _is_read_text(call, name):
            return None
        shown = ", ".join(sorted(self._allowed)[:_SHOWN]) or "none"
        return Denied(
            rule="allowed_commands",
            reason=f"`{shortened(call.name or name)}` is not among the allowed commands.",
            remedy=f"Allowed are: {shown}.",
        )

    def _is_named(self, call: Call, name: str) -> bool:
        return self._allowed is not None and (name in self._allowed or call.name in self._allowed)

    def _not_reading(self, call: Call, name: str) -> Denied | None:
        if not self._policy.readonly or _is_read_text(call, name):
            return None
        program = known(name)
        if program is None and self._is_named(call, name):
            return None
        if "readonly" in self._held and (program is None or program.reads or name == "git"):
            return None
        why = f"{name} is not known as a reader"
        if program is not None and program.reads:
            if (writes := hazards.writes(call, name)) is None:
                return None
            why = writes
        elif name == "git" and self._is_named(call, name) and only_reads(read_git(call.fields[1:])):
            return None
        return Denied(
            rule="readonly",
            reason=f"`{shortened(call.source)}` may change something: {why}.",
            remedy="Only commands that read may run, such as cat, grep, find, ls, head, wc and sort.",
        )

    def _opaque(self, call: Call, name: str) -> Denied | None:
        """Confinement cannot hold what a program does by itself."""
        if (
            self._policy.allowed_paths is None
            or "allowed_paths" in self._held
            or (known(name) is not None and name != "git")
            or self._is_named(call, name)
            or _is_read_text(call, name)
        ):
            return None
        if (
            wrappers.is_wrapper(name)
            and name not in _OPAQUE_WRAPPERS | wrappers.SHELLS
            and not wrappers.is_loader(name)
        ):
            return None
        return Denied(
            rule="allowed_paths",
            reason=f"`{shortened(call.name or name)}` may open any file by itself, so its paths can't be held.",
            remedy=f"Use programs that only open what they are told, or name {name} in allowed_commands.",
        )

    def _hazard(self, call: Call, name: str) -> Denied | None:
        if self.strict is None:
            return None
        hazard = hazards.of(call, name)
        if hazard is None and self._policy.allowed_paths is not None:
            hazard = hazards.lists(call, name)
        if hazard is not None:
            return self._doubted(Doubt(construct=shortened(call.source), why=hazard[0], instead=hazard[1]))
        if (
            plain(name) in WRITERS
            and name != "git"
            and any(_is_order(word.text, call.places) for word in call.fields[1:])
        ):
            return self._doubted(_order(call.source))
        return None

    def _opening(self, opening: FileOpening) -> Denied | None:
        if self._policy.blocks_platform_defaults and opening.writes and destructive.opens_device(opening.target):
            return _refused("blocked_commands", opening.source, "it writes over a device")
        if not opening.writes or (opening.target.is_exact and paths.is_device(opening.target.text)):
            return None
        if self._policy.readonly:
            return Denied(
                rule="readonly",
                reason=f"`{shortened(opening.source)}` writes a file.",
                remedy="Print instead; only /dev/null and other descriptors may be written to.",
            )
        is_unsure = not opening.target.is_known and self._allowed is not None and "git" in self._allowed
        if self.strict is not None and (is_unsure or _is_order(opening.target.text, opening.places)):
            return self._doubted(_order(opening.source))
        return None

    def _doubted(self, doubt: Doubt) -> Denied:
        assert self.strict is not None
        instead = doubt.instead
        return Denied(
            rule=self.strict,
            reason=f"`{doubt.construct}` can't be judged: {doubt.why}.",
            remedy=f"{instead[:1].upper()}{instead[1:]}.",
        )


def _is_read_text(call: Call, name: str) -> bool:
    """`bash -c text`, where the text is judged as a script of its own."""
    if name != "bash":
        return False
    text = wrappers.command_text(call)
    return text is not None and text[1] and text[0].is_exact


def _is_order(text: str, places: frozenset[str] | None) -> bool:
    return any(paths.ORDERS.search(f"{place}/{text}") for place in places or {""})


def _order(source: str) -> Doubt:
    return Doubt(construct=shortened(source), why="other commands find orders there", instead="leave that file alone")


def _refused(rule: str, source: str, why: str) -> Denied:
    return Denied(rule=rule, reason=f"`{shortened(source)}` is refused: {why}.", remedy="Do without it.")
