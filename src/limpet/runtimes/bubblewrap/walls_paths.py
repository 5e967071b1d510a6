"""What a box sees whose paths are confined: its own directories, what is named, and of the system what programs need. Pure, but
for looking at which directories there are."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from limpet.core.box_directories import OWN

_OWN = (*OWN, "/var/tmp", "/proc", "/dev", "/etc", "/run/limpet")
_SYSTEM = frozenset({"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "opt", "nix", "gnu"})
# Below /usr: programs, and what they load and read to work; neither sources nor manuals nor data of users.
_OF_USR = ("bin", "sbin", "lib", "lib32", "lib64", "libx32", "libexec", "games", "local/bin", "local/sbin", "local/lib")
_OF_SHARE = frozenset(
    "aclocal awk bash-completion ca-certificates cmake cmake-3.25 file fontconfig fonts gawk gcc ghostscript git-core i18n java"
    " javascript libreoffice locale mime misc node_modules nodejs perl perl5 php poppler python3 python3.11 R ri ruby sgml tcltk"
    " terminfo texlive texmf unicode vim X11 xml zoneinfo".split()
)


def confined(
    options: list[tuple[str, ...]], paths: tuple[str, ...], carried: Mapping[Path, Path]
) -> Iterator[tuple[str, ...]]:
    """The mounts that stay. What `paths` name is only ever a part of what was there. `carried` says what will lie at a source."""
    for option in options:
        if option[0] not in ("--bind", "--ro-bind", "--symlink"):
            yield option
            continue
        inside = option[-1]
        if _is_below(inside, (*_OWN, *paths)) or option[0] == "--symlink":
            yield option
        elif inside == "/usr":
            yield from _usr(Path(option[1]), paths)
        elif inside.split("/")[1] in _SYSTEM:
            yield option
        else:
            yield from _named(option, paths, carried)


def _usr(source: Path, paths: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """/usr piece by piece; links among the pieces stay links."""
    pieces = [*_OF_USR, *(f"share/{name}" for name in sorted(_OF_SHARE))]
    for piece in pieces:
        there = source / piece
        if there.is_symlink():
            yield ("--symlink", str(there.readlink()), f"/usr/{piece}")
        elif there.is_dir():
            yield ("--ro-bind", str(there), f"/usr/{piece}")
    known = tuple(f"/usr/{piece}" for piece in pieces)
    yield from _named(
        ("--ro-bind", str(source), "/usr"), tuple(path for path in paths if not _is_below(path, known)), {}
    )


def _named(option: tuple[str, ...], paths: tuple[str, ...], carried: Mapping[Path, Path]) -> Iterator[tuple[str, ...]]:
    """What of a mount is named, and there."""
    name, source, inside = option
    for path in paths:
        if path.startswith(f"{inside}/") and ".." not in path.split("/"):
            part = path[len(inside) + 1 :]
            top = carried.get(Path(source), Path(source)).resolve()
            if (top / part).resolve() == top / part and (top / part).exists():  # no link on the way
                yield (name, str(Path(source, part)), path)


def _is_below(path: str, places: tuple[str, ...]) -> bool:
    return any(path == place or path.startswith(f"{place.rstrip('/')}/") for place in places)
