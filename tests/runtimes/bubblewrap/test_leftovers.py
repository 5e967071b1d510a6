"""What counts as left of a box: by the shape of its name and nothing else that lies there."""

from pathlib import Path

import pytest

from limpet.runtimes.bubblewrap import BubblewrapRuntime

pytestmark = pytest.mark.anyio


async def test_what_has_no_name_of_ours_is_neither_told_nor_removed(runtime: BubblewrapRuntime, home: Path) -> None:
    ours = home / "run/0123456789abcdef.json"
    ours.write_text('{"pid": 1, "started": "0", "boot_id": "x"}')
    others = [home / "run/odd", home / "run/notes.sock", home / "run/0123456789abcdef.bak", home / "boxes/cntr_1"]
    for path in others:
        path.mkdir()
    (home / "boxes/cntr_1/data").touch()

    shown = await runtime.sweep(None, dry_run=True)
    told = await runtime.sweep(None)

    assert [len(shown), told] == [1, [f"The sandbox 0123456789abcdef had ended; removed: {ours}."]]
    assert [path.exists() for path in (ours, *others, home / "boxes/cntr_1/data")] == [
        False,
        True,
        True,
        True,
        True,
        True,
    ]
