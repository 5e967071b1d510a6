"""Names of files that come together, and skills as they lie on the host for a box."""

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.containers.attachments import Skill, final_names, write_skills
from limpet.containers.skill_bundle import BundleFile, SkillBundle


@pytest.mark.parametrize(
    "wanted, taken, final",
    [
        (["a.csv", "b.csv"], [], ["a.csv", "b.csv"]),
        (["a.csv", "a.csv", "a.csv"], [], ["a.csv", "a-2.csv", "a-3.csv"]),
        (["a.csv"], ["a.csv", "a-2.csv"], ["a-3.csv"]),
        (["A.csv", "a.csv"], [], ["A.csv", "a-2.csv"]),
        (["notes", "notes"], [], ["notes", "notes-2"]),
        ([".env", ".env"], [], [".env", ".env-2"]),
        (["../../etc/passwd", "C:\\x\\passwd"], [], ["passwd", "passwd-2"]),
    ],
)
def test_files_that_come_together_get_names_of_their_own(wanted: list[str], taken: list[str], final: list[str]) -> None:
    assert final_names(wanted, taken) == final


@given(wanted=st.lists(st.text(max_size=300), max_size=8), taken=st.lists(st.text(max_size=20), max_size=8))
def test_whatever_they_are_called_they_are_names_and_differ(wanted: list[str], taken: list[str]) -> None:
    final = final_names(wanted, taken)
    assert len(final) == len(wanted)
    assert len({name.casefold() for name in [*final, *taken]}) == len(final) + len({name.casefold() for name in taken})
    for name in final:
        assert name not in ("", ".", "..")
        assert "/" not in name
        assert "\0" not in name
        assert len(os.fsencode(name)) <= 255


def skill(root: Path, name: str, **files: str) -> Skill:
    kept = []
    for path, text in files.items():
        target = root / path.replace("__", "/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        target.chmod(0o755 if text.startswith("#!") else 0o644)
        kept.append(BundleFile(path=path.replace("__", "/"), bytes=len(text), is_program=text.startswith("#!")))
    bundle = SkillBundle(name=name, description="d", directory=root, files=tuple(kept))
    return Skill(name=name, description="d", bundle=bundle)


def shown(directory: Path) -> dict[str, tuple[str, bool]]:
    return {
        path.relative_to(directory).as_posix(): (path.read_text(), bool(path.stat().st_mode & stat.S_IXUSR))
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def test_skills_lie_as_they_were_packed_and_are_replaced_whole(tmp_path: Path) -> None:
    beside, staged = tmp_path / "container", tmp_path / "staged"
    beside.mkdir()
    tmp_path = beside / "skills"
    one = skill(staged / "0", "one", manifest="m", deep__make="#!/bin/sh")
    write_skills(tmp_path, [one, skill(staged / "1", "two", manifest="m")])
    assert shown(tmp_path) == {
        "one/deep/make": ("#!/bin/sh", True),
        "one/manifest": ("m", False),
        "two/manifest": ("m", False),
    }
    write_skills(tmp_path, [skill(staged / "2", "one", manifest="new")])
    assert shown(tmp_path) == {"one/manifest": ("new", False), "two/manifest": ("m", False)}
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["one", "two"]
    assert [entry.name for entry in beside.iterdir()] == ["skills"]
