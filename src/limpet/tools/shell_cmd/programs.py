"""Which programs run code that stands in their arguments, or other programs: what `shell_cmd` refuses by name. Pure.

A guard rail with a good message, never a wall: a program of any other name may do the same. What holds is the box. What programs
may run is the guard's knowledge (`guard/policy/programs`); here is what that means without a shell, and what is said of it.
"""

import re
from collections.abc import Mapping, Sequence

from limpet.guard.policy.bash.builtins import WORDS_OF_SHELLS
from limpet.guard.policy.bash.variables import is_name
from limpet.guard.policy.environment import is_dangerous
from limpet.guard.policy.programs import hazards, wrappers
from limpet.guard.policy.programs.interpreters import inline_code
from limpet.guard.policy.programs.running_options import unversioned
from limpet.tools.shell_cmd.refusal import CommandRefusal, inline, runs_others

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
# Subcommands that run the program named after them: that program is judged.
_CARRIERS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys("uv poetry pipenv hatch pdm rye conda".split(), frozenset({"run"})),
    **dict.fromkeys("npm pnpm yarn bundle rbenv pyenv mise asdf".split(), frozenset({"exec", "x", "dlx"})),
}
_SCRIPTED = frozenset({"awk", "gawk", "mawk", "nawk", "sed", "gsed", "sqlite"})


def refuse_program(executable: str, args: Sequence[str]) -> CommandRefusal | None:
    """Why this program must not be run with these arguments, or None (docs/shell-cmd-tool.md)."""
    name = unversioned(executable)
    if name in WORDS_OF_SHELLS:
        return CommandRefusal(
            "inline_script", executable, "is a word of a shell, and there is no shell", "name a program"
        )
    if _ASSIGNMENT.match(executable):
        return CommandRefusal("inline_script", executable, "is an assignment and no program", "name a program")
    if name == "env":
        return _refuse_env(args)
    if wrappers.runs_its_arguments(name) or wrappers.is_loader(executable.rsplit("/", 1)[-1]):
        return runs_others(executable, "name the program itself as the command")
    if args and args[0] in _CARRIERS.get(name, ()):
        return _refuse_carried(f"{executable} {args[0]}", args[1:])
    if found := inline_code(name, args):
        return inline(f"{executable} {found}")
    return _refuse_option(name, executable, args)


def _refuse_carried(carrier: str, args: Sequence[str]) -> CommandRefusal | None:
    args = args[1:] if args and args[0] == "--" else args
    if args and args[0].startswith("-"):
        return runs_others(f"{carrier} {args[0]}", "name the program right after it, without options")
    return refuse_program(args[0], args[1:]) if args else None


def _refuse_env(args: Sequence[str]) -> CommandRefusal | None:
    """`env NAME=VALUE … program args`: the program is judged. Options of env itself are refused."""
    for place, word in enumerate(args):
        if word.startswith("-"):
            return runs_others(f"env {word}", "name the program itself as the command")
        name, equals, _ = word.partition("=")
        if not equals:
            return refuse_program(word, args[place + 1 :])
        if is_dangerous(name) or not is_name(name):
            return runs_others(f"env {word}", f"leave {name} as it is")
    return None


def _refuse_option(name: str, executable: str, args: Sequence[str]) -> CommandRefusal | None:
    hazard = hazards.of_words(name, args)
    if hazard is None:
        return None
    what = f"{executable} {hazard.word}".rstrip()
    return inline(what) if name in _SCRIPTED else runs_others(what, hazard.instead)
