"""What a command is given, and how it ends by itself."""

import os
import secrets

from limpet.core.command import Argv, Exited, Terminal
from limpet.core.errors import BadCommand, BadEnvironmentName, WorkingDirectoryMissing
from limpet.core.ports import Offer
from limpet.testing.lab import Lab, expect, finished, of, raises, read, same
from limpet.testing.suite import Cases

COMMANDS = Cases()
case = COMMANDS.case


@case()
async def the_exit_code_is_the_commands_own(lab: Lab) -> None:
    for code in (0, 1, 7, 255):
        same((await lab.run(f"exit {code}")).outcome, Exited(code), f"the outcome of exit {code}")


@case()
async def a_program_that_does_not_exist_is_a_result_with_127(lab: Lab) -> None:
    ran = await lab.run("no-such-program-anywhere")
    same(ran.outcome, Exited(127), "the outcome")
    expect(b"no-such-program-anywhere" in ran.stderr, "stderr should name the program")


@case()
async def a_file_that_is_not_executable_is_a_result_with_126(lab: Lab) -> None:
    await lab.box.files.write("plain", b"echo hello\n", mode=0o644)
    same((await lab.run("./plain")).outcome, Exited(126), "the outcome")


@case()
async def death_by_a_signal_is_128_and_its_number(lab: Lab) -> None:
    for number in (9, 15):
        same((await lab.run(f"kill -{number} $$")).outcome, Exited(128 + number), f"the outcome of signal {number}")


@case()
async def a_syntax_error_is_a_result_with_2(lab: Lab) -> None:
    ran = await lab.run("if true; then")
    same((ran.outcome, ran.stdout), (Exited(2), b""), "the outcome")
    expect(ran.stderr != b"", "stderr should say what is wrong")


@case(Offer.ARGV)
async def an_argv_arrives_as_it_is_written(lab: Lab) -> None:
    words = ("a b", "", "$(id)", "`id`", "'", '"', "*", "-x", "é", "line\nbreak", "A=1")
    ran = await lab.run(Argv(("printf", "<%s>", *words)))
    same(ran.stdout.decode(), "".join(f"<{word}>" for word in words), "the arguments")


@case(Offer.ARGV)
async def an_argv_whose_program_does_not_exist_is_a_result_with_127(lab: Lab) -> None:
    same((await lab.run(Argv(("no-such-program-anywhere", "x")))).outcome, Exited(127), "the outcome")


@case()
async def the_working_directory_is_mnt_data(lab: Lab) -> None:
    await lab.box.files.write("/mnt/data/here", b"yes")
    ran = await lab.run('cat here; [ "$(pwd -P)" = "$(cd "$LIMPET_DATA" && pwd -P)" ] && printf " LIMPET_DATA"')
    same(ran.stdout, b"yes LIMPET_DATA", "what lies in the working directory")


@case()
async def a_command_runs_where_it_is_told(lab: Lab) -> None:
    await lab.box.files.write("/mnt/data/below/deep/here", b"yes")
    for cwd in ("/mnt/data/below/deep", "below/deep"):
        same((await lab.run("cat here", cwd=cwd)).stdout, b"yes", f"what lies in {cwd}")


@case()
async def a_working_directory_that_is_missing_is_an_error_that_names_it(lab: Lab) -> None:
    await lab.box.files.write("file", b"")
    for cwd in ("/mnt/data/nowhere", "/mnt/data/file"):
        async with raises(WorkingDirectoryMissing, naming=cwd):
            await lab.start("true", cwd=cwd)


@case()
async def variables_are_added_not_replaced(lab: Lab) -> None:
    ran = await lab.run('printf "%s:%s:" "$GIVEN" "${HOME:+home}${PATH:+path}"', env={"GIVEN": "value"})
    same(ran.stdout, b"value:homepath:", "the variables")


@case()
async def a_variables_value_arrives_as_it_is_written(lab: Lab) -> None:
    value = "a b\n$(id) 'quoted' \"twice\" é \\"
    same((await lab.run('printf %s "$GIVEN"', env={"GIVEN": value})).stdout.decode(), value, "the value")


@case()
async def a_hostile_name_of_a_variable_is_refused(lab: Lab) -> None:
    for name in ("", "1A", "A B", "A=B", "BASH_FUNC_ls%%", "A\n", "é"):
        async with raises(BadEnvironmentName, naming=repr(name)):
            await lab.start("true", env={name: "x"})


@case()
async def a_nul_character_is_refused(lab: Lab) -> None:
    async with raises(BadCommand):
        await lab.start("echo a\0b")
    async with raises(BadCommand):
        await lab.start("true", env={"A": "\0"})


@case()
async def a_timeout_that_is_no_time_is_refused(lab: Lab) -> None:
    async with raises(BadCommand):
        await lab.start("true", timeout=float("nan"))


@case()
async def text_that_is_no_text_is_refused_and_the_sandbox_goes_on(lab: Lab) -> None:
    async with raises(BadCommand):
        await lab.run("echo \ud800")
    same((await lab.run("echo fine")).stdout, b"fine\n", "what the next command prints")


@case()
async def variables_of_the_host_are_not_visible(lab: Lab) -> None:
    name, value = "LIMPET_PLANTED_BY_THE_SUITE", secrets.token_hex(16)
    os.environ[name] = value
    try:
        box = await lab.another()
        ran = await lab.run("env; cat /proc/1/environ /proc/self/environ", box=box)
    finally:
        del os.environ[name]
    expect(value.encode() not in ran.stdout, "a variable of the host's process is in the command's environment")


@case()
async def neither_directory_nor_variables_reach_the_next_command(lab: Lab) -> None:
    await lab.run("cd /; export LEFT=over; alias ls=false; umask 077")
    ran = await lab.run('[ "$PWD" = / ] || printf "%s" "fresh:$LEFT"')
    same(ran.stdout, b"fresh:", "what the second command sees")


@case()
async def standard_input_is_at_its_end_unless_given(lab: Lab) -> None:
    same((await lab.run("cat; echo end")).stdout, b"end\n", "the output")


@case(Offer.STDIN)
async def given_input_arrives_byte_for_byte_and_ends(lab: Lab) -> None:
    data = bytes(range(256)) * 4_000
    same((await lab.run("cat", stdin=data)).stdout, data, "what cat gave back")


@case(Offer.STDIN, Offer.STREAMING)
async def input_can_be_written_while_it_runs(lab: Lab) -> None:
    process = await lab.start("echo ready; read -r line; echo got $line; cat", keeps_stdin_open=True)
    data = b""
    async for chunk in process.output():
        data += chunk.data
        if data == b"ready\n":
            await process.write(b"one\n")
        elif data == b"ready\ngot one\n":
            await process.write(b"two\n")
            await process.close_stdin()
            await process.close_stdin()
    same(data, b"ready\ngot one\ntwo\n", "the conversation")


@case(Offer.STDIN)
async def input_that_nobody_reads_is_quiet(lab: Lab) -> None:
    same((await lab.run("exit 3", stdin=b"x" * 1_000_000)).outcome, Exited(3), "the outcome")
    process = await lab.start("true", keeps_stdin_open=True)
    await process.wait()
    await process.write(b"late")
    await process.close_stdin()


@case(Offer.PTY)
async def a_terminal_has_its_size_and_can_be_resized(lab: Lab) -> None:
    script = "[ -t 0 ] && [ -t 1 ] && stty size; while [ ! -e go ]; do sleep 0.02; done; stty size"
    process = await lab.start(script, terminal=Terminal(columns=100, rows=30), keeps_stdin_open=True)
    data = b""
    async for chunk in process.output():
        data += chunk.data
        if data == b"30 100\r\n":
            await process.resize(120, 40)
            await lab.box.files.write("go", b"")
    same(data, b"30 100\r\n40 120\r\n", "both sizes")


@case(Offer.PTY)
async def a_terminal_takes_keys_and_shows_an_interrupt(lab: Lab) -> None:
    # No child may run meanwhile: bash leaves an interrupt to a child that ends by itself just then.
    script = "trap 'echo interrupted; exit 5' INT; echo ready; while :; do read -r line; done"
    process = await lab.start(script, terminal=Terminal(), keeps_stdin_open=True)
    async for chunk in process.output():
        if b"ready" in chunk.data:
            await process.write(b"\x03")
    same(await process.wait(), Exited(5), "the outcome")


@case(Offer.SIGNALS)
async def a_signal_reaches_the_command(lab: Lab) -> None:
    process = await lab.start("trap 'echo caught; exit 6' USR1; echo ready > ready; while :; do sleep 0.02; done")
    await lab.until_file("ready")
    await process.signal(10)
    ran = await finished(process)
    same((ran.outcome, ran.stdout.splitlines()[-1:]), (Exited(6), [b"caught"]), "the outcome")
    await process.signal(10)


@case(Offer.CONCURRENT)
async def two_commands_at_once_do_not_mix(lab: Lab) -> None:
    one = await lab.start("while [ ! -e both ]; do sleep 0.02; done; for i in 1 2 3; do echo one; done")
    two = await lab.start("echo > both; for i in 1 2 3; do echo two; done")
    same((await finished(two)).stdout, b"two\n" * 3, "the output of the second")
    same((await finished(one)).stdout, b"one\n" * 3, "the output of the first")


@case()
async def starting_an_id_twice_gives_the_same_process(lab: Lab) -> None:
    first = await lab.start("echo once >> times; echo first", exec_id="same")
    again = await lab.start("echo once >> times; echo second", exec_id="same")
    same((await finished(again)).stdout, b"first\n", "the output under that id")
    await first.wait()
    third = await lab.start("echo once >> times; echo third", exec_id="same")
    same((await finished(third)).stdout, b"first\n", "the output under that id, after its end")
    same(await lab.box.files.read("times"), b"once\n", "how often it ran")


@case()
async def a_process_is_found_by_its_id_until_it_is_forgotten(lab: Lab) -> None:
    process = await lab.start("echo here", exec_id="found")
    await process.wait()
    found = await lab.box.find("found")
    expect(found is not None, "an ended process should be found")
    assert found is not None
    same((found.exec_id, of(await read(found), "stdout")), ("found", b"here\n"), "what was found")
    same(await lab.box.find("unknown"), None, "what an unknown id finds")
    await found.forget()
    await found.forget()
    same(await lab.box.find("found"), None, "what a forgotten id finds")
