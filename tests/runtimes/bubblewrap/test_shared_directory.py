"""Directories that all boxes of a home are shown: made once, whole before anybody sees them, the same for every umask."""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from limpet import open_workspace
from limpet.runtimes.bubblewrap.shared_directory import DirectoryContents, host_boot, shared_directory

ETC = "cd /etc && sha256sum passwd ssl/certs/ca-certificates.crt limpet/bin/* && stat -c '%a %n' . passwd limpet/bin"


def _contents(source: Path, text: str = "a\n") -> DirectoryContents:
    return DirectoryContents(
        texts={"deep/text": text},
        programs={"bin/program": "#!/bin/sh\n"},
        copies={"copy": source},
        links={"link": "/nowhere"},
        directories=("empty",),
    )


def test_it_is_made_once_and_again_once_what_it_holds_has_changed(tmp_path: Path) -> None:
    source, above = tmp_path / "source", tmp_path / "shared"
    source.write_text("one")
    first = shared_directory(above, _contents(source))
    made = first.stat().st_ino
    again = shared_directory(above, _contents(source))
    assert (again, again.stat().st_ino) == (first, made)
    assert (first / "copy").read_text() == "one"
    assert os.readlink(first / "link") == "/nowhere"
    assert list((first / "empty").iterdir()) == []

    source.write_text("two!")
    changed = shared_directory(above, _contents(source))
    assert changed != first
    assert [(one / "copy").read_text() for one in (first, changed)] == ["one", "two!"], "boxes that run keep theirs"
    assert shared_directory(above, _contents(source, "b\n")) not in (first, changed)


def test_callers_at_once_get_the_same_whole_directory_and_leave_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "source").write_text("x")
    with ThreadPoolExecutor(8) as threads:
        make = partial(shared_directory, tmp_path / "shared", _contents(tmp_path / "source"))
        found = {one.result() for one in [threads.submit(make) for _ in range(16)]}
    assert list((tmp_path / "shared").iterdir()) == list(found)


def test_one_of_an_earlier_start_of_the_host_is_removed_and_what_was_left_unfinished_too(tmp_path: Path) -> None:
    (tmp_path / "source").write_text("x")
    above = tmp_path / "shared"
    kept = shared_directory(above, _contents(tmp_path / "source"))
    for name in ("0000000000000000-0123456789abcdef", kept.name.replace(kept.name.split("-")[1], "making-old")):
        (above / name).mkdir()
        os.utime(above / name, (0, 0))
    other = shared_directory(above, _contents(tmp_path / "source", "b\n"))
    assert set(above.iterdir()) == {kept, other}


def test_a_kernel_that_does_not_tell_its_start_is_no_error(tmp_path: Path) -> None:
    assert host_boot(tmp_path / "missing") == "unknown" != host_boot()


def test_a_source_that_goes_missing_meanwhile_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "source").write_text("x")
    contents = DirectoryContents(copies={"copy": tmp_path / "source"}, texts={"copy/below": "a file is no directory"})
    with pytest.raises(OSError, match="copy"):
        shared_directory(tmp_path / "shared", contents)
    assert list((tmp_path / "shared").iterdir()) == []


@pytest.mark.anyio
async def test_boxes_of_a_home_see_the_same_settings_whatever_the_umask(home: Path) -> None:
    seen = []
    for number, umask in enumerate((0o077, 0o022)):
        before = os.umask(umask)
        try:
            async with open_workspace(f"b{number}", home=home) as box:
                seen.append((await box.run(ETC)).stdout)
                assert (await box.run("echo x > /etc/passwd")).exit_code != 0
        finally:
            os.umask(before)
    assert seen[0] == seen[1]
    assert b"644 passwd" in seen[0]
    assert len(list((home / "shared").iterdir())) <= 2
