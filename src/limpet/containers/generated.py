"""Directories that tools generate (caches, dependencies): not recorded and not cited, but readable by path. Pure."""

from dataclasses import dataclass

GENERATED = (
    ".bundle", ".cache", ".eggs", ".git", ".gradle", ".hg", ".hypothesis", ".ipynb_checkpoints", ".local", ".mypy_cache", ".next",
    ".nox", ".npm", ".nuxt", ".parcel-cache", ".pnpm-store", ".pytest_cache", ".ruff_cache", ".svn", ".terraform", ".tox", ".turbo",
    ".venv", ".yarn", "__pycache__", "bower_components", "node_modules", "site-packages",
)  # fmt: skip
# Of a virtual environment (PEP 405) and of any cache (https://bford.info/cachedir/).
MARKERS = ("pyvenv.cfg", "CACHEDIR.TAG")


@dataclass(frozen=True, slots=True)
class GeneratedTrees:
    """Directories of these names, wherever they are, and those that hold a file of one of these names, except the top itself."""

    names: frozenset[str] = frozenset(GENERATED)
    markers: frozenset[str] = frozenset(MARKERS)

    def outside(self, paths: dict[str, bool], *, top: str) -> set[str]:
        """Those of these paths below `top` (True: a regular file) that lie in no generated directory."""
        marked = {
            parent
            for path, is_file in paths.items()
            if is_file and self._marks(path) and (parent := _above(path)) != top
        }
        return {path for path in paths if not self._covers(path[len(top) + 1 :].split("/")[:-1], marked, top)}

    def _covers(self, directories: list[str], marked: set[str], top: str) -> bool:
        here = top
        for name in directories:
            here = f"{here}/{name}"
            if name in self.names or here in marked:
                return True
        return False

    def _marks(self, path: str) -> bool:
        return path.rpartition("/")[2] in self.markers


def _above(path: str) -> str:
    return path.rpartition("/")[0]
