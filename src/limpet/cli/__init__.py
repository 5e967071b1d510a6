"""The command line: its commands, their options, and how an error looks to the person in front of it.

What a command does is in the file of its name, loaded when it is called: `limpet --help` costs nothing else.
"""

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from limpet.cli import database_commands, image_commands
from limpet.cli.loading import begin_loading
from limpet.cli.standard_streams import open_missing_streams
from limpet.core import exit_codes
from limpet.core.errors import ConfigInvalid, LimpetError
from limpet.core.hiding import hide_secrets

FAILED, MISUSED, INTERRUPTED, BOX_FAILED = 1, 2, exit_codes.INTERRUPTED, exit_codes.LOST

# Rich's help costs 200 ms, and its tracebacks show the values of variables.
_PLAIN: dict[str, Any] = {"rich_markup_mode": None, "pretty_exceptions_enable": False}
app = typer.Typer(
    name="limpet",
    help="A shell for any language model that stays and that is safe.",
    no_args_is_help=True,
    add_completion=False,
    **_PLAIN,
)


def _group(name: str, words: str) -> typer.Typer:
    """Commands under a word of their own."""
    group = typer.Typer(help=words, no_args_is_help=True, **_PLAIN)
    app.add_typer(group, name=name)
    return group


def main() -> None:
    """The program. Exits 0, with the command's own code, 1 where something failed, 2 where it was called wrongly."""
    open_missing_streams()
    begin_loading()
    try:
        app(prog_name="limpet")
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    except Exception as error:  # noqa: BLE001 - the last border: a person gets a sentence, never a traceback
        if os.environ.get("LIMPET_DEBUG"):
            print(hide_secrets(traceback.format_exc()), file=sys.stderr)
        code, sentence = explained(error)
        print(f"limpet: {hide_secrets(sentence)}", file=sys.stderr)
        raise SystemExit(code) from None


def explained(error: BaseException) -> tuple[int, str]:
    """The exit code and the sentence for an error; a group speaks through its first member."""
    match error:
        case BaseExceptionGroup():
            return explained(error.exceptions[0])
        case ConfigInvalid():
            return MISUSED, error.message
        case LimpetError():
            return FAILED, error.message
        case OSError():
            return FAILED, f"{error.strerror or error}: {error.filename}" if error.filename else str(error)
        case ModuleNotFoundError() if (error.name or "limpet").partition(".")[0] != "limpet":
            return MISUSED, f"This needs {error.name}, which is not installed. Install limpet[all]."
        case _:
            detail = f"{type(error).__name__}: {error}".rstrip(": ")
            return FAILED, f"This is a fault of limpet: {detail}. LIMPET_DEBUG=1 shows where."


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"limpet {version('limpet')}")
        raise typer.Exit


@app.callback()
def limpet(
    shows_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


UnsafeLocal = Annotated[
    bool, typer.Option("--unsafe-local", help="Allow the runtime local: commands run on this host, unprotected.")
]

AllowHost = Annotated[
    list[str] | None,
    typer.Option("--allow", "--allow-host", metavar="HOST", help="The box may reach this host; may be given again."),
]

Url = Annotated[str, typer.Option(envvar="LIMPET_URL", help="ContainerPath the gateway is.")]


@app.command("serve")
def serve_command(
    config: Annotated[Path | None, typer.Option(help="Settings; without it ./limpet.toml, if there is one.")] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = None,
    unsafe_local: UnsafeLocal = False,
    stop_boxes: Annotated[bool, typer.Option("--stop-boxes", help="End the boxes when the gateway stops.")] = False,
) -> None:
    """Serve the gateway."""
    from limpet.cli.serve import serve

    serve(config, host=host, port=port, unsafe_local=unsafe_local, stop_boxes=stop_boxes)


@app.command("ask")
def ask_command(
    prompt: Annotated[str, typer.Argument(help="What to ask; - reads it from standard input.")],
    model: Annotated[str, typer.Option(help="The model; limpet/script runs the shell blocks of the prompt.")] = (
        "limpet/script"
    ),
    container: Annotated[str | None, typer.Option(help="Run commands in this container.")] = None,
    previous: Annotated[str | None, typer.Option(help="Go on from this response.")] = None,
    url: Url = "http://127.0.0.1:8420",
) -> None:
    """Ask a model with a shell, through the gateway. Exits with the code of the last command."""
    from limpet.cli.ask import Question, ask

    question = Question(prompt=prompt, model=model, container=container, previous=previous)
    raise typer.Exit(ask(question, url=url))


@app.command("run", context_settings={"allow_interspersed_args": False})
def run_command(
    command: Annotated[list[str], typer.Argument(metavar="CMD", help="One word is a script, several a program.")],
    runtime: Annotated[
        str, typer.Option(help="bubblewrap, docker, local, memory, or one that a package adds.")
    ] = "bubblewrap",
    timeout: Annotated[
        float | None, typer.Option(min=0.001, help="Seconds until it is killed (exit code 124).")
    ] = None,
    allow: AllowHost = None,
    image: Annotated[str | None, typer.Option(metavar="IMAGE", help="Its programs instead of this host's.")] = None,
    unsafe_local: UnsafeLocal = False,
) -> None:
    """Run one command in a fresh box. Exits with its code."""
    from limpet.cli.run import run

    code = run(command, runtime=runtime, timeout=timeout, unsafe_local=unsafe_local, allow=allow or (), image=image)
    raise typer.Exit(code)


@app.command("shell")
def shell_command(
    container: Annotated[str | None, typer.Option(help="Join this container; without it a fresh box.")] = None,
    number: Annotated[int, typer.Option(min=1, help="Which of the container's shells, where it has several.")] = 1,
    runtime: Annotated[str | None, typer.Option(help="Of a fresh box: bubblewrap (the default) or local.")] = None,
    unsafe_local: UnsafeLocal = False,
    config: Annotated[Path | None, typer.Option(help="The settings that the container's gateway has.")] = None,
    url: Url = "http://127.0.0.1:8420",
) -> None:
    """Open an interactive shell in a box. Exits with its code.

    A container's shell goes on when it is left with Ctrl-\\ Ctrl-\\, and is joined again by the same command.
    """
    if container is None:
        from limpet.cli.shell import shell

        raise typer.Exit(shell(runtime=runtime or "bubblewrap", unsafe_local=unsafe_local))
    if runtime is not None:
        raise ConfigInvalid("limpet shell", "--runtime", "a container has its own; leave one of the two out")
    from limpet.cli.join import JoinRequest, join

    raise typer.Exit(join(JoinRequest(container=container, number=number, config=config, url=url)))


@app.command("mcp")
def mcp_command(
    runtime: Annotated[
        str, typer.Option(help="bubblewrap, docker, local, memory, or one that a package adds.")
    ] = "bubblewrap",
    name: Annotated[str, typer.Option(help="Of the workspace: tools are called workspace__NAME__run …")] = "box",
    directory: Annotated[Path | None, typer.Option(help="Keep the files here, else they go with the box.")] = None,
    config: Annotated[Path | None, typer.Option(help="All rules: TOML with the table tools.modules.shell.")] = None,
    allow: Annotated[list[str] | None, typer.Option(metavar="CMD", help="Only these commands may run.")] = None,
    block: Annotated[list[str] | None, typer.Option(metavar="CMD", help="These commands may not run.")] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(metavar="HOST", help="The box may reach this host; may be given again.")
    ] = None,
    readonly: Annotated[bool, typer.Option("--readonly", help="Commands may only read.")] = False,
    allowed_path: Annotated[
        list[str] | None, typer.Option(metavar="DIR", help="Commands may name paths in the box's own places and here.")
    ] = None,
    confirm_destructive: Annotated[
        bool, typer.Option("--confirm-destructive", help="Ask the client's user before what destroys.")
    ] = False,
    max_duration: Annotated[float | None, typer.Option(min=0.001, help="Seconds a command may take.")] = None,
    enforce: Annotated[
        Literal["guard", "wall"], typer.Option(help="wall refuses to start where the box cannot hold a rule.")
    ] = "guard",
    shell_cmd: Annotated[bool, typer.Option("--shell-cmd", help="Also offer shell_cmd, without a shell.")] = False,
    http: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Serve HTTP there instead of standard input and output.")
    ] = None,
    sessions: Annotated[int, typer.Option(min=1, help="Over HTTP: sessions at once, each with a box.")] = 16,
    idle: Annotated[float, typer.Option(min=0.001, help="Over HTTP: seconds until an unused session ends.")] = 1200.0,
    unsafe_local: UnsafeLocal = False,
) -> None:
    """Serve a workspace's tools to MCP clients: each session has a box of its own."""
    with _extra("mcp"):
        from limpet.cli.mcp import Options, mcp

    options = Options(
        runtime=runtime, name=name, directory=directory, config=config, allow=tuple(allow or ()), block=tuple(block or ()),
        allowed_paths=tuple(allowed_path or ()), readonly=readonly, confirm_destructive=confirm_destructive,
        max_duration=max_duration, enforce=enforce, shell_cmd=shell_cmd, unsafe_local=unsafe_local, http=http,
        sessions=sessions, idle=idle, allow_hosts=tuple(allow_host or ()),
    )  # fmt: skip
    mcp(options)


@contextmanager
def _extra(name: str) -> Iterator[None]:
    """ConfigInvalid that says what to install, where a package of this extra is missing or too old to be used."""
    try:
        yield
    except ImportError as missing:
        if (missing.name or "limpet").partition(".")[0] == "limpet":
            raise
        raise ConfigInvalid(
            f"limpet {name}",
            "install",
            f'it needs {missing.name}, which is not installed or too old: pip install "limpet[{name}]".',
        ) from missing


@app.command("check")
def check_command(
    runtimes: Annotated[list[str] | None, typer.Argument(help="Which runtimes; all by default.")] = None,
    suite: Annotated[bool, typer.Option("--suite", help="Also ask each runtime every promise of the port.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
    cleans: Annotated[bool, typer.Option("--clean", help="Instead remove what ended boxes left on this host.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --clean: show it and remove nothing.")] = False,
) -> None:
    """Show what works on this host, why not, and how to mend it."""
    from limpet.cli.check import check, clean

    if dry_run and not cleans:
        raise typer.BadParameter("it belongs to --clean", param_hint="--dry-run")
    if cleans:
        raise typer.Exit(clean(dry_run=dry_run))
    raise typer.Exit(check(runtimes or [], suite=suite, as_json=as_json))


database_commands.add_to(app)
image_commands.add_to(app)
keys_app = _group("keys", "The keys of those who may ask the gateway.")

GatewayConfig = Annotated[Path | None, typer.Option(help="The settings of the gateway.")]


@keys_app.command("create")
def keys_create_command(
    name: Annotated[str, typer.Argument(help="Whose key it is, for the list.")],
    tenant: Annotated[str, typer.Option(help="Keys of one tenant see the same data, and no other's.")] = "default",
    scope: Annotated[
        list[str] | None, typer.Option(help="responses, containers, files, skills, admin; all but admin by default.")
    ] = None,
    per_minute: Annotated[int | None, typer.Option(min=1, help="Requests a minute.")] = None,
    concurrent: Annotated[int | None, typer.Option(min=1, help="Requests that may be open at once.")] = None,
    days: Annotated[int | None, typer.Option(min=1, help="Days until it expires.")] = None,
    config: GatewayConfig = None,
) -> None:
    """Make a key and print it. It is shown this once; only a digest of it is stored."""
    from limpet.cli.keys import KeyRequest, create

    wanted = KeyRequest(
        name=name, tenant=tenant, scopes=tuple(scope or ()), per_minute=per_minute, concurrent=concurrent, days=days
    )
    create(wanted, config)


@keys_app.command("list")
def keys_list_command(config: GatewayConfig = None) -> None:
    """Show all keys: their ids, names, tenants, scopes and limits."""
    from limpet.cli.keys import listed

    listed(config)


@keys_app.command("revoke")
def keys_revoke_command(
    id: Annotated[str, typer.Argument(metavar="ID", help="As `limpet keys list` shows it.")],
    config: GatewayConfig = None,
) -> None:
    """End a key, from the next request on."""
    from limpet.cli.keys import revoke

    revoke(id, config)


containers_app = _group(
    "containers", "Containers and their files: of a gateway, or of this machine's home where none answers."
)

AnyUrl = Annotated[
    str | None, typer.Option(envvar="LIMPET_URL", help="The gateway; LIMPET_API_KEY is its key, where it asks for one.")
]
HomeConfig = Annotated[Path | None, typer.Option(help="Look into the home of these settings instead.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON array instead of a table.")]


@containers_app.command("ls")
def containers_ls_command(
    tenant: Annotated[
        str | None, typer.Option(help="Only this tenant's; looks into the home, where all tenants are.")
    ] = None,
    status: Annotated[str | None, typer.Option(help="running or expired.")] = None,
    as_json: AsJson = False,
    url: AnyUrl = None,
    config: HomeConfig = None,
) -> None:
    """List containers, newest first."""
    from limpet.cli.containers import ContainerPath, listed

    listed(ContainerPath(url=url, config=config, tenant=tenant), status=status, as_json=as_json)


@containers_app.command("rm")
def containers_rm_command(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="As `limpet containers ls` shows them.")],
    url: AnyUrl = None,
    config: HomeConfig = None,
) -> None:
    """Remove containers with everything in them, also while their commands run."""
    from limpet.cli.containers import ContainerPath, removed

    raise typer.Exit(removed(ids, ContainerPath(url=url, config=config)))


@containers_app.command("files")
def containers_files_command(
    id: Annotated[str, typer.Argument(metavar="ID", help="As `limpet containers ls` shows it.")],
    get: Annotated[str | None, typer.Option(metavar="FILE", help="Download this one: its id or its path.")] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="ContainerPath to; - is standard output. By default its name, here."),
    ] = None,
    as_json: AsJson = False,
    url: AnyUrl = None,
    config: HomeConfig = None,
) -> None:
    """List the files of a container, newest first, or download one."""
    from limpet.cli.containers import ContainerPath, fetched, files_listed

    where = ContainerPath(url=url, config=config)
    if get is not None:
        fetched(id, get, output, where)
    elif output is not None:
        raise ConfigInvalid("limpet containers files", "--output", "it belongs to --get FILE")
    else:
        files_listed(id, where, as_json=as_json)


@containers_app.command("forward")
def containers_forward_command(
    id: Annotated[str, typer.Argument(metavar="ID", help="As `limpet containers ls` shows it.")],
    ports: Annotated[str | None, typer.Argument(metavar="[LOCAL:]PORT", help="Such as 8000:3000.")] = None,
    url: AnyUrl = None,
) -> None:
    """Open a port of a container on this machine's loopback; without one, list those that listen."""
    from limpet.cli.containers import ContainerPath
    from limpet.cli.forward import forward

    forward(id, ports, ContainerPath(url=url))


@containers_app.command("net")
def containers_net_command(
    id: Annotated[str, typer.Argument(metavar="ID", help="As `limpet containers ls` shows it.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
    url: AnyUrl = None,
) -> None:
    """Show which hosts a container has reached, and which it was refused."""
    from limpet.cli.containers import ContainerPath
    from limpet.cli.containers_net import network_shown

    network_shown(id, ContainerPath(url=url), as_json=as_json)
