"""`limpet serve`: reads the settings, hands them to the composition, says when the gateway is ready."""

import json
import shlex
from pathlib import Path

from limpet import wiring
from limpet.cli.loading import end_loading
from limpet.config import Overrides, load_config

EXAMPLE = {
    "model": "limpet/script",
    "input": "```sh\nuname -sm; echo hello > hello.txt\n```",
    "tools": [{"type": "shell"}],
}


def serve(config: Path | None, *, host: str | None, port: int | None, unsafe_local: bool, stop_boxes: bool) -> None:
    """Serve until a signal ends it. Raises ConfigInvalid, and LimpetError for whatever else keeps it from serving."""
    settings = load_config(config, overrides=Overrides(host=host, port=port, unsafe_local=unsafe_local))
    wiring.serve(settings, stop_boxes=stop_boxes, announce=announce)


def announce(*, address: str, runtime: str, reason: str) -> None:
    """Called once, when requests are answered. `reason` says why that runtime, and what was found of it."""
    end_loading()
    print(announcement(address=address, runtime=runtime, reason=reason), flush=True)


def announcement(*, address: str, runtime: str, reason: str) -> str:
    """What a person reads first: where it is, what runs the commands, and a request to paste."""
    body = shlex.quote(json.dumps(EXAMPLE))
    return f"""limpet serves {address}
commands run in {runtime}, {reason}

Try it:

  curl -N {address}/v1/responses -H 'Content-Type: application/json' -d {body}
"""
