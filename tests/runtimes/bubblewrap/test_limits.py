"""Where a group is made, and what is written into it, on hosts of either version of cgroups."""

from pathlib import Path

from limpet.core.ports import Limits
from limpet.runtimes.bubblewrap.limits import Groups, find_groups, of_each_process

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
    }
    assert _written(tmp_path / "pids/limpet/g") == {"pids.max": "108"}
    assert _written(tmp_path / "cpu/limpet/g") == {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "50000"}


def test_version_2_has_one_and_hands_its_controllers_down(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    line = f"30 1 0:30 / {tmp_path} rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate"

    groups = find_groups(mounts=_mounts(tmp_path, line), own=Path("/dev/null"))
    assert groups is not None
    made = groups.make("g", _ALL)

    assert made == [tmp_path / "limpet/g"]
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


def test_an_empty_group_is_removed_and_an_absent_one_is_quiet(tmp_path: Path) -> None:
    groups = Groups(2, {"memory": tmp_path, "pids": tmp_path, "cpu": tmp_path})
    (tmp_path / "g").mkdir()
    (tmp_path / "other").mkdir()

    assert (groups.all("g"), groups.members("g")) == ({"g"}, set())
    assert (groups.remove("g"), groups.remove("g")) == (True, True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["other"]


def test_memory_is_bounded_per_process_only_where_no_group_does_it() -> None:
    common = {"RLIMIT_CORE": 0, "RLIMIT_NPROC": 100, "RLIMIT_NOFILE": 64, "RLIMIT_FSIZE": 1 << 20}

    assert of_each_process(_ALL, whole_box=True) == common
    assert of_each_process(_ALL, whole_box=False) == {**common, "RLIMIT_DATA": 256 << 20}
