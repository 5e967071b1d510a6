"""What the README says can be pasted, and gives what it shows."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gateway import Gateway, running

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
ADDRESS = "http://127.0.0.1:8420"


def blocks(language: str, *, fence: str = "```") -> list[str]:
    return re.findall(rf"^{fence}{language}\n(.*?)^{fence}$", README, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with running(tmp_path_factory.mktemp("readme")) as gateway:
        yield gateway


def ran(arguments: list[str], directory: Path) -> str:
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False, cwd=directory)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="There is no curl on this machine to send the request with.")
def test_the_request_gives_the_answer_that_stands_below_it(gateway: Gateway, tmp_path: Path) -> None:
    request = next(block for block in blocks("sh") if block.startswith("curl"))
    (answer,) = blocks("text", fence="~~~")

    assert ran(["bash", "-c", request.replace(ADDRESS, gateway.url)], tmp_path) == answer


def test_the_client_example_keeps_its_container(gateway: Gateway, tmp_path: Path) -> None:
    example = next(block for block in blocks("python") if "OpenAI(" in block)

    assert ran([sys.executable, "-c", example.replace(ADDRESS, gateway.url)], tmp_path) == "42\n\n"


def test_the_library_example_runs(tmp_path: Path) -> None:
    example = next(block for block in blocks("python") if "open_workspace" in block)

    assert ran([sys.executable, "-c", example], tmp_path) == "42\n\n"
