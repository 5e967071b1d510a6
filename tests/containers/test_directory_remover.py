"""Directories of ended containers: out of reach at once, and removed without a caller that waits for very many entries."""

from pathlib import Path

import anyio
import pytest

from limpet.containers.directory_remover import DirectoryRemover, original_name

pytestmark = pytest.mark.anyio


def tree(directory: Path, count: int) -> Path:
    for number in range(count):
        (directory / f"{number % 10}" / f"{number}").mkdir(parents=True)
        (directory / f"{number % 10}" / f"{number}" / "file").write_bytes(b"x")
    return directory


async def gone(path: Path) -> None:
    with anyio.fail_after(5):
        while path.exists():
            await anyio.sleep(0.01)


async def test_a_caller_waits_for_a_small_one(tmp_path: Path) -> None:
    async with DirectoryRemover() as remover:
        await remover.remove(tree(tmp_path / "a", 20))
        assert list(tmp_path.iterdir()) == []
        await remover.remove(tmp_path / "a")  # quiet


async def test_it_is_out_of_reach_before_it_is_gone(tmp_path: Path) -> None:
    async with DirectoryRemover(patience=0) as remover:
        await remover.remove(tree(tmp_path / "a", 300))
        assert not (tmp_path / "a").exists()
        (tmp_path / "a").mkdir()  # the name is free
        await gone(tmp_path / "a.removed")
        assert (tmp_path / "a").is_dir()


async def test_what_the_end_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    async with DirectoryRemover(patience=0) as remover:
        await remover.remove(tree(tmp_path / "a", 300))
    for left in list(tmp_path.iterdir()):
        assert original_name(left.name) == "a"

    async with DirectoryRemover() as remover:
        await remover.remove(tmp_path / "a.removed")

    assert list(tmp_path.iterdir()) == []


async def test_a_second_one_of_that_name_and_one_that_is_closed_to_its_owner(tmp_path: Path) -> None:
    closed = tree(tmp_path / "a", 3)
    (closed / "1").chmod(0)
    tree(tmp_path / "a.removed", 3)
    remover = DirectoryRemover()

    await remover.remove(closed)

    assert list(tmp_path.iterdir()) == []


async def test_what_cannot_be_removed_is_told_and_may_be_tried_again(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    async with DirectoryRemover() as remover:
        with pytest.raises(OSError, match="Not a directory"):
            await remover.remove(tmp_path / "a" / "b")
