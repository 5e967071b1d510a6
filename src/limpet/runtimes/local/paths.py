"""How a local sandbox's paths map to the host: a few directories stand for /mnt/data and /home/agent."""

import os
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from limpet.core.box_directories import DATA, LASTING
from limpet.core.errors import WorkingDirectoryMissing

# Of the host's variables only these reach a command; none of them is a secret.
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ")
# What a command on a terminal finds instead of the variable of that name.
TERMINAL = {"TERM": "xterm-256color"}
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalPaths:
    """The host directory of a sandbox; `owner` is the uid that it belongs to, None where that is the own user."""

    directory: Path
    owner: int | None = None

    @property
    def roots(self) -> dict[str, Path]:
        return {path: self.directory / name for path, name in LASTING.items()}

    @property
    def files(self) -> dict[str, Path]:
        """What its files are reached by: also the /tmp that its commands share with the host, where they are of the same user."""
        return self.roots if self.owner is not None else {**self.roots, "/tmp": Path("/tmp")}

    def make(self) -> None:
        """Make what is missing of it."""
        for directory in (self.directory, *self.roots.values()):
            if not directory.is_dir():
                directory.mkdir(parents=True, mode=0o700)
                if self.owner is not None:
                    os.chown(directory, self.owner, self.owner)

    def working_directory(self, cwd: str | None) -> str:
        """The host's path of a command's `cwd`. Raises WorkingDirectoryMissing, naming it as it was given."""
        path = self.on_host(cwd or DATA)
        if not os.path.isdir(path):
            raise WorkingDirectoryMissing(cwd or DATA)
        return path

    def on_host(self, path: str) -> str:
        """A path of the sandbox, relative ones below /mnt/data, as the host knows it. Other paths are the host's own."""
        path = posixpath.normpath(posixpath.join(DATA, path))
        for root, directory in self.roots.items():
            if path == root or path.startswith(f"{root}/"):
                return str(directory / path[len(root) + 1 :])
        return path

    def environment(self, host: Mapping[str, str]) -> dict[str, str]:
        """What every command starts with, out of the host's variables."""
        return {
            "PATH": _PATH,
            "LANG": "C.UTF-8",
            **{name: host[name] for name in _PASSED_ON if name in host},
            "TERM": "dumb",
            "HOME": str(self.directory / "home"),
            "LIMPET_DATA": str(self.directory / "data"),
        }
