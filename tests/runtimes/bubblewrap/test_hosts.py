"""Hosts and images of other kinds: what the probe says where no box can be had, and an image that has no Python."""

import os
from pathlib import Path

import pytest

from limpet.core.command import Exited
from limpet.core.errors import RuntimeUnavailable
from limpet.core.ports import SandboxSpec
from limpet.runtimes.bubblewrap import BubblewrapRuntime
from limpet.runtimes.bubblewrap.probe import explain
from tests.runtimes.bubblewrap.boxes import box_of, remains, run
from tests.support.images import image_without_python

pytestmark = pytest.mark.anyio


async def test_without_bubblewrap_it_says_what_to_install_and_runs_nothing(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    async with BubblewrapRuntime(home=home) as runtime:
        found = await runtime.probe()
        with pytest.raises(RuntimeUnavailable, match="apt-get install bubblewrap"):
            await runtime.create(SandboxSpec(name="never"))

    assert (found.works, found.remedy) == (False, "apt-get install bubblewrap")
    assert remains(home, "never") == []


async def test_a_bubblewrap_that_is_not_permitted_says_so_in_its_own_words(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing = home / "bin/bwrap"
    refusing.parent.mkdir()
    refusing.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    refusing.chmod(0o755)
    monkeypatch.setenv("PATH", f"{refusing.parent}:{os.environ['PATH']}")
    async with BubblewrapRuntime(home=home) as runtime:
        found = await runtime.probe()
        left = [*(home / "run").iterdir(), *(home / "boxes").iterdir()]

    assert not found.works
    assert "setting up uid map: Permission denied" in found.detail
    assert left == []


def test_a_complaint_that_nothing_explains_still_names_something_to_try() -> None:
    found = explain("bwrap: Unknown option --disable-userns")

    assert (found.works, found.remedy) == (False, "Install bubblewrap 0.8.0 or newer (Debian 12, Ubuntu 24.04).")


async def test_an_image_without_python_is_a_box_too(runtime: BubblewrapRuntime, home: Path) -> None:
    async with box_of(runtime, image=image_without_python(home / "image")) as box:
        outcome, stdout, stderr = await run(
            box,
            "cat /etc/issue; while read -r line; do echo ${line%%:*}; done < /etc/passwd; echo x > f; ls /usr/bin; ls -d /opt",
        )

    assert (outcome, stderr) == (Exited(0), "")
    assert stdout == "of the image\nroot\nagent\nnobody\nbash\ncat\nls\n/opt\n"
