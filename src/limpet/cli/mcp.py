"""`limpet mcp`: reads the options into a policy and an offering, and serves it to MCP clients."""

import logging
import os
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import anyio

from limpet import wiring
from limpet.cli.loading import end_loading
from limpet.cli.run import hosts_of, refuse_unmeant
from limpet.core.errors import ConfigInvalid
from limpet.core.hiding import HidingFormatter, protect
from limpet.core.loopback import is_loopback
from limpet.core.open_files import raise_open_file_limit
from limpet.core.ports import Runtime
from limpet.core.secret import Secret
from limpet.guard.policy.policy import Policy
from limpet.guard.redaction.redactor import Redaction
from limpet.ingress.server import listening_socket
from limpet.mcp import http, stdio
from limpet.mcp.http_guard import SHORTEST, HttpGuard
from limpet.mcp.session import SessionOptions
from limpet.tools.bash.config import BashConfig, ShellConfig, shell_config_from
from limpet.workspace.approvals import ApprovalRequest, Approver
from limpet.workspace.audit import AUDIT_LOG
from limpet.workspace.names import refuse_unusable

TOKEN = "LIMPET_MCP_TOKEN"
WHERE = "limpet mcp"
# For a person who starts it by hand: it would say nothing, and take what is typed for messages.
WAITING = (
    "limpet mcp waits for an MCP client on standard input. Clients start it themselves: put the command into the settings of yours "
    "(docs/mcp.md), or serve HTTP with --http 127.0.0.1:8421. Ctrl-C ends it."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """As on the command line. Times in seconds; `http` is HOST:PORT, None standard input and output."""

    runtime: str
    name: str
    directory: Path | None
    config: Path | None
    allow: tuple[str, ...]
    block: tuple[str, ...]
    allowed_paths: tuple[str, ...]
    readonly: bool
    confirm_destructive: bool
    max_duration: float | None
    enforce: Literal["guard", "wall"]
    shell_cmd: bool
    unsafe_local: bool
    http: str | None
    sessions: int
    idle: float
    allow_hosts: tuple[str, ...] = ()


def mcp(options: Options) -> None:
    """Serve until the client leaves, or a signal comes. Raises ConfigInvalid, and LimpetError for whatever keeps it from serving."""
    end_loading()
    refuse_unmeant(WHERE, options.runtime, unsafe_local=options.unsafe_local)
    refuse_unusable(options.name, where=WHERE)
    if options.directory is not None and not options.directory.is_dir():
        raise ConfigInvalid(WHERE, "--directory", f"{options.directory} is not a directory.")
    rules = _rules(options)
    # Standard output may be the protocol's: what is said goes to standard error.
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(HidingFormatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger(AUDIT_LOG).setLevel(logging.INFO)
    if options.http is None:
        anyio.run(_over_stdio, options, rules)
    else:
        anyio.run(_over_http, options, rules, *_address(options.http))


async def _over_stdio(options: Options, rules: ShellConfig) -> None:
    async with wiring.load_runtime(options.runtime, where=WHERE, key="--runtime") as runtime:
        offering = _offering(options, rules, runtime)
        if sys.stdin.isatty():
            print(WAITING, file=sys.stderr, flush=True)
        await stdio.serve(offering)


async def _over_http(options: Options, rules: ShellConfig, host: str, port: int) -> None:
    token = _token()
    protect([token])
    if token is None and not is_loopback(host):
        raise ConfigInvalid(
            WHERE, "--http", f"{host} is not this machine's loopback; set {TOKEN} to a secret that clients send."
        )
    raise_open_file_limit()
    with listening_socket(host, port) as listener:
        address = f"[{host}]" if ":" in host else host
        url = f"http://{address}:{listener.getsockname()[1]}{http.PATH}"

        def ready() -> None:
            print(f"limpet mcp serves {url}", flush=True)

        async with wiring.load_runtime(options.runtime, where=WHERE, key="--runtime") as runtime:
            offering = _offering(options, rules, runtime)
            async with offering.open_workspace(refuse_approval):
                pass  # what cannot be opened, or held as a wall, is said now and not to the first client
            await http.serve(
                offering,
                listener,
                door=partial(HttpGuard, token=token),
                bounds=http.SessionBounds(sessions=options.sessions, idle=options.idle),
                ready=ready,
            )


def refuse_approval(request: ApprovalRequest) -> bool:
    """The approver for the check before the first client connects: it refuses."""
    return False


def _offering(options: Options, rules: ShellConfig, runtime: Runtime) -> SessionOptions:
    def opened(approver: Approver) -> Any:
        return wiring.open_workspace(
            options.name, runtime=runtime, directory=options.directory, policy=rules.policy, redaction=rules.redaction,
            approver=approver, network=hosts_of(options.allow_hosts),
        )  # fmt: skip

    return SessionOptions(
        open_workspace=opened,
        bash=rules.bash,
        with_shell_cmd=options.shell_cmd,
        is_open=options.runtime == "local" or bool(options.allow_hosts),
    )


def _rules(options: Options) -> ShellConfig:
    """From the file, or from the options: one of the two says all."""
    given = _named(options)
    if options.config is None:
        return ShellConfig(
            policy=Policy(
                allowed_commands=frozenset(options.allow) if options.allow else None,
                blocked_commands=frozenset(options.block),
                readonly=options.readonly,
                allowed_paths=options.allowed_paths or None,
                confirm_destructive=options.confirm_destructive,
                max_duration=options.max_duration,
                enforce=options.enforce,
            ),
            redaction=Redaction(),
            bash=BashConfig(),
        )
    if given:
        raise ConfigInvalid(WHERE, given[0], "stands beside --config, which has all rules; leave one of the two out.")
    try:
        block = tomllib.loads(options.config.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise ConfigInvalid(WHERE, "--config", f"{options.config} cannot be read: {problem}") from problem
    return shell_config_from(block)


def _named(options: Options) -> list[str]:
    """The options that are rules and were given."""
    rules: Mapping[str, bool] = {
        "--allow": bool(options.allow),
        "--block": bool(options.block),
        "--readonly": options.readonly,
        "--allowed-path": bool(options.allowed_paths),
        "--confirm-destructive": options.confirm_destructive,
        "--max-duration": options.max_duration is not None,
        "--enforce": options.enforce != "guard",
    }
    return [name for name, is_given in rules.items() if is_given]


def _token() -> Secret | None:
    """From the environment, not from an option: those stand in every list of processes."""
    token = os.environ.get(TOKEN)
    if token is None:
        return None
    if len(token) < SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigInvalid(TOKEN, "token", f"must have {SHORTEST} printable ASCII characters or more, without blanks.")
    return Secret(token)


def _address(given: str) -> tuple[str, int]:
    host, _, port = given.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ConfigInvalid(
            WHERE, "--http", f"{given!r} is not HOST:PORT, such as 127.0.0.1:8421; port 0 takes a free one."
        )
    return host.strip("[]"), int(port)
