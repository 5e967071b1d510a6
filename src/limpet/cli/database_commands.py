"""The commands for what a gateway keeps, as the command line reads them: its database, its files, backups."""

from pathlib import Path
from typing import Annotated, Any

import typer

OfGateway = Annotated[Path | None, typer.Option("--config", help="The settings of the gateway.")]
_PLAIN: dict[str, Any] = {"no_args_is_help": True, "rich_markup_mode": None, "pretty_exceptions_enable": False}
database_app = typer.Typer(help="The gateway's database.", **_PLAIN)
storage_app = typer.Typer(help="Where files are kept.", **_PLAIN)


@database_app.command("upgrade")
def upgrade_command(config: OfGateway = None) -> None:
    """Make the tables, or bring them up to date; a gateway does it too when it starts."""
    from limpet.cli.database import upgrade

    upgrade(config)


@database_app.command("check")
def check_command(config: OfGateway = None) -> None:
    """Say which version the tables have; exit 1 where they are not up to date. Changes nothing."""
    from limpet.cli.database import check

    raise typer.Exit(check(config))


@database_app.command("move")
def move_command(
    to: Annotated[str, typer.Option(metavar="URL", help="An empty database: postgresql://… or sqlite:…")],
    config: OfGateway = None,
) -> None:
    """Copy everything in the database to another one, of either kind, while no gateway serves."""
    from limpet.cli.database import move

    move(to, config)


@storage_app.command("move")
def storage_move_command(
    config: Annotated[Path | None, typer.Option(help="The settings that say where files are to be.")] = None,
) -> None:
    """Move all stored files to where the settings now keep new ones.

    The gateway may serve meanwhile. It can be stopped at any moment and called again.
    """
    from limpet.cli.storage import move

    raise typer.Exit(move(config))


def backup_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file.")], config: OfGateway = None
) -> None:
    """Write everything in the database to a file; gateways may serve meanwhile."""
    from limpet.cli.database import make_backup

    make_backup(file, config)


def restore_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `limpet backup` wrote.")], config: OfGateway = None
) -> None:
    """Fill an empty database, of either kind, from a backup, while no gateway serves."""
    from limpet.cli.database import restore

    restore(file, config)


def add_to(app: typer.Typer) -> None:
    app.add_typer(database_app, name="db")
    app.add_typer(storage_app, name="storage")
    app.command("backup")(backup_command)
    app.command("restore")(restore_command)
