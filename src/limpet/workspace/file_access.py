"""Which files a workspace's own operations may touch. Decides over values; the sandbox itself follows no link out of its roots."""

import posixpath
from dataclasses import dataclass

from limpet.core.box_directories import DATA
from limpet.core.errors import FileDenied
from limpet.guard.policy.paths import CREDENTIALS, ORDERS


@dataclass(frozen=True, slots=True, kw_only=True)
class FileAccess:
    """The rules on files of one policy. `roots` None confines nothing beyond the sandbox's own roots; `closed` refuses every file.

    `strict` is the rule because of which commands are held to what can be judged: then files in which commands find orders (.bashrc,
    .git/config) are not written either. What counts as credentials and orders is the guard's (`guard.paths`).
    """

    roots: tuple[str, ...] | None = None
    readonly: bool = False
    credentials_too: bool = False
    closed: bool = False
    strict: str | None = None

    def refuse(self, path: str, *, writing: bool = False) -> None:
        """FileDenied for a path that these rules forbid to read, or to change."""
        if self.closed:
            raise FileDenied(
                path,
                rule="capabilities",
                reason=f"{path} cannot be reached: the workspace has no access to files.",
                remedy='Open it with capabilities={"fs": True}.',
            )
        if writing and self.readonly:
            raise FileDenied(
                path,
                rule="readonly",
                reason=f"{path} cannot be changed: the workspace is read-only.",
                remedy="Only look at files, or ask for a workspace that may be written.",
            )
        place = absolute(path)
        if self.roots is not None and not any(is_below(place, root) for root in self.roots):
            raise FileDenied(
                path,
                rule="allowed_paths",
                reason=f"{path} is outside {', '.join(self.roots)}.",
                remedy="Use a path below one of them, or add its directory to allowed_paths.",
            )
        if self.roots is not None and not self.credentials_too and CREDENTIALS.search(place):
            raise FileDenied(
                path,
                rule="allowed_paths",
                reason=f"{path} is a place for credentials.",
                remedy="Do without it, or set credential_paths_too.",
            )
        if writing and self.strict is not None and ORDERS.search(place):
            raise FileDenied(
                path,
                rule=self.strict,
                reason=f"{path} cannot be changed: commands find orders there.",
                remedy="Leave that file alone.",
            )


def absolute(path: str) -> str:
    """A path in the sandbox, resolved in words only; relative ones begin in the working directory."""
    resolved = posixpath.normpath(posixpath.join(DATA, path))
    return resolved[1:] if resolved.startswith("//") else resolved


def is_below(path: str, root: str) -> bool:
    """Whether an absolute path is that root or lies in it."""
    root = posixpath.normpath(root)
    return path == root or path.startswith(root if root == "/" else f"{root}/")
