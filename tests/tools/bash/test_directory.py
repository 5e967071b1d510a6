"""The working directory goes from call to call, however the shell ended."""

import pytest

from limpet.tools.bash import BashTool
from limpet.tools.bash.shell_markers import asking
from limpet.tools.view import as_commands_know
from limpet.workspace.workspace import Workspace
from tests.tools.bash.conftest import Session

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "command",
    [
        "cd sub",
        "cd sub; exit 3",
        "cd sub && false",
        "set -e; cd sub; false; cd /",
        "cd sub; exec true",
        "trap 'echo bye' EXIT; cd sub",
        "cd sub; trap - EXIT; kill -9 $$",
        "cd sub\nif",
        "cd sub; exec >/dev/null 2>&1",
        "pushd sub >/dev/null",
        "D=sub; cd $D",
        "cd s*",
        "f() { cd sub; }; f",
        "eval 'cd sub'",
        "echo 'cd sub' > /tmp/rc$$; . /tmp/rc$$; rm /tmp/rc$$",
        "cd sub; (cd /; true)",
        "cd sub; bash -c 'cd /'",
        "cd /; cd - >/dev/null; cd sub; PWD=/nowhere",
        "cd sub; exec sh -c 'echo from sh'",
    ],
)
async def test_the_next_call_starts_where_the_shell_ended(fresh_session: Session, command: str) -> None:
    await fresh_session("mkdir -p sub")

    ended = await fresh_session(command)
    after = await fresh_session("pwd")

    assert (ended["next_cwd"], after["cwd"]) == (
        fresh_session.place("/mnt/data/sub"),
        fresh_session.place("/mnt/data/sub"),
    )
    assert after["stdout"].endswith("/data/sub\n")


@pytest.mark.parametrize(
    "command",
    [
        "echo cd sub",
        "(cd sub)",
        "cd sub | cat",
        "cd nowhere",
        "cd sub & wait",
        "bash -c 'cd sub'",
        "true; env -C sub true",
        "true && env -C sub true",
    ],
)
async def test_what_did_not_move_the_shell_moves_nothing(fresh_session: Session, command: str) -> None:
    await fresh_session("mkdir -p sub")
    await fresh_session(command)

    assert (await fresh_session("pwd"))["cwd"] == fresh_session.place("/mnt/data")


@pytest.mark.statement("s2-cwd-is-used")
async def test_a_directory_for_one_call_is_for_that_call(bash: Session) -> None:
    await bash("mkdir -p a/b")

    there = await bash("basename $PWD", cwd="a/b")
    after = await bash("basename $PWD")

    assert (there["cwd"], there["stdout"], after["cwd"]) == (
        bash.place("/mnt/data/a/b"),
        "b\n",
        bash.place("/mnt/data"),
    )


async def test_a_directory_is_relative_to_where_the_session_is(bash: Session) -> None:
    await bash("mkdir -p a/b && cd a")

    assert (await bash("true", cwd="b"))["cwd"] == bash.place("/mnt/data/a/b")
    assert (await bash("true", cwd="~"))["cwd"] == bash.place("/home/agent")


async def test_a_directory_that_is_not_there_is_named(bash: Session) -> None:
    answer = await bash("true", cwd="nowhere")

    assert "nowhere is not a directory" in answer["error"]["message"]


async def test_a_session_whose_directory_is_gone_starts_over_and_says_so(bash: Session) -> None:
    await bash("mkdir gone && cd gone")
    await bash("rmdir ../gone", cwd="/")
    await bash.box.files.delete("gone")

    answer = await bash("echo here")

    assert (answer["stdout"], answer["cwd"]) == ("here\n", bash.place("/mnt/data"))
    assert answer["notes"] == [
        f"The working directory {bash.place('/mnt/data/gone')} does not exist any more; this ran in {bash.box.directory}."
    ]


async def test_a_task_starts_over_too_where_the_directory_is_gone(bash: Session) -> None:
    await bash("mkdir gone && cd gone")
    await bash.box.files.delete("gone")

    answer = await bash("echo here", run_in_background=True)

    assert (answer["stdout"], answer["cwd"]) == ("here\n", bash.box.directory)
    assert "does not exist any more" in answer["notes"][0]


async def test_where_the_files_do_not_reach_a_lost_directory_is_noticed_too(bash: Session) -> None:
    await bash("cd $(mktemp -d)")
    await bash("rmdir $OLDPWD 2>/dev/null; cd /; rmdir /tmp/tmp.*", cwd="/")

    answer = await bash("echo here")

    assert (answer["stdout"], answer["cwd"]) == ("here\n", bash.box.directory)


async def test_a_command_that_removes_its_own_directory_says_where_the_next_starts(bash: Session) -> None:
    answer = await bash("mkdir q; cd q; rmdir ../q")

    assert "does not exist any more; the next call starts in " in answer["notes"][0]
    assert (await bash("echo on"))["stdout"] == "on\n"


async def test_odd_names_are_names(bash: Session) -> None:
    await bash('mkdir -p "a b\'c"; cd "a b\'c"')
    assert (await bash("true"))["cwd"] == bash.place("/mnt/data/a b'c")

    await bash("cd ..; mkdir é; cd é")
    assert (await bash("true"))["cwd"] == bash.place("/mnt/data/é")


async def test_two_sessions_in_one_box_have_a_directory_each(box: Workspace) -> None:
    one, two = BashTool(box, session="1"), BashTool(box, session="2")
    await one.call({"command": "mkdir only; cd only"})

    assert (await two.call({"command": "pwd; true"}))["cwd"] == box.directory
    assert (await one.call({"command": "true"}))["cwd"] == as_commands_know(box, "/mnt/data/only")


@pytest.mark.parametrize(
    "command, code",
    [("cd sub; exit 3", 3), ("set -e; cd sub; false", 1), ("cd sub\nif", 2), ("cd sub; exec 2>/dev/null", 0)],
)
async def test_without_perl_the_shell_itself_says_where_it_ended(box: Workspace, command: str, code: int) -> None:
    await box.run("mkdir -p sub bin; for p in env; do ln -s /usr/bin/$p bin/; done")
    asked = asking(command, None)

    result = await box.run(asked.what, env={"PATH": "/nowhere"})

    assert result.exit_code == code
    assert result.stderr.endswith(b"/data/sub\n")
    bare = await box.run(["/bin/bash", "-c", command], env={"PATH": "/nowhere"})
    assert result.stderr.partition(b"\x1e")[0] == bare.stderr


async def test_nothing_of_the_asking_is_left_in_the_shell_or_the_box(bash: Session) -> None:
    script = "env | grep -c -e LIMPET_MARK -e PERL_BADLANG -e BASH_ENV; echo $SHLVL; ls -A; ls /proc/self/fd"

    answer = await bash(script)
    bare = await bash.box.run(["/bin/bash", "-c", script])

    assert answer["stdout"] == bare.stdout.decode()


async def test_the_directory_before_is_known_as_in_one_shell(bash: Session) -> None:
    unset = await bash("cd -; echo ${OLDPWD-none}")
    await bash("mkdir -p a b; cd a")
    await bash("ls")
    there = await bash("echo $OLDPWD; cd ../b")
    back = await bash("cd -")
    again = await bash("cd - > /dev/null; pwd; echo ~-")
    child = await bash("true; bash -c 'echo $OLDPWD'")

    assert "OLDPWD not set" in unset["stderr"]
    assert (unset["stdout"], there["stdout"]) == ("none\n", f"{bash.place('/mnt/data')}\n")
    assert (back["stdout"], back["next_cwd"]) == (f"{bash.place('/mnt/data/a')}\n", bash.place("/mnt/data/a"))
    assert again["stdout"].split() == [bash.place("/mnt/data/b"), bash.place("/mnt/data/a")]
    assert child["stdout"] == f"{bash.place('/mnt/data/a')}\n"
