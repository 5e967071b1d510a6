"""A package that is installed adds a runtime by its entry point: to the library, to `limpet check` and to a gateway's settings."""

import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.gateway import LIMPET, Gateway
from tests.wire.asking import printed, run

_PACKAGE = Path(__file__).parent / "example_package"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The variable by which Python finds the package, built and unpacked as an installer does."""
    made, place = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("installed")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", made],
        cwd=_PACKAGE,
        check=True,
        capture_output=True,
    )
    (wheel,) = made.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place)
    return {"PYTHONPATH": str(place)}


def _limpet(*words: str, env: Mapping[str, str], home: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/bin:/bin", "LIMPET_HOME": str(home), **env}
    return subprocess.run([LIMPET, *words], env=environment, capture_output=True, text=True, check=False)


def test_the_command_line_takes_it_and_looks_at_it(installed: Mapping[str, str], home: Path) -> None:
    checked = _limpet("check", "example", env=installed, home=home)
    ran = _limpet("run", "--runtime", "example", "--", "echo", "hello", env=installed, home=home)
    without = _limpet("check", "example", env={}, home=home)

    assert (checked.returncode, f"An example in {home.name}, of 512 MiB." in checked.stdout) == (0, True), checked
    assert (ran.returncode, ran.stdout) == (0, "hello\n"), ran.stderr
    assert (without.returncode, "'example' is not a runtime" in without.stderr) == (2, True)


def test_a_gateway_serves_it_by_its_settings(installed: Mapping[str, str], tmp_path: Path, home: Path) -> None:
    """A fresh interpreter: only that one finds the package."""
    config = tmp_path / "limpet.toml"
    config.write_text('[features.shell]\ntype = "example"\nmemory_mb = 64\n')
    words = [LIMPET, "serve", "--port", "0", "--config", config]
    environment = {"PATH": "/usr/bin:/bin", "LIMPET_HOME": str(home), **installed}
    with subprocess.Popen(
        words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as served:
        try:
            assert served.stdout is not None
            gateway = Gateway(tmp_path, home=home)
            for line in served.stdout:
                if line.startswith("limpet serves "):
                    gateway.url = line.split()[2]
                if f"An example in {home.name}, of 64 MiB." in line:
                    break
            assert printed(run(gateway.client(), "echo from the example")) == "from the example\n"
        finally:
            served.terminate()
