"""Which rules of a policy are built into the box as walls, and which a runtime can enforce that way. Pure.

The guard reads what a command says; walls hold what it does. A runtime builds in as much of them as it can, whatever the policy's
`enforce` says; "wall" refuses to go on where a rule would not be held.
"""

from limpet.core.errors import OfferMissing
from limpet.core.ports import Offer, Walls
from limpet.guard.policy.policy import Policy

# The shell of a box, and what is in it: no box can be without them (bash(1), SHELL BUILTIN COMMANDS; 5.2).
_OF_THE_SHELL = frozenset(
    ". : [ alias bash bg bind break builtin caller cd command compgen complete compopt continue declare dirs disown echo enable"
    " eval exec exit export false fc fg getopts hash help history jobs kill let local logout mapfile popd printf pushd pwd read"
    " readarray readonly return set shift shopt source suspend test times trap true type typeset ulimit umask unalias unset"
    " wait".split()
)
_FOLLOWS_LINKS = "realpath"  # by which a workspace asks where a path leads (`places`)


def walls_of(policy: Policy | None) -> Walls:
    """What a box is built with for this policy."""
    if policy is None:
        return Walls()
    programs = policy.allowed_commands
    if programs is not None and policy.allowed_paths is not None:
        programs |= {_FOLLOWS_LINKS}
    return Walls(
        programs=programs,
        hidden=frozenset(entry for entry in policy.blocked_commands if _is_a_name(entry)),
        is_read_only=policy.readonly,
        paths=policy.allowed_paths,
    )


def refuse_unheld(policy: Policy | None, runtime: str, offers: frozenset[Offer], *, built: str) -> None:
    """OfferMissing that names the rule, where a policy wants walls and this box cannot have them. `built` is the digest of the
    walls that it has, or is about to get."""
    if policy is None or policy.enforce != "wall":
        return
    for rule, wall in asked_walls(policy).items():
        if wall is None or wall not in offers:
            raise OfferMissing(runtime, f"a wall for the rule {rule}", [offer.value for offer in offers])
    for entry in sorted(policy.blocked_commands):
        if not _can_be_hidden(entry):
            raise OfferMissing(runtime, f"a wall for the rule blocked_commands where it says {entry!r}: {_why(entry)}")
    if walls_of(policy).digest != built:
        raise OfferMissing(runtime, "walls in a box that was made without them, or with others")


def held_walls(walls: Walls, offers: frozenset[Offer], *, sees_only_its_own: bool) -> Walls:
    """What of these walls the kernel holds against every command. `sees_only_its_own`: nothing is mounted in the box beside its own
    directories and the system, so that it needs no wall against other paths."""
    paths = () if walls.paths is None and sees_only_its_own else walls.paths
    return Walls(
        programs=walls.programs if Offer.WALL_ALLOWED_COMMANDS in offers else None,
        hidden=walls.hidden if Offer.WALL_BLOCKED_COMMANDS in offers else frozenset(),
        is_read_only=walls.is_read_only and Offer.WALL_READONLY in offers,
        paths=paths if Offer.WALL_ALLOWED_PATHS in offers else None,
    )


def held_rules(policy: Policy, held: Walls) -> frozenset[str]:
    """The rules of a policy that these walls hold, so that the guard need not refuse what it cannot judge by them."""
    programs, paths = policy.allowed_commands, policy.allowed_paths
    rules = {
        "allowed_commands": programs is not None
        and held.programs is not None
        and held.programs <= programs | {_FOLLOWS_LINKS},
        "readonly": policy.readonly and held.is_read_only,
        "allowed_paths": paths is not None and held.paths is not None and set(held.paths) <= set(paths),
    }
    return frozenset(rule for rule, is_held in rules.items() if is_held)


def asked_walls(policy: Policy) -> dict[str, Offer | None]:
    """The rules of a policy that walls are wanted for, each with the offer that holds it; None where nothing can."""
    walls: dict[str, tuple[bool, Offer | None]] = {
        "allowed_commands": (policy.allowed_commands is not None, Offer.WALL_ALLOWED_COMMANDS),
        "blocked_commands": (bool(policy.blocked_commands), Offer.WALL_BLOCKED_COMMANDS),
        "readonly": (policy.readonly, Offer.WALL_READONLY),
        "allowed_paths": (policy.allowed_paths is not None, Offer.WALL_ALLOWED_PATHS),
        "confirm_destructive": (policy.confirm_destructive, None),
    }
    return {rule: offer for rule, (is_asked, offer) in walls.items() if is_asked}


def _is_a_name(entry: str) -> bool:
    """Whether it speaks of a program, not of a use of one."""
    return entry.split() == [entry]


def _can_be_hidden(entry: str) -> bool:
    return _is_a_name(entry) and entry not in _OF_THE_SHELL and not entry.endswith("/bash")


def _why(entry: str) -> str:
    return "the shell has it in itself." if entry in _OF_THE_SHELL else "a box has a program or has it not."
