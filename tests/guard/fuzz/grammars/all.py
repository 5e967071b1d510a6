"""Every grammar, by name."""

from collections.abc import Mapping

from tests.guard.fuzz.expand import Grammar
from tests.guard.fuzz.grammars import (
    arithmetic,
    builtins,
    compound,
    expansions,
    functions,
    parameters,
    quoting,
    redirections,
    wrappers,
)

GRAMMARS: Mapping[str, Grammar] = {
    module.GRAMMAR.name: module.GRAMMAR
    for module in (quoting, parameters, expansions, redirections, compound, functions, arithmetic, builtins, wrappers)
}
