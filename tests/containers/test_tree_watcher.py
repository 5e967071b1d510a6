"""A look that reads only what fired shows the same as one that reads everything."""

import os
import random
import shutil
import threading
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import anyio
import pytest

from limpet.containers.changes import Scan
from limpet.containers.tree_watcher import TreeWatcher
from limpet.containers.watched_tree import WatchedTree
from limpet.core.ports import FileStat

pytestmark = pytest.mark.anyio
Shown = dict[str, tuple[int, int, int, int]]


@pytest.fixture
async def watching() -> AsyncIterator[TreeWatcher]:
    async with TreeWatcher() as opened:
        if not opened.is_working:
            pytest.skip("this user has no inotify instance left (fs.inotify.max_user_instances)")
        yield opened


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "data"
    made.mkdir()
    return made


def facts(stat: FileStat) -> tuple[int, int, int, int]:
    return stat.size, stat.modified, stat.identity, stat.changed


def applied(before: Shown, look: Scan) -> Shown:
    """What is known after a look, as captures take it over."""
    found = {stat.path: facts(stat) for stat in look.files}
    if look.directories is None:
        return found
    kept = {}
    for path, known in before.items():
        parent = path.rpartition("/")[0]
        above = [parent]
        while above[-1] != "/mnt/data":
            above.append(above[-1].rpartition("/")[0])
        lost = parent in look.directories or any(
            over in look.directories and under.rpartition("/")[2] not in look.directories[over]
            for under, over in pairwise(above)
        )
        if not lost:
            kept[path] = known
    return kept | found


def everything(root: Path) -> Shown:
    found = {}
    for directory, _, names in os.walk(root):
        for name in names:
            path = Path(directory) / name
            if path.is_symlink() or not path.is_file():
                continue
            status = path.lstat()
            shown = f"/mnt/data/{path.relative_to(root)}"
            found[shown] = (status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns)
    return found


def names(look: Scan) -> list[str]:
    return sorted(stat.path.removeprefix("/mnt/data/") for stat in look.files)


async def test_the_first_look_reads_everything_and_the_next_one_nothing(watching: TreeWatcher, root: Path) -> None:
    (root / "a/b").mkdir(parents=True)
    (root / "a/b/file").write_text("x")
    tree = WatchedTree(watching, root, "/mnt/data")
    first, second = tree.look(), tree.look()
    assert (names(first), first.directories) == (["a/b/file"], None)
    assert (second.files, second.directories) == ((), {})


@pytest.mark.promise("hadrian-capture-costs-what-changed")
async def test_only_the_directory_in_which_something_happened_is_read(watching: TreeWatcher, root: Path) -> None:
    for name in ("a", "b"):
        (root / name).mkdir()
        (root / name / "file").write_text("x")
    tree = WatchedTree(watching, root, "/mnt/data")
    tree.look()
    (root / "b/file").write_text("y")
    look = tree.look()
    assert (names(look), look.directories) == (["b/file"], {"/mnt/data/b": frozenset()})


async def test_whatever_is_done_a_look_after_it_shows_what_is_there(watching: TreeWatcher, root: Path) -> None:
    """Random trees, moved, replaced, linked, emptied and written, ten things between two looks."""
    chance = random.Random(7)
    tree = WatchedTree(watching, root, "/mnt/data")
    known = applied({}, tree.look())
    for _ in range(200):
        for _ in range(chance.randrange(10)):
            disturb(root, chance)
        known = applied(known, tree.look())
        assert known == everything(root)


def disturb(root: Path, chance: random.Random) -> None:
    directories = [Path(directory) for directory, _, _ in os.walk(root)]
    here, there = chance.choice(directories), chance.choice(directories)
    name, other = (chance.choice("abcd") for _ in range(2))
    path, target = here / name, there / other
    try:
        match chance.randrange(9):
            case 0:
                path.mkdir()
            case 1 | 2:
                path.write_text("x" * chance.randrange(5))
            case 3:
                path.unlink()
            case 4:
                shutil.rmtree(path)
            case 5:
                path.rename(target)
            case 6:
                path.symlink_to(target)
            case 7:
                (here / "deep/er").mkdir(parents=True)
                (here / "deep/er/file").write_text("z")
            case 8 if path.is_dir() and target.is_dir():
                swap = root / "swap"
                path.rename(swap)
                target.rename(path)
                swap.rename(target)
    except OSError:
        pass  # not possible here; the next one may be


async def test_directories_that_change_places_are_both_read(watching: TreeWatcher, root: Path) -> None:
    for name in ("one", "two"):
        (root / name / "in").mkdir(parents=True)
        (root / name / "in" / f"of-{name}").write_text(name)
    tree = WatchedTree(watching, root, "/mnt/data")
    known = applied({}, tree.look())
    (root / "one").rename(root / "spare")
    (root / "two").rename(root / "one")
    (root / "spare").rename(root / "two")
    assert applied(known, tree.look()) == everything(root)


async def test_a_look_while_others_write_misses_nothing_in_the_end(watching: TreeWatcher, root: Path) -> None:
    tree = WatchedTree(watching, root, "/mnt/data")
    known = applied({}, tree.look())
    writers = [threading.Thread(target=_write_much, args=(root, number)) for number in range(3)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        known = applied(known, await anyio.to_thread.run_sync(tree.look))
    assert applied(known, tree.look()) == everything(root)


def _write_much(root: Path, number: int) -> None:
    for turn in range(300):
        directory = root / f"{turn % 7}" / f"{number}-{turn % 5}"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"{turn % 11}").write_text(str(turn))
        if turn % 13 == 0:
            shutil.rmtree(directory)


async def test_after_the_kernel_lost_events_everything_is_read(watching: TreeWatcher, root: Path) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    wanted = limit // 2 + 200
    if wanted > 20_000:
        pytest.skip(f"the kernel's queue holds {limit} events, more than this test fills")
    for number in range(wanted):
        (root / str(number)).mkdir()
    tree = WatchedTree(watching, root, "/mnt/data")
    if tree.look().directories is not None or tree.is_whole:
        pytest.skip("this user's watches do not suffice (fs.inotify.max_user_watches)")
    # No await until the look: no task empties the queue meanwhile.
    for number in range(wanted):
        (root / str(number) / "file").touch()
    (root / "last").touch()
    assert tree.look().directories is None


async def test_a_tree_beyond_its_share_of_watches_is_read_as_a_whole_and_leaves_them_to_others(
    root: Path, tmp_path: Path
) -> None:
    small = tmp_path / "small"
    small.mkdir()
    for number in range(5):
        (root / str(number)).mkdir()
    async with TreeWatcher(most=8) as watching:
        if not watching.is_working:
            pytest.skip("this user has no inotify instance left (fs.inotify.max_user_instances)")
        tree, other = WatchedTree(watching, root, "/mnt/data"), WatchedTree(watching, small, "/mnt/data")
        other.look()
        assert tree.look().directories is None
        (root / "3/file").touch()
        assert names(tree.look()) == ["3/file"]
        (small / "file").touch()
        look = other.look()
        assert (names(look), look.directories) == (["file"], {"/mnt/data": frozenset()})
        assert (tree.watches, other.watches) == (0, 1)


async def test_all_trees_together_have_no_more_watches_than_there_may_be(tmp_path: Path) -> None:
    roots = [tmp_path / str(number) for number in range(12)]
    for root in roots:
        for name in range(20):
            (root / str(name)).mkdir(parents=True)
    async with TreeWatcher(most=100) as watching:
        trees = [WatchedTree(watching, root, "/mnt/data") for root in roots]
        for _ in range(3):
            for tree in trees:
                tree.look()
        assert 0 < sum(tree.watches for tree in trees) <= 100
        for number, root in enumerate(roots):
            (root / "7/file").write_text(str(number))
        assert [names(tree.look()).count("7/file") for tree in trees] == [1] * 12


async def test_a_look_that_finds_nothing_new_needs_no_more_watches_than_it_has(root: Path) -> None:
    for number in range(3):
        (root / str(number)).mkdir()
    async with TreeWatcher(most=8) as watching:
        tree = WatchedTree(watching, root, "/mnt/data")
        tree.look()
        tree.is_whole = True
        tree.look()
        assert tree.watches == (4 if watching.is_working else 0)


async def test_of_very_many_entries_a_bounded_number_is_looked_at_and_the_other_directories_have_their_turn(
    watching: TreeWatcher, root: Path
) -> None:
    (root / "many").mkdir()
    for number in range(300):
        (root / "many" / f"{number:03}").symlink_to("nowhere")
    for name in ("a", "z"):
        (root / name).mkdir()
        (root / name / "file").touch()
    tree = WatchedTree(watching, root, "/mnt/data", most_entries=100)
    first = tree.look()
    assert (names(first), first.is_over) == (["a/file", "z/file"], True)
    assert set(first.directories or ()) == {"/mnt/data", "/mnt/data/a", "/mnt/data/z"}
    (root / "z/new").touch()
    assert (names(tree.look()), tree.look().is_over) == (["z/file", "z/new"], True)
    for link in (root / "many").iterdir():
        link.unlink()
    (root / "many/file").touch()
    assert names(tree.look()) == ["many/file"]
    assert not tree.look().is_over


@pytest.mark.parametrize("flat", [True, False])
async def test_a_look_takes_no_longer_for_names_beyond_the_bound(watching: TreeWatcher, root: Path, flat: bool) -> None:
    for number in range(2000):
        (root / ("" if flat else str(number))).mkdir(exist_ok=True)
        (root / ("" if flat else str(number)) / f"link-{number}").symlink_to("nowhere")
    tree = WatchedTree(watching, root, "/mnt/data", most_entries=50)
    for _ in range(3):
        assert tree.look().is_over
        assert len(tree._nodes) <= 51
        (root / "file").touch()
    shutil.rmtree(root)
    root.mkdir()
    (root / "file").touch()
    assert names(tree.look()) == ["file"]
    assert not tree.look().is_over


async def test_what_there_was_no_room_for_is_not_tried_again_whenever_something_happens_above_it(
    watching: TreeWatcher, root: Path
) -> None:
    for directory in range(30):
        (root / str(directory)).mkdir()
        for number in range(60):
            (root / str(directory) / f"file-{number}").touch()
    tree = WatchedTree(watching, root, "/mnt/data", most_entries=100)
    assert tree.look().is_over
    (root / "again").touch()
    look = tree.look()
    assert (names(look), look.is_over) == (["again"], True)
    for directory in range(29):
        shutil.rmtree(root / str(directory))
    assert "29/file-7" in {name for _ in range(2) for name in names(tree.look())} | set(names(tree.look()))
    assert not tree.look().is_over


async def test_whatever_is_done_beyond_the_bound_a_look_shows_all_once_there_is_room(
    watching: TreeWatcher, root: Path
) -> None:
    chance = random.Random(11)
    tree = WatchedTree(watching, root, "/mnt/data", most_entries=12)
    known = applied({}, tree.look())
    for _ in range(200):
        for _ in range(chance.randrange(10)):
            disturb(root, chance)
        look = tree.look()
        known = applied(known, look)
        if not look.is_over:
            assert known == everything(root)


async def test_generated_directories_are_not_entered(watching: TreeWatcher, root: Path) -> None:
    for path in (
        "v/lib/x",
        "node_modules/p/x",
        "src/__pycache__/x",
        ".git/HEAD",
        "src/target/x",
        "src/kept",
        "a.git/kept",
    ):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
    (root / "v/pyvenv.cfg").touch()
    (root / "src/target/CACHEDIR.TAG").touch()
    tree = WatchedTree(watching, root, "/mnt/data")
    assert names(tree.look()) == ["a.git/kept", "src/kept"]
    (root / "v/lib/y").touch()
    (root / ".git/index").touch()
    assert tree.look().files == ()
    (root / "v/pyvenv.cfg").unlink()
    assert names(tree.look()) == ["v/lib/x", "v/lib/y"]
    (root / "v/pyvenv.cfg").touch()
    look = tree.look()
    assert (names(look), look.directories) == ([], {"/mnt/data/v": frozenset()})


async def test_a_virtual_environment_at_the_top_hides_its_packages_alone(watching: TreeWatcher, root: Path) -> None:
    for path in ("pyvenv.cfg", "lib/python3.11/site-packages/x", "mine"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
    assert names(WatchedTree(watching, root, "/mnt/data").look()) == ["mine", "pyvenv.cfg"]


async def test_a_root_that_is_gone_is_empty_and_may_come_back(watching: TreeWatcher, root: Path) -> None:
    (root / "file").touch()
    tree = WatchedTree(watching, root, "/mnt/data")
    tree.look()
    shutil.rmtree(root)
    gone = tree.look()
    assert (gone.files, gone.directories) == ((), None)
    root.mkdir()
    (root / "again").touch()
    assert names(tree.look()) == ["again"]


async def test_no_link_is_followed_and_no_special_file_is_opened(
    watching: TreeWatcher, root: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").touch()
    (root / "inner").mkdir()
    tree = WatchedTree(watching, root, "/mnt/data")
    tree.look()
    (root / "inner").rmdir()
    (root / "inner").symlink_to(outside)
    os.mkfifo(root / "fifo")
    look = tree.look()
    (outside / "secret").write_text("x")
    assert (look.files, tree.look()) == ((), Scan(files=(), directories={}))


async def test_without_an_instance_every_look_reads_everything(root: Path) -> None:
    tree = WatchedTree(TreeWatcher(), root, "/mnt/data")
    tree.look()
    (root / "file").touch()
    assert (names(tree.look()), names(tree.look())) == (["file"], ["file"])


async def test_what_is_watched_no_more_costs_no_watch(watching: TreeWatcher, root: Path) -> None:
    (root / "a").mkdir()
    tree = WatchedTree(watching, root, "/mnt/data")
    tree.look()
    tree.close()
    fired = Path(f"/proc/self/fdinfo/{watching.descriptor}").read_text()
    assert "inotify wd" not in fired
