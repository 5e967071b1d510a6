"""What the memory of a process holds (proc_pid_mem(5)); of another user's processes only root may look."""

import os
import re
from collections.abc import Iterable
from pathlib import Path

_REGION = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) rw")
MOST_REGION = 1 << 28


def found_in_process(pid: int, needles: Iterable[bytes]) -> list[bytes]:
    """Those of the needles that stand in its writable memory, its arguments or its environment. Nothing where it has ended."""
    wanted = tuple(needles)
    found: set[bytes] = set()
    for file in ("cmdline", "environ"):
        try:
            text = Path(f"/proc/{pid}/{file}").read_bytes()
        except OSError:
            continue
        found |= {needle for needle in wanted if needle in text}
    try:
        regions = Path(f"/proc/{pid}/maps").read_bytes().splitlines()
        memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return sorted(found)
    try:
        for region in filter(None, map(_REGION.match, regions)):
            start, end = (int(edge, 16) for edge in region.groups())
            try:
                content = os.pread(memory, min(end - start, MOST_REGION), start)
            except OSError:
                continue  # a hole, or memory of a device
            found |= {needle for needle in wanted if needle in content}
    finally:
        os.close(memory)
    return sorted(found)
