"""The library's face, and runtimes by name."""

import subprocess
import sys
from pathlib import Path

import pytest

import limpet
from limpet import wiring
from limpet.core.errors import ConfigInvalid

OUR_HEAVY = ("limpet.server", "limpet.store", "limpet.upstreams", "limpet.responses", "limpet.runtimes", "sqlalchemy")


@pytest.mark.anyio
async def test_a_workspace_is_opened_by_the_name_of_its_runtime(tmp_path: Path) -> None:
    async with limpet.open_workspace("box", runtime="local", directory=tmp_path / "kept") as box:
        result = await box.run("echo hello | tee file")

    assert (result.stdout, result.outcome) == (b"hello\n", limpet.Exited(0))
    assert (tmp_path / "kept" / "data" / "file").read_text() == "hello\n"


@pytest.mark.parametrize("name", ["microsandbox", "opensandbox"])
def test_a_runtime_not_built_yet_is_refused_naming_those_that_are(name: str) -> None:
    with pytest.raises(
        ConfigInvalid, match=f"'{name}' is not built yet; choose one of: bubblewrap, docker, local, memory"
    ):
        wiring.load_runtime(name)


def test_an_unknown_runtime_is_refused_where_it_was_named() -> None:
    with pytest.raises(ConfigInvalid, match=r"limpet.toml: features.shell.type: 'bubblwrap' is not a runtime"):
        wiring.load_runtime("bubblwrap", where="limpet.toml", key="features.shell.type")


def test_every_public_name_is_there() -> None:
    for name in dir(limpet):
        assert getattr(limpet, name) is not None
    with pytest.raises(AttributeError):
        limpet.no_such_name  # noqa: B018 - asking for it is the test


def test_the_library_loads_no_server_store_upstream_or_runtime_before_it_needs_one() -> None:
    program = "import sys, limpet; limpet.open_workspace; print('\\n'.join(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()

    assert [name for name in loaded if name.startswith(OUR_HEAVY)] == []
