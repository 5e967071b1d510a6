"""The Python that runs the agent in a box of an image: always the host's, with its own loader and libraries, and nothing of the image.

So an image needs no Python, its libraries may be of another kind (musl), and none of its programs runs before the first command
(docs/decisions/the-agent-in-an-image.md).
"""

import sys
from functools import lru_cache
from pathlib import Path

from limpet.core.errors import BootFailed
from limpet.runtimes.bubblewrap.shared_directory import DirectoryContents, shared_directory
from limpet.runtimes.bubblewrap.walls import AGENTS_PROGRAMS
from limpet.runtimes.elf import Tree, closure, needs_of
from limpet.runtimes.programs import AGENT, agents_modules

PYTHON = Path(AGENT)


def hosts_python() -> tuple[str, ...]:
    """How the agent is started in a box that has the host's /usr. Raises BootFailed where there is none."""
    if not PYTHON.exists():
        raise BootFailed(f"this host has no {PYTHON}. apt-get install python3")
    return (AGENT,)


def python_beside_an_image(shared: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """How it is started in a box of an image, and what is mounted for that. `shared` is the home's directory of what all boxes are
    shown; the interpreter's files are copied there once. Raises BootFailed where this host has no Python."""
    hosts_python()
    real = PYTHON.resolve()
    loader, files = _needed(real, real.stat().st_mtime_ns)
    library = f"lib/{real.name}"
    copied = shared_directory(shared, DirectoryContents(copies=files, directories=(library,)))
    start = (f"{AGENTS_PROGRAMS}/{loader}", "--inhibit-cache", "--library-path", f"{AGENTS_PROGRAMS}/lib")
    programs = ("--ro-bind", str(copied), AGENTS_PROGRAMS)
    modules = ("--ro-bind", str(_standard_library(real)), f"{AGENTS_PROGRAMS}/{library}")
    return (*start, f"{AGENTS_PROGRAMS}/bin/{real.name}"), (*programs, *modules)


def _standard_library(real: Path) -> Path:
    return real.parent.parent / "lib" / real.name


@lru_cache(maxsize=4)
def _needed(real: Path, changed: int) -> tuple[str, dict[str, Path]]:
    """The loader's path among the files, and the files by their paths below AGENTS_PROGRAMS. `changed` is the program's time."""
    tree = Tree(Path("/"))
    library = _standard_library(real)
    loaders = [file for name in needs_of(real).loaders if (file := tree.file(name)) is not None]
    if not loaders or not (library / "os.py").is_file():
        raise BootFailed(
            f"{real} cannot be shown to a box of an image: its loader or its library {library} is not where a Debian"
            f" {sys.implementation.name} has it. apt-get install python3"
        )
    needed = closure(tree, [str(real), *agents_modules(tree, str(library / "lib-dynload"))], None)
    files = {f"lib/{Path(path).name}": Path(path) for path in needed if not Path(path).is_relative_to(library)}
    del files[f"lib/{real.name}"]
    # By the name that programs ask for, which may be a link's.
    named = {name for path in needed for name in needs_of(Path(path)).libraries}
    by_name = {name: path for name in named for path in needed if tree.file(f"{Path(path).parent}/{name}") == path}
    files |= {f"lib/{name}": Path(path) for name, path in by_name.items()}
    return f"lib/{Path(loaders[0]).name}", {**files, f"bin/{real.name}": real}
