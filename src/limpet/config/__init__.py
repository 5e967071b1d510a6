"""The operator's settings: limpet.toml and the environment, read once, checked whole, refused with the sentence that mends them.

Opens nothing but the file and knows no part's inside.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from limpet.config.bind import Binder, conflicts
from limpet.config.sections import Features, Sections
from limpet.config.sources import find_source, overlaid, source_of
from limpet.config.storage import Storage, settled
from limpet.core.errors import ConfigInvalid
from limpet.core.home import home_directory
from limpet.core.loopback import is_loopback
from limpet.core.secret import Secret
from limpet.ingress.settings import AuthSettings, ServerSettings
from limpet.store.settings import DatabaseSettings
from limpet.upstreams.routing import ProviderSettings, ProviderType

BUILT_IN = ProviderSettings(name="limpet", type="script", models=("limpet/script",))
USUAL_KEYS: Mapping[ProviderType, str] = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
USUAL_MODELS = {"openai": ("gpt-*", "o[1-9]*", "codex-*"), "anthropic": ("claude-*",)}
USUAL_HOSTS = {"openai": "api.openai.com", "openai_chat": "api.openai.com", "anthropic": "api.anthropic.com"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All settings. `source` is the file they came from or "the defaults"; `home` is LIMPET_HOME. `providers` are in the file's
    order, the built-in script last. `runtime_source` is the file or variable that chose the runtime, None where neither did."""

    source: str
    home: Path
    server: ServerSettings
    auth: AuthSettings
    database: DatabaseSettings
    storage: Storage
    providers: tuple[ProviderSettings, ...]
    features: Features
    runtime_source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """What the command line says; None and False leave what the file says."""

    host: str | None = None
    port: int | None = None
    unsafe_local: bool = False


def load_config(
    path: Path | None = None,
    *,
    overrides: Overrides | None = None,
    environ: Mapping[str, str] | None = None,
    working_directory: Path | None = None,
) -> Config:
    """The settings in force. Raises ConfigInvalid, which names the file or variable, the key and what would be right."""
    environ = os.environ if environ is None else environ
    home = home_directory(environ)
    source = find_source(path, home, working_directory or Path.cwd())
    whole = overlaid(source.table, environ, Sections)
    sections = Binder(where=source.where, base=source.base, environ=environ, root=Sections).table(Sections, whole)
    sections = _overridden(sections, overrides or Overrides())
    _check(sections, source.where)
    return Config(
        source=source.where,
        home=home,
        server=sections.server,
        auth=sections.auth,
        database=sections.database,
        storage=settled(sections.storage),
        providers=tuple(_providers(sections.providers, source.where, environ)),
        features=sections.features,
        runtime_source=source_of(whole, ("features", "shell", "type"), file=source.where),
    )


def _overridden(sections: Sections, overrides: Overrides) -> Sections:
    server = sections.server
    if overrides.host is not None:
        server = replace(server, host=overrides.host)
    if overrides.port is not None:
        server = replace(server, port=overrides.port)
    shell = sections.features.shell
    if overrides.unsafe_local:
        shell = replace(shell, unsafe_local=True)
    return replace(sections, server=server, features=replace(sections.features, shell=shell))


def _providers(
    sections: Mapping[str, ProviderSettings], where: str, environ: Mapping[str, str]
) -> Iterator[ProviderSettings]:
    for name, section in sections.items():
        _check_provider(name, section, where)
        yield section
    for name, variable in USUAL_KEYS.items():
        if not sections and environ.get(variable):
            yield ProviderSettings(name=name, type=name, api_key=Secret(environ[variable]), models=USUAL_MODELS[name])
    if BUILT_IN.name not in sections:
        yield BUILT_IN


def _check_provider(name: str, provider: ProviderSettings, where: str) -> None:
    key = f"providers.{name}"
    if "/" in name:
        raise ConfigInvalid(where, key, "a provider's name has no slash: models are asked for as name/model")
    if name == BUILT_IN.name and provider.type != BUILT_IN.type:
        raise ConfigInvalid(where, key, f"the name {name} belongs to the built-in model; choose another name")
    host = _host(provider.base_url, where, f"{key}.base_url")
    if provider.type not in USUAL_HOSTS or provider.api_key:
        return
    if host in (None, USUAL_HOSTS[provider.type]):
        variable = USUAL_KEYS.get(provider.type, "OPENAI_API_KEY")
        raise ConfigInvalid(
            where,
            f"{key}.api_key",
            f'is missing or empty, and this provider needs one; write api_key = "${{{variable}}}"',
        )


def _host(url: str | None, where: str, key: str) -> str | None:
    if url is None:
        return None
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or "@" in parts.netloc
        or parts.query
        or parts.fragment
    ):
        raise ConfigInvalid(
            where, key, "should be an address such as http://127.0.0.1:11434/v1, without a user or a query"
        )
    return parts.hostname


def _check(sections: Sections, where: str) -> None:
    """What no single key can say, and what is accepted only as it is."""
    for key, problem in _conflicts(sections):
        raise ConfigInvalid(where, key, problem)


def _conflicts(sections: Sections) -> Iterator[tuple[str, str]]:
    shell, limits = sections.features.shell, sections.features.server_tools.shell_limits
    if sections.auth.mode == "none" and not is_loopback(sections.server.host):
        yield (
            "server.host",
            f'{sections.server.host} can be reached from other machines, and auth.mode = "none" lets in every client; '
            'use 127.0.0.1, or auth.mode = "keys"',
        )
    yield from conflicts(sections)
    if (sections.database.url or "").startswith("postgres") and not sections.server.secret_key:
        yield (
            "server.secret_key",
            "is missing, and with PostgreSQL it is needed: what one gateway seals in the database the next one must open; write "
            'secret_key = "${LIMPET_SECRET_KEY}", the same for all gateways of the database',
        )
    if shell.type == "local" and not shell.unsafe_local:
        yield (
            "features.shell.type",
            "local runs commands on this host with nothing around them; write unsafe_local = true there or start with "
            "--unsafe-local if you mean it, else use bubblewrap",
        )
    cap = limits.max_mem_limit_mb
    if cap is not None and (limits.default_mem_limit_mb or shell.memory_mb) > cap:
        yield (
            "features.server_tools.shell_limits.max_mem_limit_mb",
            f"{cap} is less than what a box gets without asking ({limits.default_mem_limit_mb or shell.memory_mb}); "
            "lower default_mem_limit_mb",
        )
