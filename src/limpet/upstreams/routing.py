"""Which provider answers for a model's name. Decides only: providers are opened elsewhere and handed in."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal

from limpet.core.errors import NotFound
from limpet.core.secret import Secret
from limpet.core.settings import Between, Names, Seconds, TableName
from limpet.upstreams.upstream import Upstream

ProviderType = Literal["openai", "azure_openai", "openai_chat", "anthropic", "bedrock", "vertex", "script"]
# Settings that only these types have.
OF_TYPES: Mapping[str, tuple[ProviderType, ...]] = {
    "deployments": ("azure_openai",),
    "api_version": ("azure_openai",),
    "entra_scope": ("azure_openai",),
    "region": ("bedrock", "vertex"),
    "profile": ("bedrock",),
    "project": ("vertex",),
    "credentials_file": ("vertex",),
}
_GLOB = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings:
    """One `[providers.NAME]` section.

    `base_url` is the address in front of `/responses`, `/chat/completions` or `/v1/messages`; None is the type's usual one. Of
    `azure_openai` it is the resource's, which is required; there `deployments` names what serves a model, where it has another name,
    `api_version` is one of the dated APIs (None: the v1 API), and without a key a token of Microsoft Entra ID is taken for `entra_scope`.
    `region` is that of `bedrock` and `vertex`; `profile` is one of Amazon's, `project` and `credentials_file` are Google's.
    `models` are names or glob patterns of the models that it serves; none at all is every model, by the name `provider/model` only.
    `native_shell = False` shows a Responses-native provider a function tool in place of its own shell tool; with
    `native_compaction = False` the gateway compacts its conversations, as it does for all others. Times are
    in seconds: `connect_timeout_secs` to reach the provider, `first_byte_timeout_secs` from the request to the first byte of its
    answer, `idle_timeout_secs` between two bytes, `retry_budget_secs` after the first failure until it is asked for the last time,
    at most `max_retries` times again.
    """

    name: Annotated[str, TableName()]
    type: ProviderType
    base_url: str | None = None
    api_key: Secret | None = None
    models: tuple[str, ...] = ()
    deployments: Annotated[Mapping[str, str], Names(lower=False)] = field(default_factory=dict)
    api_version: str | None = None
    entra_scope: str | None = None
    region: str | None = None
    profile: str | None = None
    project: str | None = None
    credentials_file: Path | None = None
    native_shell: bool = True
    native_compaction: bool = True
    connect_timeout_secs: Seconds = 10.0
    first_byte_timeout_secs: Seconds = 120.0
    idle_timeout_secs: Seconds = 120.0
    max_retries: Annotated[int, Between(0, 100)] = 3
    retry_budget_secs: Annotated[float, Between(0, 86_400)] = 30.0

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """See `core.settings.Checked`."""
        if self.type == "azure_openai" and self.base_url is None:
            yield "base_url", "is missing: the address of the resource, such as https://NAME.openai.azure.com"
        for key, types in OF_TYPES.items():
            if getattr(self, key) and self.type not in types:
                yield key, f"belongs to type = {' or '.join(types)}, and this one is {self.type}"


@dataclass(frozen=True, slots=True)
class Route:
    """An open provider and the names or patterns of the models that it serves."""

    upstream: Upstream
    models: tuple[str, ...] = ()

    @property
    def is_open_ended(self) -> bool:
        """Whether it serves models that the configuration does not name."""
        return not self.models or any(_GLOB.search(name) for name in self.models)


@dataclass(frozen=True, slots=True)
class ChosenRoute:
    """Who answers, and under which of its own names."""

    upstream: Upstream
    model: str


@dataclass(frozen=True, slots=True)
class ListedModel:
    """A model as `GET /v1/models` lists it: `id` is a name that `Router.find` accepts."""

    id: str
    provider: str


class Router:
    """Finds the provider of a model. The routes are asked in the order of the configuration."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = tuple(routes)

    def find(self, model: str) -> ChosenRoute:
        """`provider/model` first, where that provider serves it; then the first route with a pattern for the whole name.

        Raises NotFound, code model_not_found, whose message lists what there is.
        """
        provider, slash, rest = model.partition("/")
        for route in self._routes:
            if slash and rest and route.upstream.name == provider and _serves(route, rest, full=model):
                return ChosenRoute(route.upstream, rest)
        for route in self._routes:
            if _matches(route, model):
                return ChosenRoute(route.upstream, model)
        raise NotFound(
            f"The model {model[:256]!r} does not exist here. {self._what_there_is()}",
            param="model",
            code="model_not_found",
        )

    def models(self, known: Mapping[str, Sequence[str]] | None = None) -> list[ListedModel]:
        """The models whose names are known, each once; `known` are those that providers list, by the provider's name. A pattern
        stands for what it matches of them; a name that an earlier route would take is listed as `provider/model`."""
        listed: dict[str, ListedModel] = {}
        for route in self._routes:
            named = [name for name in route.models if not _GLOB.search(name)]
            told = (known or {}).get(route.upstream.name, ()) if route.is_open_ended else ()
            for name in [
                *named,
                *(name for name in told if _serves(route, name, full=f"{route.upstream.name}/{name}")),
            ]:
                listed_as = name if self._takes(route, name) else f"{route.upstream.name}/{name}"
                listed.setdefault(listed_as, ListedModel(listed_as, route.upstream.name))
        return list(listed.values())

    def _takes(self, route: Route, name: str) -> bool:
        try:
            return self.find(name).upstream is route.upstream
        except NotFound:
            return False

    def _what_there_is(self) -> str:
        names = [model.id for model in self.models()]
        names += [name for route in self._routes for name in route.models if _GLOB.search(name)]
        names += [f"{route.upstream.name}/…" for route in self._routes if not route.models]
        if not names:
            return "No provider is configured; add a [providers.NAME] section."
        return f"Use one of: {', '.join(dict.fromkeys(names))}."


def _serves(route: Route, name: str, *, full: str) -> bool:
    return not route.models or _matches(route, name) or _matches(route, full)


def _matches(route: Route, name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in route.models)
