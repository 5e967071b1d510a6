"""`shell_cmd` in real boxes: what it runs, where, and what it gives back."""

import hashlib
from pathlib import Path
from typing import Any

import anyio
import pytest

from limpet.tools.shell_cmd.config import ShellCmdConfig
from limpet.tools.shell_cmd.tool import ShellCmdTool
from limpet.tools.view import as_files_know
from limpet.workspace.opening import SandboxOptions, open_in
from limpet.workspace.workspace import Workspace
from tests.support.runtimes import opened
from tests.tools.shell_cmd.calls import as_json, script, tool

pytestmark = pytest.mark.anyio

MOST = 5.0  # seconds


@pytest.mark.statement("s3-markdown-is-the-default-format", "s3-examples-run")
async def test_the_seeds_examples_run_as_they_stand(box: Workspace) -> None:
    await box.files.write("/mnt/data/file.txt", b"x")

    listed = await tool(box).call({"command": "ls", "parameters": ["-la", "./"]})
    assert "file.txt" in listed["markdown"]

    here = await tool(box).call({"command": "pwd", "directory": "./"})
    assert "✅ Exit code 0" in here["markdown"]


@pytest.mark.statement("s3-parameters-are-tokens", "s3-no-shell-is-in-between")
async def test_arguments_arrive_as_they_are_written(box: Workspace) -> None:
    await box.files.write("/mnt/data/a.txt", b"")
    odd = ["$HOME", "*", "it's", 'x" -rf "y', "#x", "a\\", "(b)", "{a,b}", "~root"[1:], "", "ü 🐚"]

    result = await tool(box, config=ShellCmdConfig(strict_syntax=False)).call(
        {"command": "printf", "parameters": ["%s|", *odd], "output_format": "json", "output_detail": "full"}
    )

    assert result["stdout"] == "".join(f"{one}|" for one in odd)


@pytest.mark.statement("s3-directory-is-resolved-and-used")
async def test_the_directory_is_inside_the_trusted_one_and_used(box: Workspace) -> None:
    await box.files.write("/mnt/data/sub/deep/x", b"found\n")

    assert (await as_json(box, "cat", "x", directory="sub/deep"))["stdout"] == "found\n"
    assert (await as_json(box, "cat", "deep/x", directory="./sub"))["stdout"] == "found\n"
    assert (await as_json(box, "cat", "../deep/x", directory=f"{box.directory}/sub/deep"))["stdout"] == "found\n"
    assert (await as_json(box, "cat", "sub/deep/x", directory="  "))["stdout"] == "found\n"


@pytest.mark.statement("s3-the-working-directory-is-trusted")
async def test_another_trusted_directory_is_the_ground_of_all_paths(box: Workspace) -> None:
    await box.files.write("/mnt/data/project/x", b"mine\n")
    await box.files.write("/mnt/data/other", b"not mine\n")
    trusted = tool(box, config=ShellCmdConfig(working_directory=f"{box.directory}/project"))

    mine = await trusted.call({"command": "cat", "parameters": ["x"], "output_format": "json", "artifact_paths": ["x"]})
    assert (mine["stdout"], mine["artifacts"][0]["path"]) == ("mine\n", "x")
    other = await trusted.call({"command": "cat", "parameters": ["../other"]})
    assert other["error"]["code"] == "outside_trusted_directory"
    assert f"the trusted working directory {box.directory}/project" in other["error"]["message"]


@pytest.mark.parametrize(
    "directory", ["/etc", "..", "../..", "/mnt", "/mnt/database", "~", "sub/../../..", "link", "link/x"]
)
@pytest.mark.statement("s3-a-directory-outside-is-refused", "s3-a-mismatch-names-the-trusted-directory")
async def test_a_directory_outside_is_a_mismatch_and_nothing_runs(shared_box: Workspace, directory: str) -> None:
    await shared_box.run("ln -sfn /etc link")

    result = await as_json(shared_box, "touch", "ran", directory=directory)

    assert result["error"]["code"] == "outside_trusted_directory"
    assert result["error"]["message"].startswith("Working directory mismatch: ")
    assert f"the trusted working directory {shared_box.directory}" in result["error"]["message"]
    assert result["error"]["trusted_directory"] == shared_box.directory
    assert "ran" not in {one.path for one in await shared_box.files.list("/mnt/data")}


async def test_a_directory_that_is_not_there_is_told(box: Workspace) -> None:
    result = await as_json(box, "ls", directory="nowhere")

    assert result["error"]["code"] == "refused"
    assert "nowhere" in result["error"]["message"]


@pytest.mark.parametrize(
    "command, parameters",
    [
        ("cat", ["/etc/passwd"]), ("cat", ["../../etc/passwd"]), ("touch", ["link/new"]), ("cp", ["x", "link/new"]), ("cat", ["secret"]),
        ("dd", ["if=/etc/passwd"]), ("ls", ["out=/tmp/x"]), ("curl", ["-d", "@/etc/passwd"]), ("curl", ["file:///etc/passwd"]),
        ("ls", ["--output=/tmp/outside"]), ("gcc", ["-I/tmp/include"]), ("cat", ["~/.ssh/id_rsa"]), ("cat", ["C:\\x"]),
        ("cat", ["\\\\srv\\x"]), ("/tmp/evil", []), ("/bin/anything", []), ("/bin/ls", []), ("./link/evil", []), ("../evil", []),
        ("link/evil", []),
    ],
)  # fmt: skip
@pytest.mark.statement("s3-paths-outside-are-refused")
async def test_paths_that_leave_are_refused_before_anything_runs(
    shared_box: Workspace, command: str, parameters: list[str]
) -> None:
    await shared_box.run("ln -sfn /etc link; ln -sfn /etc/passwd secret")

    result = await as_json(shared_box, command, *parameters)

    assert result["error"]["code"] == "outside_trusted_directory"
    assert "Working directory mismatch" in result["error"]["message"]


@pytest.mark.parametrize(
    "command, parameters, code",
    [
        ("ls && id", [], "control_syntax"), ("ls", ["|", "sh"], "control_syntax"), ("ls", ["$(id)"], "control_syntax"),
        ("ls -la", [], "not_one_command"), ("sh", ["-c", "touch ran"], "inline_script"), ("bash", ["-lc", "touch ran"], "inline_script"),
        ("env", ["-i", "bash"], "runs_other_programs"), ("timeout", ["5", "touch", "ran"], "runs_other_programs"),
        ("eval", ["touch", "ran"], "inline_script"), ("exec", ["touch", "ran"], "inline_script"), ("A=1", ["touch"], "inline_script"),
        ("cat", ["$HOME/.ssh/id_rsa"], "control_syntax"), ("cat$IFS/etc/hostname", [], "control_syntax"),
    ],
)  # fmt: skip
async def test_rejections_name_what_was_found_and_what_to_write(
    shared_box: Workspace, command: str, parameters: list[str], code: str
) -> None:
    result = await as_json(shared_box, command, *parameters)

    assert result["error"]["code"] == code
    assert "Instead, " in result["error"]["message"]
    assert "ran" not in {one.path for one in await shared_box.files.list("/mnt/data")}


async def test_a_program_of_the_trusted_directory_runs_by_its_path(real_box: Workspace) -> None:
    await script(real_box, "bin/hello", b'echo "hello $1 from $(basename "$PWD")"\n')
    await real_box.files.mkdir("/mnt/data/sub")

    assert (await as_json(real_box, "./bin/hello", "you"))["stdout"] == "hello you from data\n"
    assert (await as_json(real_box, "../bin/hello", "you", directory="sub"))["stdout"] == "hello you from sub\n"


async def test_a_program_that_is_not_there_is_a_result(box: Workspace) -> None:
    result = await as_json(box, "no-such-program")

    assert result["exit_code"] == 127
    assert "no-such-program" in result["stderr"]


@pytest.mark.statement("s3-output-is-captured")
async def test_a_failing_command_is_a_result_with_both_streams(real_box: Workspace) -> None:
    await script(real_box, "fails", b"echo out; echo err >&2; exit 3\n")

    result = await as_json(real_box, "./fails")

    assert (result["exit_code"], result["stdout"], result["stderr"], result["timed_out"]) == (
        3,
        "out\n",
        "err\n",
        False,
    )
    assert result["duration_ms"] > 0


@pytest.mark.statement("s3-minimal-is-the-default-detail", "s3-full-gives-the-whole-output")
async def test_minimal_shows_400_characters_and_full_shows_all(box: Workspace) -> None:
    await box.files.write("/mnt/data/long", "ü".encode() * 5_000)

    minimal = await as_json(box, "cat", "long")
    assert (minimal["stdout"], minimal["stdout_truncated"]) == ("ü" * 400, True)
    assert await box.files.read(as_files_know(box, minimal["stdout_file"])) == "ü".encode() * 5_000

    full = await as_json(box, "cat", "long", output_detail="full")
    assert full["stdout"] == "ü" * 5_000
    assert "stdout_truncated" not in full


async def test_exactly_400_characters_are_not_cut(box: Workspace) -> None:
    await box.files.write("/mnt/data/text", b"x" * 400)

    result = await as_json(box, "cat", "text")

    assert result["stdout"] == "x" * 400
    assert "stdout_truncated" not in result


async def test_full_is_bounded_and_the_whole_is_in_a_file(real_box: Workspace) -> None:
    result = await as_json(real_box, "seq", "400000", output_detail="full")

    assert len(result["stdout"]) < (1 << 20) + 200
    assert result["stdout"].startswith("1\n2\n")
    assert result["stdout"].endswith("400000\n")
    assert "bytes left out" in result["stdout"]
    whole = await real_box.files.read(as_files_know(real_box, result["stdout_file"]))
    assert whole == b"".join(b"%d\n" % number for number in range(1, 400_001))
    middle = await as_json(real_box, "grep", "-n", "-x", "200000", result["stdout_file"])
    assert (middle["stdout"], middle["exit_code"]) == ("200000:200000\n", 0)
    around = await as_json(real_box, "sed", "-n", "200000,200001p", result["stdout_file"])
    assert around["stdout"] == "200000\n200001\n"


async def test_of_the_home_only_what_was_kept_may_be_read(real_box: Workspace) -> None:
    await real_box.files.write("/home/agent/other", b"of somebody else")
    home = real_box.places.home

    for word in (f"{home}/other", f"{home}/.limpet/output/../../other", f"{home}/.limpet"):
        with_it = await ShellCmdTool(real_box, session="s").call({"command": "cat", "parameters": [word]})
        assert "error" in with_it, word


async def test_binary_output_is_shown_as_far_as_it_goes_and_kept(real_box: Workspace) -> None:
    data = bytes(range(256))
    await real_box.files.write("/mnt/data/binary", data)

    result = await as_json(real_box, "cat", "binary")

    assert result["stdout"].startswith("\0\x01\x02")
    assert await real_box.files.read(as_files_know(real_box, result["stdout_file"])) == data


@pytest.mark.statement("s3-artifacts-have-hashes")
async def test_artifacts_have_digest_and_size_or_their_own_error(box: Workspace) -> None:
    await box.run("mkdir dist; printf built > dist/app.js; ln -s app.js dist/inside.js; ln -s /etc/passwd dist/out.js")

    paths = ["dist/app.js", f"{box.directory}/dist/app.js", "dist/inside.js", "dist", "dist/none.js"]
    result = await as_json(box, "ls", artifact_paths=paths)

    digest = hashlib.sha256(b"built").hexdigest()
    assert result["artifacts"][:3] == [{"path": "dist/app.js", "sha256": digest, "bytes": 5}] * 3
    assert [one["path"] for one in result["artifacts"][3:]] == ["dist", "dist/none.js"]
    assert "is a directory" in result["artifacts"][3]["error"]
    assert "does not exist" in result["artifacts"][4]["error"]


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "link", "link/passwd"])
@pytest.mark.statement("s3-artifacts-stay-in-scope")
async def test_artifacts_outside_are_refused_before_the_command_runs(shared_box: Workspace, path: str) -> None:
    await shared_box.run("ln -sfn /etc link")

    result = await as_json(shared_box, "touch", "ran", artifact_paths=["ran", path])

    assert result["error"]["code"] == "outside_trusted_directory"
    assert "artifact_paths[1]" in result["error"]["message"]
    assert "ran" not in {one.path for one in await shared_box.files.list("/mnt/data")}


@pytest.mark.parametrize("runtime", ["local", "bubblewrap"])
@pytest.mark.parametrize("name", ["codex", "gemini", "copilot"])
@pytest.mark.statement("s3-ai-commands-answer-for-themselves", "s3-ai-commands-keep-their-record")
async def test_an_ai_command_that_ends_well_is_the_answer(home: Path, runtime: str, name: str) -> None:
    with_bin = SandboxOptions(env={"PATH": "bin:/usr/bin:/bin"})
    async with opened(runtime, home) as there, open_in(there, opening=with_bin) as box:
        await script(box, f"bin/{name}", b"printf '\\033[32mDone\\033[0m\\n'; echo thinking >&2; seq 200 >&2\n")
        result = await tool(box).call({"command": name, "parameters": ["exec", "do it"]})

    assert (result["assistant_text"], result["ends_turn"]) == ("Done", True)
    assert f'**Command:** `{name} exec "do it"`' in result["markdown"]
    assert "thinking\n1\n2\n" in result["markdown"]
    assert "\n200\n" in result["markdown"]
    assert "(preview)" not in result["markdown"]


@pytest.mark.parametrize("name", ["codex", "Gemini", "COPILOT"])
@pytest.mark.statement("s3-failed-ai-commands-are-explained")
async def test_an_ai_command_that_fails_says_so_formatted(shared_box: Workspace, name: str) -> None:
    result = await tool(shared_box).call({"command": name})

    assert result["ends_turn"] is True
    assert result["assistant_text"] == result["markdown"]
    assert "❌ Error" in result["assistant_text"]


async def test_other_commands_end_no_turn(box: Workspace) -> None:
    result = await tool(box).call({"command": "echo", "parameters": ["codex"]})

    assert set(result) == {"markdown"}


@pytest.mark.parametrize(
    "arguments, problem",
    [
        ({}, "command is missing"), ({"command": ""}, "command is empty"), ({"command": 5}, "command must be a text"),
        ({"command": "''"}, "command is empty"), ({"command": "ls", "parameters": "-la"}, "parameters must be a list of texts"),
        ({"command": "ls", "parameters": ["a", None]}, "parameters[1] must be a text"),
        ({"command": "ls", "timeout": -1}, "from 0 to 604800000"),
        ({"command": "ls", "timeout": "soon"}, "timeout must be a number"), ({"command": "ls", "args": []}, '"args" is not an argument'),
        ({"command": "ls", "output_format": "yaml"}, 'one of "markdown", "json"'), ({"command": "ls\0"}, "NUL character"),
        ({"command": "ls", "parameters": ["\ud800"]}, "half of a surrogate pair"), ({"command": "ls", "directory": 5}, "directory must be"),
        ({"command": "ls", "working_directory": "/"}, '"working_directory" is not an argument of it; did you mean directory'),
    ],
)  # fmt: skip
@pytest.mark.statement("s3-command-is-required")
async def test_a_wrong_argument_is_told_with_an_example(
    memory_box: Workspace, arguments: dict[str, Any], problem: str
) -> None:
    result = await tool(memory_box).call(arguments)

    assert result["error"]["code"] == "invalid_arguments"
    assert problem in result["error"]["message"]
    assert result["error"]["message"].endswith('Example: {"command": "ls", "parameters": ["-la", "./"]}')


async def test_what_no_program_can_receive_is_refused_in_words(real_box: Workspace) -> None:
    result = await as_json(real_box, "echo", "x" * 200_000)

    assert result["error"]["code"] == "refused"
    assert "too long" in result["error"]["message"]


@pytest.mark.parametrize(
    "arguments",
    [
        {"command": "x" * 1_000_000}, {"command": "y " * 500_000}, {"command": "ls", "parameters": ["../" * 300_000]},
        {"command": "ls", "parameters": ["x;" * 500_000]}, {"command": "ls", "parameters": ["x=" * 500_000]},
        {"command": "ls", "parameters": ["-" + "a:/" * 300_000]}, {"command": "ls", "directory": "x/" * 500_000},
        {"command": "ls", "parameters": ["x"] * 100_000}, {"command": "sed", "parameters": ["s/" * 400_000]}, {"y" * 1_000_000: 1},
        {"command": "ls", "artifact_paths": ["x" * 1_000_000]}, {"command": "1" * 500_000 + "x"},
        {"command": "env", "parameters": ["1" * 500_000 + "x"]},
        {"command": "ls", "parameters": ["a:..:" * 200_000], "directory": "sub"},
        {"command": "perl", "parameters": ["-" + "l" * 1_000_000]},
    ],
    ids=range(15),
)  # fmt: skip
async def test_a_megabyte_is_answered_soon_and_briefly(memory_box: Workspace, arguments: dict[str, Any]) -> None:
    with anyio.fail_after(MOST):
        result = await tool(memory_box).call(arguments)

    assert len(repr(result)) < 10_000


async def test_a_timeout_of_nothing_is_the_default(box: Workspace) -> None:
    assert (await as_json(box, "echo", "hi", timeout=0))["stdout"] == "hi\n"


@pytest.mark.statement("s3-the-tool-is-shell-cmd", "s3-only-on-a-users-request")
async def test_the_model_is_told_to_wait_for_an_explicit_request(memory_box: Workspace) -> None:
    shown = tool(memory_box)

    assert shown.name == "shell_cmd"
    assert "only when the user explicitly asks" in shown.description
    assert shown.parameters["required"] == ["command"]
    assert set(shown.parameters["properties"]) == {
        "command", "parameters", "directory", "timeout", "output_format", "output_detail", "artifact_paths",
    }  # fmt: skip
