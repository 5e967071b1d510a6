import subprocess
import sys
from pathlib import Path

import pytest

from limpet.cli import explained
from limpet.core.errors import BootFailed, ConfigInvalid
from tests.cli.conftest import PROGRAM, Limpet

HEAVY = ("anyio", "httpx2", "pydantic", "rich.console", "sqlalchemy", "starlette", "uvicorn", "limpet.workspace")


def test_help_loads_nothing_that_costs(tmp_path: Path) -> None:
    code = f"""
import sys
sys.argv = ["limpet", "--help"]
from limpet.cli import main
try:
    main()
finally:
    print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert "Serve the gateway." in done.stdout
    assert done.stderr.strip() == "[]"


def test_the_version_is_shown() -> None:
    done = subprocess.run([*PROGRAM, "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()[0], done.stderr) == (0, "limpet", "")


@pytest.mark.parametrize(
    "args", [("nonsense",), ("run", "--nonsense"), ("ask",), ("serve", "--port", "70000")], ids=str
)
def test_a_wrong_call_ends_with_2_and_says_why(limpet: Limpet, args: tuple[str, ...]) -> None:
    done = limpet(*args)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Error" in done.stderr
    assert "Traceback" not in done.stderr


def test_settings_that_are_wrong_end_serve_with_2_and_one_sentence(limpet: Limpet, tmp_path: Path) -> None:
    (tmp_path / "limpet.toml").write_text("[features.shell]\ntpye = 'local'\n")
    done = limpet("serve")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"limpet: {tmp_path}/limpet.toml: features.shell.tpye: is not known; the nearest known key is features.shell.type\n"
    )


def test_a_runtime_that_is_not_built_is_refused_by_name_and_never_replaced(limpet: Limpet) -> None:
    done = limpet("serve", LIMPET_FEATURES__SHELL__TYPE="cloudflare")
    assert (done.returncode, done.stdout) == (2, "")
    assert '"cloudflare" is not built yet; built: bubblewrap, docker, local, memory' in done.stderr


def test_local_is_refused_until_somebody_means_it(limpet: Limpet) -> None:
    done = limpet("serve", LIMPET_FEATURES__SHELL__TYPE="local")
    assert (done.returncode, "--unsafe-local" in done.stderr) == (2, True)


def test_every_error_becomes_one_sentence() -> None:
    assert explained(ConfigInvalid("f", "k", "p")) == (2, "f: k: p")
    assert explained(BootFailed("no room.")) == (1, "The sandbox did not start: no room.")
    assert explained(ExceptionGroup("group", [ExceptionGroup("inner", [BootFailed("x.")])]))[0] == 1
    assert explained(FileNotFoundError(2, "No such file or directory", "/x")) == (1, "No such file or directory: /x")
    missing = ModuleNotFoundError("No module named 'structlog'", name="structlog")
    assert explained(missing) == (2, "This needs structlog, which is not installed. Install limpet[all].")
    assert explained(RuntimeError("odd"))[1].startswith("This is a fault of limpet: RuntimeError: odd.")
