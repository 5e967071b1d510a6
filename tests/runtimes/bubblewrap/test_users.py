"""What differs by who runs the gateway: root bounds whole boxes and gives each a uid of its own, a user bounds processes."""

import os
import re
from pathlib import Path

import pytest

from limpet.core.command import Exited
from limpet.core.errors import BootFailed, OfferMissing
from limpet.core.ports import Limits, Offer, SandboxSpec
from limpet.runtimes.bubblewrap import BubblewrapRuntime, BubblewrapSettings
from limpet.runtimes.bubblewrap.limits.groups import find_groups
from tests.runtimes.bubblewrap.boxes import begin, box_of, run
from tests.support.users import again_as_an_ordinary_user

pytestmark = pytest.mark.anyio

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a box a user of its own")
needs_groups = pytest.mark.skipif(find_groups() is None, reason="no cgroup can be made here")
_HERE = Path(__file__).parent
_HOG = "python3 -c 'b = bytearray(400 << 20); print(len(b))'"


@pytest.mark.timeout(180)
def test_the_essentials_hold_for_an_ordinary_user_too() -> None:
    again_as_an_ordinary_user(
        *(
            str(_HERE / f"test_{name}.py")
            for name in ("essentials", "straight", "users", "bounds", "effects", "seccomp")
        )
    )


@pytest.mark.timeout(240)
def test_an_ordinary_users_boxes_are_as_hard_to_wreck() -> None:
    again_as_an_ordinary_user(
        *(str(_HERE / f"test_{name}.py") for name in ("walls", "bricks", "hazards", "hosts", "hostile_survivors"))
    )


@pytest.mark.timeout(240)
def test_an_ordinary_users_boxes_keep_their_troubles_to_themselves() -> None:
    again_as_an_ordinary_user(
        *(str(_HERE / f"test_{name}.py") for name in ("time_limits", "orphans", "hostile_names")),
    )


@needs_root
async def test_each_box_of_root_has_a_uid_of_its_own_that_owns_its_files(
    runtime: BubblewrapRuntime, home: Path
) -> None:
    async with box_of(runtime) as one, box_of(runtime, user_id=2_000_000_042, directory=home / "c") as other:
        await run(other, "touch f")
        await other.files.write("g", b"")

        owners = {path: path.stat().st_uid for path in (home / "c", *(home / "c/data").iterdir())}
        agents = [os.stat(f"/proc/{box.ref.facts['pid']}/stat").st_uid for box in (one, other)]

    assert set(owners.values()) == {2_000_000_042}
    assert len(owners) == 3
    assert one.ref.facts["owner"] >= 2_000_500_000
    assert agents == [0, 0]  # hidden: its entries in /proc belong to root
    assert (home / "c").stat().st_mode & 0o777 == 0o700


@needs_root
async def test_a_directory_that_a_box_has_left_keeps_its_owner(runtime: BubblewrapRuntime, home: Path) -> None:
    async with box_of(runtime, directory=home / "kept") as first:
        await run(first, "echo one > f; mkdir d; echo one > d/g")
    async with box_of(runtime, directory=home / "kept") as second:
        await run(second, "echo two >> f; echo two >> d/g")

        owners = {path.lstat().st_uid for path in (home / "kept").rglob("*")}

    assert (home / "kept/data/f").read_text() == (home / "kept/data/d/g").read_text() == "one\ntwo\n"
    assert len(owners) == 1


@needs_root
async def test_a_directory_that_the_boxs_user_cannot_walk_to_is_carried_to_him(
    runtime: BubblewrapRuntime, home: Path
) -> None:
    (home / "closed").mkdir(mode=0o700)
    (home / "closed/skills").mkdir()
    (home / "closed/skills/s").write_text("read me")

    shown = {"/mnt/skills": home / "closed/skills"}
    async with box_of(runtime, directory=home / "closed/c", read_only=shown) as box:
        found = await run(box, "echo x > f; cat /mnt/skills/s; touch /mnt/skills/t; ls /mnt/skills")
        assert await box.files.read("f") == b"x\n"

    assert found[:2] == (Exited(0), "read mes\n")
    assert (home / "closed/c/data/f").read_text() == "x\n"
    assert "closed" not in Path("/proc/self/mountinfo").read_text()


@needs_root
async def test_a_home_that_no_box_can_reach_is_named_with_what_would_open_it(home: Path) -> None:
    (home / "closed").mkdir(mode=0o700)

    async with BubblewrapRuntime(home=home / "closed/h") as runtime:
        with pytest.raises(BootFailed, match=re.escape(f"chmod o+x {home / 'closed'}")):
            await runtime.create(SandboxSpec(name="far"))


@needs_groups
async def test_a_memory_hog_is_killed_and_the_box_lives(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime, limits=Limits(memory=128 << 20)) as box:
        process = await begin(box, "sleep 9861")

        assert (await run(box, f"{_HOG}; echo then"))[1] == "then\n"
        assert (await run(box, "true"))[0] == Exited(0)
        assert await box.find(process.exec_id) is not None


@needs_groups
async def test_memory_of_a_whole_box_is_bounded_not_of_one_process(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime, limits=Limits(memory=128 << 20)) as box:
        hog = "python3 -c 'import time; b = bytearray(90 << 20); time.sleep(60)'"
        _, stdout, _ = await run(box, f"{hog} & {hog} & wait -n; echo one was killed", timeout=20)

    assert stdout == "one was killed\n"


async def test_processes_are_bounded_and_the_next_command_works(runtime: BubblewrapRuntime) -> None:
    settings = {"limits": Limits(processes=40)} if Offer.LIMITS in runtime.offers else {}
    async with box_of(runtime, **settings) as box:
        bomb = "python3 -c 'import os, time\nwhile True:\n try: os.fork()\n except OSError: time.sleep(0.01)'"
        outcome, _, _ = await run(box, bomb, timeout=2)

        assert await run(box, "ls -d /mnt/data") == (Exited(0), "/mnt/data\n", "")
        assert not isinstance(outcome, Exited)


async def test_without_groups_a_process_is_bounded_and_whole_limits_are_refused_by_name(home: Path) -> None:
    if find_groups() is not None:
        pytest.skip("cgroups can be made here")
    async with BubblewrapRuntime(BubblewrapSettings(home=home, memory_mb=128)) as runtime:
        probe = await runtime.probe()
        if not probe.works:
            pytest.skip(probe.detail)
        async with box_of(runtime) as box:
            outcome, _, stderr = await run(box, _HOG)
        with pytest.raises(OfferMissing, match="limits"):
            await runtime.create(SandboxSpec(name="bounded", limits=Limits(memory=1 << 30)))

    assert (outcome, "MemoryError" in stderr) == (Exited(1), True)
    assert "bounded per process" in probe.notes[0]
