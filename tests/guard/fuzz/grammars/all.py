"""Every grammar, by name."""

from collections.abc import Mapping

from tests.guard.fuzz.expand import Source
from tests.guard.fuzz.grammars import (
    arithmetic,
    builtins,
    compound,
    expansions,
    flow,
    forgetting,
    functions,
    mutations,
    parameters,
    quoting,
    redirections,
    tokens,
    wrappers,
)

_TABLES = (
    quoting,
    parameters,
    expansions,
    redirections,
    compound,
    functions,
    forgetting,
    arithmetic,
    builtins,
    flow,
    wrappers,
)
GRAMMARS: Mapping[str, Source] = {
    source.name: source for source in (*(module.GRAMMAR for module in _TABLES), mutations.MUTATIONS, tokens.TOKENS)
}
