"""`limpet images` as the command line reads it."""

from pathlib import Path
from typing import Annotated, Any

import typer

_PLAIN: dict[str, Any] = {"no_args_is_help": True, "rich_markup_mode": None, "pretty_exceptions_enable": False}
images_app = typer.Typer(help="The images whose programs boxes can have (docs/images.md).", **_PLAIN)

OfHome = Annotated[Path | None, typer.Option("--config", help="The settings of the home that has them.")]
Image = Annotated[
    str, typer.Argument(metavar="IMAGE", help="Its name or path, or its id as `limpet images ls` shows it.")
]


@images_app.command("pull")
def pull_command(
    image: Annotated[str, typer.Argument(metavar="IMAGE", help="A name in a registry, an OCI layout or an archive.")],
    plain_http: Annotated[bool, typer.Option("--plain-http", help="Its registry may be asked without TLS.")] = False,
    config: OfHome = None,
) -> None:
    """Bring an image, or a newer one of the name. Prints its id."""
    from limpet.cli.images import pull

    pull(image, config, plain_http=plain_http)


@images_app.command("ls")
def ls_command(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array instead of a table.")] = False,
    config: OfHome = None,
) -> None:
    """List the images that are here, with what uses them."""
    from limpet.cli.images import listed

    listed(config, as_json=as_json)


@images_app.command("inspect")
def inspect_command(image: Image, config: OfHome = None) -> None:
    """Show one as JSON: its layers, variables and where it lies."""
    from limpet.cli.images import inspected

    inspected(image, config)


@images_app.command("rm")
def rm_command(
    images: Annotated[list[str], typer.Argument(metavar="IMAGE...", help="Names, paths or ids.")], config: OfHome = None
) -> None:
    """Remove images, all their names included. What a box or a container has stays."""
    from limpet.cli.images import removed

    raise typer.Exit(removed(images, config))


@images_app.command("prune")
def prune_command(config: OfHome = None) -> None:
    """Remove images without a name that no box and no container has, and layers that no image has."""
    from limpet.cli.images import pruned

    pruned(config)


@images_app.command("export")
def export_command(
    image: Image,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file: an OCI archive.")],
    config: OfHome = None,
) -> None:
    """Write one to a file that other tools read."""
    from limpet.cli.images import exported

    exported(image, file, config)


def add_to(app: typer.Typer) -> None:
    app.add_typer(images_app, name="images")
