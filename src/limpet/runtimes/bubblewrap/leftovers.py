"""What boxes left on the host, by the directories, sockets, records and cgroups that carry their names. Removes nothing."""

import json
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from limpet.runtimes.agent_client.agent_process import AgentProcess
from limpet.runtimes.bubblewrap.limits.groups import Groups
from limpet.runtimes.bubblewrap.settings import ENDS_WITH_OWNER, BoxPaths

_SHORT = re.compile(r"[0-9a-f]{16}")
_BOOTING = 60.0  # seconds for which a box without a record may be one that is just being started


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """All that there is of one box. `is_wanted`: its agent lives, or it is just being started, perhaps by another process.
    `has_owner`: it lives and will end with the process that it belongs to."""

    place: BoxPaths
    agent: AgentProcess | None
    lives: bool
    is_wanted: bool
    has_owner: bool
    parts: tuple[str, ...]

    def told(self, *, removed: bool) -> str:
        """In one sentence."""
        what = ", ".join(self.parts) or "nothing"
        if removed:
            return f"The sandbox {self.place.short} {'was ended' if self.lives else 'had ended'}; removed: {what}."
        return f"The sandbox {self.place.short} {'lives' if self.lives else 'has ended'}; of it there is: {what}."


def traces(home: Path, groups: Groups | None) -> list[Traces]:
    """Of every box of this home of which anything is there. Blocking."""
    # Only names of ours: containers keep their own directories in boxes/ too, and those hold data.
    shorts = {path.name for path in _entries(home / "boxes") if _SHORT.fullmatch(path.name)}
    shorts |= {
        path.stem
        for path in _entries(home / "run")
        if _SHORT.fullmatch(path.stem) and path.suffix in (".sock", ".json")
    }
    if groups is not None:
        prefix = BoxPaths(home, "").group
        shorts |= {name.removeprefix(prefix) for name in groups.all(prefix)}
    return [_of(BoxPaths(home, short), groups) for short in sorted(shorts)]


def _of(place: BoxPaths, groups: Groups | None) -> Traces:
    agent = AgentProcess.recorded(place.record)
    alive = agent is not None and agent.lives()
    paths = [path for path in (place.socket, place.record, place.directory) if path.exists()]
    parts = [str(path) for path in paths]
    if groups is not None:
        directories = [path for path in groups.directories(place.group) if path.exists()]
        parts += [f"{len(members)} processes" for members in [groups.members(place.group)] if members]
        paths += directories
        parts += map(str, directories)
    wanted = alive or (agent is None and any(_is_fresh(path) for path in paths))
    return Traces(
        place=place,
        agent=agent,
        lives=alive,
        is_wanted=wanted,
        has_owner=alive and _ends_with_owner(place),
        parts=tuple(parts),
    )


def _ends_with_owner(place: BoxPaths) -> bool:
    try:
        return json.loads(place.record.read_bytes()).get(ENDS_WITH_OWNER) is True
    except (OSError, ValueError, AttributeError):
        return False


def _is_fresh(path: Path) -> bool:
    with suppress(FileNotFoundError):
        return time.time() - path.stat().st_ctime < _BOOTING
    return False


def _entries(directory: Path) -> list[Path]:
    return list(directory.iterdir()) if directory.is_dir() else []
