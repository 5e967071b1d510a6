"""`open_workspace` and `run` called with what they do not take: one sentence that names what they do."""

import re
from pathlib import Path
from typing import Any

import pytest

import limpet
from limpet.core.errors import BadCommand, ConfigInvalid

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "given, key, says",
    [
        ({"name": None}, "name", "must be a text"),
        ({"name": "a b"}, "name", "letters, digits"),
        ({"name": ""}, "name", "letters, digits"),
        ({"policy": {"readonly": True}}, "policy", "limpet.Policy(readonly=True)"),
        ({"redaction": {"x": "y"}}, "redaction", "limpet.Redaction("),
        ({"capabilities": "shell"}, "capabilities", '{"shell": True, "fs": True}'),
        ({"capabilities": ["shell"]}, "capabilities", '{"shell": True, "fs": True}'),
        ({"lifetime": "forever"}, "lifetime", '"process" or "ttl"'),
        ({"lifetime": "ttl", "ttl": -5}, "ttl", "seconds above 0"),
        ({"lifetime": "ttl", "ttl": "60"}, "ttl", "seconds above 0"),
        ({"ref": "abc"}, "ref", "another workspace's ref"),
        ({"limits": {"memory": 1}}, "limits", "limpet.Limits("),
        ({"env": {"A": 1}}, "env", "env['A'] must be a text"),
        ({"env": "A=1"}, "env", '{"STAGE": "test"}'),
        ({"needs": ["pty"]}, "needs", "limpet.Offer"),
        ({"approver": "yes"}, "approver", "a function"),
        ({"audit": "log"}, "audit", "a function"),
        ({"session": 5}, "session", "must be a text"),
        ({"runtime": None}, "runtime", "bubblewrap"),
        ({"directory": 5}, "directory", "must be a path"),
    ],
    ids=str,
)
async def test_what_open_workspace_does_not_take_is_named_with_what_it_takes(
    given: dict[str, Any], key: str, says: str
) -> None:
    with pytest.raises(ConfigInvalid, match=re.escape(says)) as refused:
        async with limpet.open_workspace(**{"runtime": "memory", **given}):
            pass
    assert (refused.value.where, refused.value.key) == ("open_workspace", key)


def test_a_secret_that_is_a_plain_text_is_refused_without_being_shown() -> None:
    given: Any = {"DB": "correct-horse-battery"}
    with pytest.raises(ConfigInvalid, match=re.escape("limpet.Secret(")) as refused:
        limpet.Redaction(secrets=given)
    assert "correct-horse" not in str(refused.value)


async def test_a_directory_may_be_a_text(tmp_path: Path) -> None:
    async with limpet.open_workspace(runtime="local", directory=str(tmp_path / "kept")) as box:
        await box.files.write("a.txt", b"x")
    assert (tmp_path / "kept/data/a.txt").read_bytes() == b"x"


@pytest.mark.parametrize(
    "what, options, says",
    [
        (None, {}, "Give a text, or a list of texts"),
        (5, {}, "Give a text, or a list of texts"),
        (b"ls", {}, "Give a text, or a list of texts"),
        (["ls", 1], {}, "Give a text, or a list of texts"),
        ("ls", {"cwd": 5}, "cwd must be a text"),
        ("ls", {"env": {"A": 1}}, "env['A'] must be a text"),
        ("ls", {"env": ["A"]}, "env must be an object of texts"),
        ("ls", {"stdin": "text"}, "stdin must be bytes"),
        ("true", {"abort": 5}, "abort must be an anyio.Event, not 5."),
    ],
    ids=str,
)
async def test_what_run_does_not_take_is_named_with_what_it_takes(
    what: Any, options: dict[str, Any], says: str
) -> None:
    async with limpet.open_workspace(runtime="memory") as box:
        with pytest.raises(BadCommand, match=re.escape(says)):
            await box.run(what, **options)


async def test_a_working_directory_may_be_a_path() -> None:
    async with limpet.open_workspace(runtime="memory") as box:
        where: Any = Path("/tmp")
        assert (await box.run("pwd", cwd=where)).stdout == b"/tmp\n"
