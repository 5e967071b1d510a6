"""The root file system of an image, as a box is shown it: what of it lies where, and its shell. Looks at files only.

An image is content of strangers: its links are followed below its own root (`elf.Tree`), never to a file of the host, and nothing of it
runs before the first command. It brings programs and their settings, no accounts, and no library that every program would load.
"""

import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from limpet.core.errors import BootFailed
from limpet.runtimes.elf import Tree
from limpet.runtimes.programs import SHELL, is_box_of_programs

_SETTINGS = "/run/limpet/etc"
# Directories of a root that a box has for itself.
_OF_THE_BOX = frozenset("proc dev tmp mnt home run sys etc root boot lost+found old_root".split())
# What of an image's /etc no box has: accounts and rights, and what the loader would put into every program (ld.so(8)).
_LEFT_OUT = frozenset(
    "passwd- group- shadow shadow- gshadow gshadow- subuid subuid- subgid subgid- sudoers sudoers.d doas.conf doas.d"
    " ld.so.preload fstab mtab crypttab".split()
)
POSIX_SHELL = "/bin/sh"
_LONGEST, _MOST = 8192, 256  # characters of a variable, and how many there may be
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ORDERS = re.compile(
    r"(BASH|LD_|GLIBC_|GCONV|MALLOC_|LOCPATH|NLSPATH|HIST|COMP|COPROC|READLINE_|LIMPET).*|ENV|IFS|PS[0-4]|SHELLOPTS|POSIXLY_CORRECT|PROMPT_COMMAND|CDPATH|TMPDIR|_"
)


@dataclass(frozen=True, slots=True)
class RootImage:
    """An image's root directory on the host, and the variables that its author set.

    Raises BootFailed, when it is made, where that is no directory or has no shell."""

    root: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.root.is_dir():
            raise BootFailed(f"the image {self.root} is not a directory with a root file system.")
        if self.tree.file(SHELL) is None and self.tree.file(POSIX_SHELL) is None:
            raise BootFailed(
                f"the image {self.root} has neither {SHELL} nor {POSIX_SHELL}, so no command could run in it."
                " Choose one that has a shell."
            )

    @property
    def variables(self) -> dict[str, str]:
        """Those that commands may have."""
        return variables_of_commands(self.environment)

    @property
    def tree(self) -> Tree:
        return Tree(self.root)

    @property
    def shell(self) -> str:
        """What runs scripts: bash, or where it has none `sh`."""
        return POSIX_SHELL if self.tree.file(SHELL) is None else SHELL

    @property
    def shell_of_many(self) -> str | None:
        """The program that is its shell and others as well, such as busybox; None where its shell is a shell alone."""
        program = self.tree.file(self.shell)
        return program if program is not None and is_box_of_programs(self.tree, program) else None

    def programs(self, taken: Collection[str]) -> Iterator[str]:
        """The mounts of all that it has and that is not the box's own; `taken` are paths at which the box has something else."""
        of_the_box = _OF_THE_BOX | {path.split("/")[1] for path in taken}
        for name in self.tree.names("/"):
            entry = self.root / name
            if name in of_the_box:
                continue
            if entry.is_symlink():
                yield from ("--symlink", os.readlink(entry), f"/{name}")
            elif entry.is_dir() or entry.is_file():
                yield from ("--ro-bind", str(entry), f"/{name}")

    def settings(self) -> Iterator[str]:
        """The mount of its /etc, to which the links of a box's /etc lead."""
        if (found := self._settings_directory()) is not None:
            yield from ("--ro-bind", str(self.tree.on_host(found)), _SETTINGS)

    def settings_links(self) -> dict[str, str]:
        """What of its /etc a box may have, by name."""
        found = self._settings_directory()
        names = self.tree.names(found) if found is not None else []
        return {name: f"{_SETTINGS}/{name}" for name in names if name not in _LEFT_OUT}

    def file(self, path: str) -> Path | None:
        """Where that regular file of it lies on the host."""
        found = self.tree.file(path)
        return None if found is None else self.tree.on_host(found)

    def is_directory(self, path: str) -> bool:
        """Whether that path, without any link on the way, is a directory of it."""
        return self.tree.real(path) == path and self.tree.on_host(path).is_dir()

    def _settings_directory(self) -> str | None:
        found = self.tree.real("/etc")
        return found if found not in (None, "/") and self.tree.on_host(found or "").is_dir() else None


def _is_plain(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and _ORDERS.fullmatch(name) is None


def variables_of_commands(image: Mapping[str, str]) -> dict[str, str]:
    """The variables of an image that commands may have, PATH among them: none that says to a shell or the loader what to run."""
    plain = {name: value for name, value in image.items() if _is_plain(name) and len(value) <= _LONGEST}
    if (path := plain.pop("PATH", "")) and all(place.startswith("/") for place in path.split(":")):
        plain["PATH"] = path
    return dict(list(plain.items())[-_MOST:])
