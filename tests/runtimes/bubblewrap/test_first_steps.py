"""What a model tries first works in a box that nothing was configured for, or says why not and what to do instead."""

import io
import os
import re
import shutil
import zipfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from limpet.core.command import Exited
from limpet.core.ports import Limits, Sandbox, Walls
from limpet.runtimes.bubblewrap import BubblewrapRuntime
from tests.runtimes.bubblewrap.boxes import box_of, run
from tests.support.users import again_as_an_ordinary_user

pytestmark = pytest.mark.anyio

_PROJECT: Mapping[str, str] = {
    "hello/pyproject.toml": '[project]\nname = "hello-box"\nversion = "1"\n[project.scripts]\nhello-box = "hello_box:main"\n'
    '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n',
    "hello/hello_box.py": 'def main():\n    print("hello from", __file__)\n',
    "tool/package.json": '{"name": "hello-node", "version": "1.0.0", "bin": {"hello-node": "cli.js"}}',
    "tool/cli.js": '#!/usr/bin/env node\nconsole.log("hello from", __filename)\n',
}
_SITE = "lib/python3.*/site-packages"


@pytest.fixture
async def box(runtime: BubblewrapRuntime) -> AsyncIterator[Sandbox]:
    async with box_of(runtime) as box:
        for path, text in _PROJECT.items():
            await box.files.write(path, text.encode())
        yield box


def _needs(*programs: str) -> None:
    for program in programs:
        if not Path("/usr/bin", program).exists():
            pytest.skip(f"this machine has no {program} in /usr/bin, so its boxes have none")


async def _says(box: Sandbox, script: str) -> str:
    """What it prints, errors among it; it must succeed."""
    outcome, stdout, stderr = await run(box, f"set -e; {script}")
    assert outcome == Exited(0), stdout + stderr
    return stdout + stderr


async def _bring_wheel(box: Sandbox) -> None:
    """The project as a wheel, in `wheels`: to build it is another test's matter."""
    packed, about = io.BytesIO(), "hello_box-1.dist-info"
    with zipfile.ZipFile(packed, "w") as wheel:
        wheel.writestr("hello_box.py", _PROJECT["hello/hello_box.py"])
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: hello-box\nVersion: 1\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/entry_points.txt", "[console_scripts]\nhello-box = hello_box:main\n")
        wheel.writestr(f"{about}/RECORD", "")
    await box.files.write("wheels/hello_box-1-py3-none-any.whl", packed.getvalue())


async def test_pip_installs_for_the_user_and_python_and_the_path_find_it(box: Sandbox) -> None:
    _needs("pip")

    said = await _says(
        box, "pip install --no-build-isolation --no-index ./hello; hello-box; cd /; python -c 'import hello_box'"
    )

    assert "hello from /home/agent/.local/lib/python3." in said
    assert "externally" not in said
    assert "uninstalled" in await _says(box, "pip uninstall -y hello-box")


async def test_a_virtual_environment_takes_what_pip_installs_in_it(box: Sandbox) -> None:
    _needs("pip")
    if not list(Path("/usr/lib").glob("python3*/ensurepip")):
        pytest.skip("this machine has no python3-venv, so a virtual environment of its boxes gets no pip")
    await _bring_wheel(box)

    said = await _says(
        box,
        "python3 -m venv v; . v/bin/activate; pip install -q --no-index -f wheels hello-box; command -v hello-box; hello-box;"
        " deactivate; ! python3 -c 'import hello_box' 2> /dev/null; ! command -v hello-box",
    )

    assert said.splitlines()[0] == "/mnt/data/v/bin/hello-box"
    assert "hello from /mnt/data/v/lib/python3." in said


async def test_pip_installs_into_a_directory_that_is_named(box: Sandbox) -> None:
    _needs("pip")
    await _bring_wheel(box)

    await _says(
        box,
        "pip install -q --no-index -f wheels --target there hello-box; test -f there/hello_box.py; test ! -e ~/.local/lib",
    )


async def test_uv_installs_for_the_user_and_into_virtual_environments(runtime: BubblewrapRuntime) -> None:
    if (found := shutil.which("uv")) is None:
        pytest.skip("this machine has no uv on the PATH")
    async with box_of(runtime, read_only={"/mnt/uv": Path(found).resolve().parent}) as box:
        for path, text in _PROJECT.items():
            await box.files.write(path, text.encode())
        await _bring_wheel(box)
        install = "/mnt/uv/uv pip install -q --offline --no-index -f /mnt/data/wheels hello-box"

        at_home = await _says(
            box,
            f"cd /tmp; {install}; hello-box; cd /; python3 -c 'import hello_box'; /mnt/uv/uv pip uninstall -q hello-box",
        )
        active = await _says(box, f"python3 -m venv --without-pip v; . v/bin/activate; {install}; hello-box")
        near = await _says(
            box, f"mkdir p; cd p; /mnt/uv/uv venv -q --offline; {install}; .venv/bin/hello-box; ls -A ~/.local/lib/*/*"
        )

    own, _, user_site = near.partition("\n")
    assert at_home.startswith("hello from")
    assert active.startswith("hello from /mnt/data/v/")
    assert own.startswith("hello from /mnt/data/p/.venv/")
    assert "hello_box" not in user_site


async def test_npm_installs_for_the_user_and_for_a_project_and_npx_runs_it(box: Sandbox) -> None:
    _needs("npm", "node")

    everywhere = await _says(
        box, "cd tool; npm pack -s > /dev/null; cd ..; npm install -s -g ./tool/hello-node-1.0.0.tgz; hello-node"
    )
    project = await _says(
        box, "mkdir p; cd p; npm init -y > /dev/null; npm install -s ../tool/hello-node-1.0.0.tgz; npx hello-node"
    )
    own = await _says(box, "npm config get prefix; npm config set prefix ~/mine; npm config get prefix")

    assert everywhere == "hello from /home/agent/.local/lib/node_modules/hello-node/cli.js\n"
    assert project == "hello from /mnt/data/p/node_modules/hello-node/cli.js\n"
    assert own == "/home/agent/.local\n/home/agent/mine\n"


async def test_git_commits_and_clones_and_the_users_identity_decides(box: Sandbox) -> None:
    _needs("git")

    said = await _says(
        box,
        "git init r 2>&1; cd r; echo a > a; git add a; git commit -q -m first; git clone -q . ../copy; cat ../copy/a;"
        " git config --global user.name Ada; git commit -q --amend --no-edit --reset-author; git log --format='%an %s %D'",
    )

    assert said == "Initialized empty Git repository in /mnt/data/r/.git/\na\nAda first HEAD -> main\n"


async def test_make_gcc_and_curl_work(box: Sandbox) -> None:
    _needs("make", "gcc", "curl")
    await box.files.write("main.c", b'#include <stdio.h>\nint main(void) { puts("built"); }\n')
    await box.files.write("Makefile", b"main: main.c\n\tgcc -o main main.c\n")

    assert (
        await _says(box, "make -s -j$(nproc); ./main; curl -s file:///mnt/data/Makefile | head -1")
    ) == "built\nmain: main.c\n"


async def test_processors_are_the_boxs_share_where_it_is_held(runtime: BubblewrapRuntime) -> None:
    held, here = runtime.held.cpu == "sandbox", len(os.sched_getaffinity(0))
    limits = Limits(cpus=1.0) if held else Limits()

    async with box_of(runtime, limits=limits) as box:
        said = await _says(box, "nproc; python3 -c 'import os; print(os.cpu_count())'")

    assert said.split() == (["1", "1"] if held else [str(here), str(os.cpu_count())])


async def test_it_speaks_utf_8_in_a_time_zone(box: Sandbox) -> None:
    said = await _says(
        box,
        "python3 -c 'import sys, time; print(sys.stdout.encoding, time.tzname[0])'; date +%Z; cat /etc/timezone;"
        " echo gr\u00fc\u00dfe | wc -m",
    )

    assert said == "utf-8 UTC\nUTC\nEtc/UTC\n6\n"


async def test_the_home_and_its_caches_live_as_long_as_their_directory(runtime: BubblewrapRuntime, home: Path) -> None:
    for script in (
        "mkdir -p ~/.cache/x; rm ~/.local/bin/python; echo mine > ~/.local/pyvenv.cfg",
        "cat ~/.local/pyvenv.cfg; ls -A ~/.local/bin ~/.cache",
    ):
        async with box_of(runtime, directory=home / "lasting") as box:
            said = await _says(box, script)

    assert said == "mine\n/home/agent/.cache:\nx\n\n/home/agent/.local/bin:\n"


@pytest.mark.parametrize(
    "script, instead",
    [
        ("sudo true", "Run the command without it"),
        ("apt-get install -y cowsay", "pip install NAME"),
        ("ping -c1 127.0.0.1", "curl"),
        ("docker ps", "plain process"),
        ("systemctl start nginx", "in the background"),
    ],
)
async def test_what_cannot_work_fails_and_says_what_to_do_instead(box: Sandbox, script: str, instead: str) -> None:
    outcome, stdout, stderr = await run(box, script)

    program = script.split()[0]
    assert isinstance(outcome, Exited)
    assert outcome.code != 0
    assert stdout == ""
    assert stderr.splitlines()[-1].startswith(f"{program}: ")
    assert instead in stderr.splitlines()[-1]


async def test_a_program_that_is_not_there_is_not_found_and_nothing_claims_to_be_it(box: Sandbox) -> None:
    script = "set -u; nosuch 1; echo $?; f() {\n nosuch 2; }; f; command -v doas; python3 -c 'import shutil; print(shutil.which(\"doas\"))'"
    assert not Path("/usr/bin/doas").exists(), "this test names a program that machines do not have"

    outcome, stdout, stderr = await run(box, script)

    assert (outcome, stdout) == (Exited(0), "127\nNone\n")
    assert stderr == "/bin/bash: line 1: nosuch: command not found\nenvironment: line 2: nosuch: command not found\n"


async def test_a_program_that_works_a_little_still_does_that(box: Sandbox) -> None:
    _needs("apt-get")

    _, stdout, stderr = await run(box, "apt-get --version; apt-get 'no such'")

    assert stdout.startswith("apt ")
    assert "E: Invalid operation no such" in stderr


async def test_what_the_user_installs_never_stands_in_for_a_program_of_the_system(runtime: BubblewrapRuntime) -> None:
    plant = (
        "printf '#!/bin/sh\\necho planted\\n' > ~/.local/bin/PROGRAM; chmod +x ~/.local/bin/PROGRAM; PROGRAM --version"
    )
    walled = Walls(programs=frozenset({"printf", "chmod", "ls", "planted"}))

    async with box_of(runtime) as box:
        free = await run(box, plant.replace("PROGRAM", "ls"))
    async with box_of(runtime, walls=walled) as box:
        kept = await run(box, plant.replace("PROGRAM", "planted"))

    assert free[0] == Exited(0)
    assert "planted" not in free[1]
    assert kept[:2] == (Exited(127), "")


def test_the_same_holds_for_an_ordinary_user() -> None:
    again_as_an_ordinary_user(
        __file__,
        "-k",
        "pip_installs_for_the_user or processors or its_caches or stands_in or git_commits or utf_8 or cannot_work",
    )


async def test_the_probe_tells_what_is_installed_and_looks_once(runtime: BubblewrapRuntime) -> None:
    first, second = await runtime.probe(), await runtime.probe()

    assert any(re.fullmatch(r"python3 3\.\d+\.\d+", program) for program in first.programs)
    assert {"git", "curl"} & set(first.programs) == {
        name for name in ("git", "curl") if Path("/usr/bin", name).exists()
    }
    assert second.programs == first.programs
