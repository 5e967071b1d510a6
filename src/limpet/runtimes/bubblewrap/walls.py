"""The walls of a box: which mounts it gets instead of its usual ones, so that what is forbidden is not there. Makes files; starts
nothing.

Only programs that are named can be run, because all that a box sees is mounted "noexec", but for the files of these programs and of
what they load: then neither a copy, nor the loader, nor a library made by a command brings anything else to run. bubblewrap knows
no such mounts, so they are made before it starts, in a mount namespace of its own.
"""

import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from limpet.core.ports import Offer, Walls
from limpet.runtimes.agent import walls as inside
from limpet.runtimes.bubblewrap.settings import BoxPaths
from limpet.runtimes.bubblewrap.walls_paths import confined
from limpet.runtimes.elf import Tree
from limpet.runtimes.programs import AGENT, executable, masked

AGENTS_PROGRAMS = "/run/limpet/host"  # where a box has the host's programs, for the agent alone
# Makes each second path the first one without programs, and goes on.
WITHOUT_PROGRAMS = (
    'while [ "$1" != -- ]; do mount -o bind,noexec,nosuid,nodev "$1" "$2" || exit 1; shift 2; done; shift; exec "$@"'
)
# Programs that compile what they run, in memory: where one of them is named, code may be made.
_MAKES_CODE = re.compile(
    r"node(js)?|deno|bun|java|javac|jar|jshell|luajit.*|php.*|qemu-.*|dotnet|mono|julia|pypy.*|erl|elixir|wine.*|chrom.*"
)
_WORDS = {"--symlink": 2, "--bind": 2, "--ro-bind": 2, "--proc": 1, "--dev": 1, "--remount-ro": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltWalls:
    """How a box is started so that its walls stand. `without_programs` are directories of the host, each with the place at which it
    is bound "noexec"; `python` is given to the box as a descriptor and lies nowhere in it; `inside` is for the agent."""

    mounts: tuple[str, ...]
    without_programs: tuple[tuple[Path, Path], ...] = ()
    python: Path | None = None
    inside: Mapping[str, object] | None = None
    denies_memory_files: bool = False


@dataclass(slots=True)
class _Sources:
    """Where the box's mounts come from, once each: a few directories of the host, each at a place of its own."""

    place: BoxPaths
    bases: tuple[Path, ...]
    found: dict[Path, Path] = field(default_factory=dict)

    def without_programs(self, source: Path) -> Path:
        base = next((one for one in self.bases if source.is_relative_to(one)), source)
        if base not in self.found:
            target = self.place.directory / f"walls-{len(self.found)}"
            if base.is_dir():
                target.mkdir()
            else:
                target.touch()
            self.found[base] = target
        return self.found[base] / source.relative_to(base)


def build(
    walls: Walls,
    mounts: tuple[str, ...],
    *,
    place: BoxPaths,
    image: Path | None,
    search: tuple[str, ...],
    carried: Mapping[Path, Path],
) -> BuiltWalls:
    """The mounts with these walls in them. `carried` are places at which other directories are bound before bubblewrap starts."""
    if walls == Walls():
        return BuiltWalls(mounts=mounts)
    options = list(_options(mounts))
    if walls.is_read_only:
        options = [("--ro-bind", *words) if name == "--bind" else (name, *words) for name, *words in options]
    if walls.paths is not None:
        options = list(confined(options, walls.paths, carried))
    tree = Tree(image or Path("/"))
    bases = () if walls.programs is None else _bases(place, image)
    sources = _Sources(place, bases)
    if walls.programs is not None:
        options = [_without_programs(option, sources, carried) for option in options]
        runs = executable(tree, walls.programs - walls.hidden, search)
        options[-1:-1] = [("--ro-bind", str(tree.on_host(path)), path) for path in runs]
    if hidden := masked(tree, walls.hidden, search):
        nothing = place.directory / "nothing"
        nothing.touch(mode=0)
        options[-1:-1] = [("--ro-bind", str(nothing), path) for path in hidden]
    guards_agent = walls.programs is not None or bool(walls.hidden)
    return BuiltWalls(
        mounts=tuple(word for option in options for word in option),
        without_programs=tuple(sources.found.items()),
        python=_real(tree, AGENT) if guards_agent and image is None else None,
        inside=_inside(walls) if guards_agent else None,
        denies_memory_files=walls.programs is not None,
    )


def _inside(walls: Walls) -> dict[str, object]:
    is_closed = walls.programs is not None
    makes_code = any(_MAKES_CODE.fullmatch(Path(name).name) for name in walls.programs or ())
    return {"closed": [AGENTS_PROGRAMS], "processes": is_closed, "code": is_closed and not makes_code}


def offers(is_root: bool) -> frozenset[Offer]:
    """Which walls hold here. Blocking."""
    found = {Offer.WALL_READONLY, Offer.WALL_ALLOWED_PATHS}
    if inside.version() >= inside.LEAST:
        found.add(Offer.WALL_BLOCKED_COMMANDS)
        if _can_mount(is_root):
            found.add(Offer.WALL_ALLOWED_COMMANDS)
    return frozenset(found)


def namespace(is_root: bool) -> tuple[str, ...]:
    """The words before a program that shall mount for itself alone."""
    own = () if is_root else ("--user", "--map-root-user")
    return ("unshare", *own, "--mount", "--propagation", "private", "--")


@cache
def _can_mount(is_root: bool) -> bool:
    """Tried once in this process."""
    try:
        done = subprocess.run([*namespace(is_root), "true"], capture_output=True, check=False, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _options(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    at = 0
    while at < len(words):
        end = at + 1 + _WORDS[words[at]]
        yield words[at:end]
        at = end


def _bases(place: BoxPaths, image: Path | None) -> tuple[Path, ...]:
    system = (image,) if image is not None else ()
    host = (Path("/", name) for name in ("usr", "etc", "bin", "sbin", "lib", "lib64"))
    return (place.directory, place.shared, *system, *host)


def _without_programs(option: tuple[str, ...], sources: _Sources, carried: Mapping[Path, Path]) -> tuple[str, ...]:
    if option[0] not in ("--bind", "--ro-bind") or option[2] == "/proc/sys" or option[2].startswith(AGENTS_PROGRAMS):
        return option
    source = Path(option[1])
    if (top := next((one for one in carried if source.is_relative_to(one)), None)) is not None:
        sources.found.setdefault(top, top)  # bound over itself
        return option
    return (option[0], str(sources.without_programs(source)), option[2])


def _real(tree: Tree, path: str) -> Path | None:
    found = tree.file(path)
    return tree.on_host(found) if found is not None else None
