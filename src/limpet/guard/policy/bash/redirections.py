"""What a redirection opens, feeds and sets. Pure."""

import re

from limpet.guard.policy.bash import parameters
from limpet.guard.policy.bash.effects_found import FileOpening, StdinSource
from limpet.guard.policy.bash.simple_commands import CommandContext
from limpet.guard.policy.bash.state import NUMBERS, ShellState
from limpet.guard.policy.bash.tree import Redirect
from limpet.guard.policy.bash.variables import is_name
from limpet.guard.policy.bash.words import Field, fields, text_of

_EXPANDED_TWICE = re.compile(r"[A-Za-z0-9_./+-]+")  # what bash may: the word after >& and <& is expanded a second time
_WRITES = frozenset("> >> >| &> &>> <>".split())


def follow(script: CommandContext, redirect: Redirect, state: ShellState) -> None:
    """The file that it opens, the text that it feeds, the variable that it sets."""
    source = script.text(redirect)
    if redirect.n is not None and redirect.n.value.startswith("{"):
        name = redirect.n.value.strip("{}")
        if not is_name(name):
            script.unsure(redirect, "its descriptor's variable is a subscript", "use a plain name")
        script.assign(name, state, source=source)
        state.set(name, NUMBERS)
    if redirect.op in ("<<", "<<-", "<<<"):
        body = redirect.word if redirect.op == "<<<" else redirect.hdoc
        text = text_of(body, state, script) if redirect.op == "<<<" else parameters.here_document(body, state, script)
        script.feed = StdinSource(texts=(text,)) if text is not None else StdinSource(is_unsure=True)
        return
    for made in fields(redirect.word, state, script) if redirect.word else []:
        target = made[0] if len(made) == 1 else Field("", source, "unknown")
        if redirect.op in ("<&", ">&") and (
            target.kind == "number" or (target.is_exact and is_descriptor(target.text))
        ):
            continue
        if redirect.op in ("<&", ">&") and not (target.is_exact and _EXPANDED_TWICE.fullmatch(target.text)):
            script.unsure(redirect, "bash expands it twice", "write > FILE 2>&1")
        writes = redirect.op in _WRITES or redirect.op == ">&"
        script.analysis.openings.append(FileOpening(target=target, writes=writes, source=source, places=state.places))
        if not writes:
            script.feed = StdinSource(is_unsure=True)


def is_descriptor(text: str) -> bool:
    """What may follow >& and <& without naming a file."""
    return text == "-" or text.removesuffix("-").isdigit()
