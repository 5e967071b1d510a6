"""Where a group is made, and what is written into it, on hosts of either version of cgroups."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from limpet.core.ports import Limits
from limpet.runtimes.agent.bounds import BoxBounds
from limpet.runtimes.agent.launch import LaunchedProcess
from limpet.runtimes.agent.process import Process
from limpet.runtimes.agent.spool import Spool
from limpet.runtimes.bubblewrap.limits.groups import Groups, find_groups, of_each_process

_ALL = Limits(memory=256 << 20, cpus=0.5, processes=100, open_files=64, file_size=1 << 20)


def _mounts(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "mountinfo"
    path.write_text("".join(f"{line}\n" for line in ("22 1 0:21 / /proc rw - proc proc rw", *lines)))
    return path


def _written(directory: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in directory.iterdir() if path.is_file()}


def test_version_1_has_a_directory_for_each_controller(tmp_path: Path) -> None:
    for name in ("memory", "pids", "cpu"):
        (tmp_path / name).mkdir()
    lines = [f"30 1 0:30 / {tmp_path / name} rw - cgroup cgroup rw,{name}" for name in ("memory", "pids", "cpu")]

    groups = find_groups(mounts=_mounts(tmp_path, *lines), own=Path("/dev/null"))
    assert groups is not None
    groups.make("g", _ALL)

    assert groups.version == 1
    assert _written(tmp_path / "memory/limpet/g") == {
        "memory.limit_in_bytes": str(256 << 20),
        "memory.memsw.limit_in_bytes": str(256 << 20),
        "memory.kmem.tcp.limit_in_bytes": str(256 << 20),
    }
    assert _written(tmp_path / "pids/limpet/g") == {"pids.max": "108"}
    assert _written(tmp_path / "cpu/limpet/g") == {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "50000"}

    assert groups.entrances("g") == [tmp_path / f"{name}/limpet/g/tasks" for name in ("cpu", "memory", "pids")]


def test_version_2_has_one_and_hands_its_controllers_down(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    line = f"30 1 0:30 / {tmp_path} rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate"

    groups = find_groups(mounts=_mounts(tmp_path, line), own=Path("/dev/null"))
    assert groups is not None
    made = groups.make("g", _ALL)

    assert made == [tmp_path / "limpet/g"]
    assert groups.entrances("g") == [made[0] / "cgroup.procs"]
    assert _written(made[0]) == {
        "memory.max": str(256 << 20),
        "memory.swap.max": "0",
        "pids.max": "108",
        "cpu.max": "50000 100000",
    }
    assert (tmp_path / "limpet/cgroup.subtree_control").read_text() == "+memory +pids +cpu"


def test_a_hybrid_host_whose_version_2_has_nothing_uses_version_1_or_none(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("hugetlb\n")
    line = f"30 1 0:30 / {tmp_path} rw - cgroup2 cgroup2 rw"

    assert find_groups(mounts=_mounts(tmp_path, line), own=Path("/dev/null")) is None
    assert find_groups(mounts=tmp_path / "none", own=Path("/dev/null")) is None


def _delegated_to_us(tmp_path: Path, *, procs: bool = True) -> tuple[Path, Path]:
    """A user's service with a subgroup of its own, as systemd delegates it; the root of the hierarchy is not ours."""
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids\n")
    (tmp_path / "cgroup.subtree_control").mkdir()  # cannot be written, as for a user
    service = tmp_path / "user.slice/limpet.service"
    (service / "main").mkdir(parents=True)
    if procs:
        (service / "cgroup.procs").touch()
    own = tmp_path / "own"
    own.write_text("1:name=systemd:/elsewhere\n0::/user.slice/limpet.service/main\n")
    return _mounts(tmp_path, f"30 1 0:30 / {tmp_path} rw - cgroup2 cgroup2 rw"), own


def test_a_users_groups_lie_beside_his_own_where_that_was_delegated(tmp_path: Path) -> None:
    mounts, own = _delegated_to_us(tmp_path)

    groups = find_groups(mounts=mounts, own=own)

    assert groups is not None
    assert set(groups.parents.values()) == {tmp_path / "user.slice/limpet.service/limpet"}
    for above in ("user.slice/limpet.service", "user.slice/limpet.service/limpet"):
        assert (tmp_path / above / "cgroup.subtree_control").read_text() == "+memory +pids +cpu"


def test_a_group_into_which_no_process_can_be_moved_is_none(tmp_path: Path) -> None:
    mounts, own = _delegated_to_us(tmp_path, procs=False)

    assert find_groups(mounts=mounts, own=own) is None


def test_a_group_of_version_2_is_killed_at_one_stroke_where_the_kernel_can(tmp_path: Path) -> None:
    groups = Groups(2, {"memory": tmp_path, "pids": tmp_path, "cpu": tmp_path})
    (tmp_path / "g").mkdir()
    groups.kill("g")
    assert list((tmp_path / "g").iterdir()) == []

    (tmp_path / "g/cgroup.kill").touch()
    groups.kill("g")
    assert (tmp_path / "g/cgroup.kill").read_text() == "1"


def test_a_group_without_that_is_killed_process_by_process(tmp_path: Path) -> None:
    groups = Groups(1, {"memory": tmp_path, "pids": tmp_path, "cpu": tmp_path})
    sleeper = subprocess.Popen(["sleep", "60"])
    (tmp_path / "g").mkdir()
    (tmp_path / "g/cgroup.procs").write_text(f"{sleeper.pid}\n")

    groups.kill("g")

    assert sleeper.wait(5) == -signal.SIGKILL


@pytest.mark.parametrize("version, file", [(1, "memory.oom_control"), (2, "memory.events")])
def test_what_the_kernel_killed_is_read_from_the_counter_of_either_version(
    tmp_path: Path, version: int, file: str
) -> None:
    (tmp_path / "g").mkdir()
    (tmp_path / "g" / file).write_text("oom 3\noom_kill 2\noom_group_kill 0\n")
    counters = Groups(version, {"memory": tmp_path, "pids": tmp_path, "cpu": tmp_path}).counters("g")
    spool = os.open(tmp_path / "spool", os.O_RDWR | os.O_CREAT)
    process = Process(
        1, "e", LaunchedProcess(0, {}, None, None), Spool(spool), terminal=False, read_once=False, release=os.close
    )
    bounds = BoxBounds({"memory_mb": 8}, memory=counters["memory"], processes=None)

    bounds.look([process])
    assert process.notes == []
    (tmp_path / "g" / file).write_text("oom 3\noom_kill 3\noom_group_kill 0\n")
    bounds.look([process])

    assert list(counters) == ["memory"]
    assert process.notes == ["the box's memory limit of 8 MiB was reached, and a process of the box was killed."]
    os.close(counters["memory"])
    os.close(spool)


def test_an_empty_group_is_removed_and_an_absent_one_is_quiet(tmp_path: Path) -> None:
    groups = Groups(2, {"memory": tmp_path, "pids": tmp_path, "cpu": tmp_path})
    (tmp_path / "g").mkdir()
    (tmp_path / "other").mkdir()

    assert (groups.all("g"), groups.members("g")) == ({"g"}, set())
    assert (groups.remove("g"), groups.remove("g")) == (True, True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["other"]


def test_memory_is_bounded_per_process_only_where_no_group_does_it() -> None:
    common = {"RLIMIT_NPROC": 100, "RLIMIT_NOFILE": 64, "RLIMIT_FSIZE": 1 << 20}

    assert of_each_process(_ALL, whole_box=True) == common
    assert of_each_process(_ALL, whole_box=False) == {**common, "RLIMIT_DATA": 256 << 20}
