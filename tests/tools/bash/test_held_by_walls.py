"""Where the kernel holds a rule, what cannot be judged by it runs, and the wall decides: the seed's own examples under its own block."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from limpet.core.errors import CommandDenied
from limpet.core.ports import Offer, Runtime
from limpet.guard.policy.policy import Policy
from limpet.runtimes.local.runtime import LocalRuntime
from limpet.tools.bash.config import shell_config_from
from limpet.tools.bash.tool import BashTool
from limpet.workspace.opening import SandboxOptions, WorkspaceOptions, open_in
from tests.support.runtimes import boxes_with
from tests.tools.bash.test_config import SEED

pytestmark = pytest.mark.anyio

NOT_FOUND = 127
# Whether a program is installed is not the guard's affair.
EXAMPLES = {
    "git init -q . && git status": 0 if shutil.which("git") else NOT_FOUND,
    "printf 'all:\\n\\techo built > made\\n' > Makefile && make": 0 if shutil.which("make") else NOT_FOUND,
    "echo 'import os; print(os.getcwd())' > x.py && python3 x.py": 0,
    "python3 -c 'print(open(\"/mnt/data/x.py\").read())'": 0,
    "pytest -v": None,
    'tool=ls; "$tool" -a | sh -c \'cat > "$0"\' list': 0,
}


@pytest.fixture
async def boxes(home: Path) -> AsyncIterator[Runtime]:
    async with boxes_with(Offer.WALL_ALLOWED_PATHS, home) as runtime:
        yield runtime


@pytest.mark.parametrize("is_opened_with_it", [True, False], ids=["opened with the policy", "configured afterwards"])
async def test_the_examples_of_the_seed_run_under_its_own_block(boxes: Runtime, is_opened_with_it: bool) -> None:
    policy = shell_config_from(SEED).policy if is_opened_with_it else None
    async with open_in(boxes, rules=WorkspaceOptions(policy=policy)) as box, BashTool.configured(box, SEED) as bash:
        answers = {command: await bash.call({"command": command}) for command in EXAMPLES}
        await box.files.write("package.json", b'{"scripts": {"build": "echo built"}}')
        build = await bash.call({"command": "npm run build", "run_in_background": True})
        built = await bash.call({"task_id": build["task_id"], "wait": True})
        outside = await bash.call({"command": "cat /root/.bashrc"})
        unseen = await bash.call({"command": "python3 -c 'open(\"/root/.bashrc\")'"})
        shutdown = await bash.call({"command": "shutdown now"})

    assert [answer["error"] for answer in answers.values() if answer.get("error")] == []
    ran = {command: answer["exit_code"] for command, answer in answers.items()}
    assert {command: ran[command] for command, code in EXAMPLES.items() if code is not None} == {
        command: code for command, code in EXAMPLES.items() if code is not None
    }
    assert built["exit_code"] in (0, 127)
    assert outside["error"]["rule"] == "allowed_paths"
    assert unseen["exit_code"] == 1
    assert "Permission denied" in unseen["stderr"] or "No such file" in unseen["stderr"]
    assert shutdown["error"]["rule"] == "blocked_commands"


async def test_what_the_wall_does_not_show_no_program_reads(boxes: Runtime, tmp_path: Path) -> None:
    for name in ("open", "closed"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_text(name)
    opening = SandboxOptions(read_only={"/srv/open": tmp_path / "open", "/srv/closed": tmp_path / "closed"})
    policy = Policy(allowed_paths=("/srv/open",))
    read = "python3 -c 'import sys; print(open(sys.argv[1]).read())' "
    async with open_in(boxes, opening=opening, rules=WorkspaceOptions(policy=policy)) as box:
        assert (await box.run(f"{read} /srv/open/f")).stdout == b"open\n"
        assert (await box.run(f"{read} /srv/closed/f")).exit_code == 1
        assert (await box.run(f"{read} /srv/$(echo closed)/f")).exit_code == 1
        with pytest.raises(CommandDenied, match="allowed_paths"):
            await box.run("cat /srv/closed/f")


async def test_a_box_that_shows_more_than_a_view_allows_is_judged_as_ever(boxes: Runtime, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("shown to the box")
    async with open_in(boxes, opening=SandboxOptions(read_only={"/srv/more": tmp_path})) as box:
        with pytest.raises(CommandDenied, match="allowed_paths"):
            await box.guarded(policy=Policy(allowed_paths=())).run("python3 x.py")
        with pytest.raises(CommandDenied, match="readonly"):
            await box.guarded(policy=Policy(readonly=True)).run("python3 -c pass")
    async with open_in(boxes) as box:
        with pytest.raises(CommandDenied, match="allowed_paths"):
            await box.guarded(policy=Policy(allowed_paths=()), roots=("/mnt/data/a",)).run("python3 x.py")


async def test_a_read_only_box_runs_what_is_not_known_as_a_reader_and_nothing_changes(boxes: Runtime) -> None:
    async with open_in(boxes, rules=WorkspaceOptions(policy=Policy(readonly=True))) as box:
        assert (await box.run("python3 -c 'print(7)'")).stdout == b"7\n"
        assert (await box.run('python3 -c \'open("x", "w")\'')).exit_code == 1
        with pytest.raises(CommandDenied, match="readonly"):
            await box.run("rm x")
        with pytest.raises(CommandDenied, match="readonly"):
            await box.run("echo a > x")


async def test_where_programs_are_held_a_name_that_is_not_sure_is_tried(boxes: Runtime) -> None:
    if Offer.WALL_ALLOWED_COMMANDS not in boxes.offers:
        pytest.skip("this kernel cannot hold programs")
    policy = Policy(allowed_commands=frozenset({"ls", "cat", "echo"}))
    async with open_in(boxes, rules=WorkspaceOptions(policy=policy)) as box:
        assert (await box.run('echo a > f; "$(echo cat)" f')).stdout == b"a\n"
        assert (await box.run('"$(echo id)"')).exit_code in (126, 127)
        with pytest.raises(CommandDenied, match="allowed_commands"):
            await box.run("id")


async def test_without_the_wall_what_cannot_be_judged_is_refused() -> None:
    async with LocalRuntime() as runtime, open_in(runtime) as box, BashTool.configured(box, SEED) as bash:
        answer = await bash.call({"command": "python3 x.py"})

    assert answer["error"]["rule"] == "allowed_paths"


async def test_a_plain_tool_refuses_what_the_platform_refuses() -> None:
    async with LocalRuntime() as runtime, open_in(runtime) as box:
        refused = await BashTool(box).call({"command": "rm -rf /"})
        own = await BashTool(box.guarded(policy=Policy(blocks_platform_defaults=False))).call({"command": "true"})

    assert refused["error"]["rule"] == "blocked_commands"
    assert own["exit_code"] == 0
