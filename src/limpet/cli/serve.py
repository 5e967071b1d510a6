"""`limpet serve`: reads the settings, hands them to the composition, says when the gateway is ready."""

import json
import shlex
from dataclasses import dataclass
from pathlib import Path

from limpet import wiring
from limpet.cli.loading import end_loading
from limpet.config import Config, Overrides, load_config
from limpet.upstreams.routing import ProviderSettings

EXAMPLE = {
    "model": "limpet/script",
    "input": "```sh\nuname -sm; echo hello > hello.txt\n```",
    "tools": [{"type": "shell"}],
}


def serve(config: Path | None, *, host: str | None, port: int | None, unsafe_local: bool, stop_boxes: bool) -> None:
    """Serve until a signal ends it. Raises ConfigInvalid, and LimpetError for whatever else keeps it from serving."""
    settings = load_config(config, overrides=Overrides(host=host, port=port, unsafe_local=unsafe_local))
    wiring.serve(settings, stop_boxes=stop_boxes, announce=Announcer(settings))


@dataclass(frozen=True, slots=True)
class Announcer:
    """Says what is served, once requests are answered. See `wiring.Announce`."""

    settings: Config

    def __call__(self, *, address: str, runtime: str, reason: str) -> None:
        end_loading()
        print(announcement(self.settings, address=address, runtime=runtime, reason=reason), flush=True)


def announcement(settings: Config, *, address: str, runtime: str, reason: str) -> str:
    """What a person reads first: where it is, where its settings and files are, what runs the commands, which models there are, and a
    request to paste."""
    body = shlex.quote(json.dumps(EXAMPLE))
    models = "\n".join(f"  {provider.name} ({provider.type}): {_models(provider)}" for provider in settings.providers)
    key, hint = "", ""
    if settings.auth.mode == "keys":
        key = " -H 'Authorization: Bearer sk-limpet-…'"
        hint = "\n  limpet keys create NAME      makes the key that stands for sk-limpet-…\n"
    return f"""limpet serves {address}
commands run in {runtime}, {reason}
settings: {settings.source}
home: {settings.home}
models:
{models}
docs: docs/gateway.md, docs/config.md, {address}/openapi.json

Try it:
{hint}
  curl -N {address}/v1/responses{key} -H 'Content-Type: application/json' -d {body}
"""


def _models(provider: ProviderSettings) -> str:
    return ", ".join(provider.models) if provider.models else f"every model of it, as {provider.name}/MODEL"
