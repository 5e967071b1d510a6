import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from limpet.core.errors import HomeUnusable
from limpet.store.home import HomeLock, prepare_home
from tests.store.disk import Disk

pytestmark = pytest.mark.anyio

HOLDS_THE_LOCK = """
import sys, anyio
from pathlib import Path
from limpet.store.home import HomeLock
async def main():
    async with HomeLock(Path(sys.argv[1])):
        print("held", flush=True)
        await anyio.sleep_forever()
anyio.run(main)
"""


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def test_a_home_is_made_with_its_directories_and_their_modes(tmp_path: Path) -> None:
    home = tmp_path / "a" / "home"
    prepare_home(home)
    prepare_home(home)
    assert {path.name: mode(path) for path in home.iterdir()} == {"run": 0o700, "boxes": 0o711}
    assert mode(home) == 0o711


def test_a_home_that_others_could_read_is_closed_again(tmp_path: Path) -> None:
    prepare_home(tmp_path)
    (tmp_path / "run").chmod(0o777)
    prepare_home(tmp_path)
    assert mode(tmp_path / "run") == 0o700


def test_a_file_in_the_place_of_the_home_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for home in (tmp_path / "file", tmp_path / "file" / "home"):
        with pytest.raises(HomeUnusable, match="file is a file, not a directory"):
            prepare_home(home)


def test_a_read_only_disk_is_named(disk: Disk) -> None:
    disk.make_read_only()
    with pytest.raises(HomeUnusable, match="read-only file system"):
        prepare_home(disk.path / "home")


def test_a_full_disk_is_named(disk: Disk) -> None:
    prepare_home(disk.path)
    disk.fill()
    with pytest.raises(HomeUnusable, match="disk is full"):
        prepare_home(disk.path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_this_user_may_not_write_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with pytest.raises(HomeUnusable, match="Permission denied"):
        prepare_home(tmp_path / "home")


async def test_a_second_gateway_is_told_who_holds_the_home(tmp_path: Path) -> None:
    async with HomeLock(tmp_path):
        with pytest.raises(HomeUnusable, match=f"process {os.getpid()} uses it; {tmp_path}/lock is locked"):
            async with HomeLock(tmp_path):
                pass
    async with HomeLock(tmp_path):
        pass


async def test_a_lock_ends_with_its_process_even_when_that_is_killed(tmp_path: Path) -> None:
    holder = await anyio.open_process(
        [sys.executable, "-c", HOLDS_THE_LOCK, str(tmp_path)], stdout=subprocess.PIPE, stderr=None
    )
    try:
        assert holder.stdout is not None
        with anyio.fail_after(20):
            assert (await holder.stdout.receive()).startswith(b"held")
        with pytest.raises(HomeUnusable, match=f"process {holder.pid} uses it"):
            async with HomeLock(tmp_path):
                pass
    finally:
        holder.send_signal(signal.SIGKILL)
        await holder.aclose()
    async with HomeLock(tmp_path):
        pass


async def test_a_program_started_meanwhile_does_not_keep_the_lock(tmp_path: Path) -> None:
    async with HomeLock(tmp_path):
        child = await anyio.open_process(["sleep", "60"])
    try:
        async with HomeLock(tmp_path):
            pass
    finally:
        child.kill()
        await child.aclose()
