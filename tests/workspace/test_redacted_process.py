"""Screened output: the same bytes for every reader and from every offset, prompts that show, and no secret in between."""

import random
from pathlib import Path

import anyio
import pytest

from limpet.core.command import START, Exited, Position
from limpet.core.ports import Process
from limpet.core.secret import Secret
from limpet.guard.redaction.redactor import Redaction, Redactor
from limpet.runtimes.spooled_process import SpooledProcess
from limpet.workspace.opening import WorkspaceOptions, open_in
from limpet.workspace.redacted_process import PAUSE, RedactedProcess
from tests.support.runtimes import opened

pytestmark = pytest.mark.anyio

MOST = 5.0
KNOWN = "correct-horse-battery"
HIDES = Redaction(secrets={"db": Secret(KNOWN)}, patterns=["ticket-[0-9]+"])


class Told(SpooledProcess):
    """A process that prints what the test says."""

    def __init__(self) -> None:
        super().__init__("exec_1", lambda _: None)

    async def say(self, data: bytes) -> None:
        await self._spool.append("stdout", data)

    async def say_in_pieces(self, data: bytes, chance: random.Random, most: int) -> None:
        """All of it, at most so many bytes at once, and the end."""
        at = 0
        while at < len(data):
            size = chance.randint(1, most)
            await self.say(data[at : at + size])
            at += size
        self.end()

    def end(self) -> None:
        self._spool.end()

    async def write(self, data: bytes) -> None: ...

    async def close_stdin(self) -> None: ...

    async def resize(self, columns: int, rows: int) -> None: ...

    async def signal(self, number: int) -> None: ...

    async def abort(self) -> None: ...


def some_text(chance: random.Random, count: int) -> bytes:
    words = [KNOWN, "ticket-123", "ghp_" + "a1B2" * 9, "plain", KNOWN[:9], "Password: ", "\n", " ", "é", "eyJ"]
    return " ".join(chance.choice(words) for _ in range(count)).encode()


async def read(process: Process, since: Position = START) -> bytes:
    out, place = b"", since
    async for chunk in process.output(since):
        assert chunk.offset == place.of(chunk.stream)
        place = place.after(chunk)
        out += chunk.data
    return out


@pytest.mark.parametrize("seed", range(20))
async def test_it_reads_the_same_from_any_offset_and_in_any_pieces(seed: int) -> None:
    chance = random.Random(seed)
    text = some_text(chance, 400)
    redactor = Redactor(HIDES)
    process = Told()
    await process.say_in_pieces(text, chance, 300)
    screened = RedactedProcess(process, redactor.screen)

    whole = await read(screened)

    assert whole == redactor.bytes(text)
    assert await screened.extent() == (START, Position(stdout=len(whole)))
    for since in [0, len(whole), *(chance.randint(0, len(whole)) for _ in range(5))]:
        assert await read(screened, Position(stdout=since)) == whole[since:]


async def test_a_reader_of_much_output_begins_near_its_offset_and_sees_the_same() -> None:
    plain = b"a line of a log that says nothing in particular\n" * 100
    text = b"".join(some_text(random.Random(number), 5) + b"\n" + plain for number in range(500))
    process = Told()
    screened = RedactedProcess(process, Redactor(HIDES).screen)
    outs: list[bytes] = []
    with anyio.fail_after(4 * MOST):
        async with anyio.create_task_group() as tasks:

            async def follow() -> None:
                outs.append(await read(screened))

            tasks.start_soon(follow)
            await process.say(text)
            process.end()

    [whole] = outs
    assert len(text) > 2 << 20
    for since in (len(whole) - 10, len(whole) // 2):
        assert await read(screened, Position(stdout=since)) == whole[since:]


async def test_a_prompt_shows_while_its_process_waits(home: Path) -> None:
    async with opened("local", home) as runtime, open_in(runtime, rules=WorkspaceOptions(redaction=HIDES)) as box:
        process = await box.spawn("printf 'Password: '; read answer; echo got $answer")
        seen = b""
        with anyio.fail_after(MOST):
            async for chunk in process.output():
                seen += chunk.data
                if seen == b"Password: ":
                    await process.write(b"hunter\n")

        assert seen == b"Password: got hunter\n"


async def test_readers_agree_on_what_a_pause_let_go() -> None:
    process = Told()
    screened = RedactedProcess(process, Redactor(HIDES).screen)
    first = screened.output()
    parts = [b"a ticket-1", b"23 b ticket-45", b"6\n"]
    seen = b""

    with anyio.fail_after(MOST):
        for part in parts:
            await process.say(part)
            with anyio.move_on_after(PAUSE * 1.5):
                while True:
                    seen += (await anext(first)).data
            first = screened.output(Position(stdout=len(seen)))
        process.end()
        async for chunk in first:
            seen += chunk.data

    assert seen == await read(screened)
    for since in range(len(seen)):
        assert await read(screened, Position(stdout=since)) == seen[since:]


async def test_half_a_known_secret_stays_hidden_in_a_pause() -> None:
    process = Told()
    screened = RedactedProcess(process, Redactor(HIDES).screen)
    await process.say(KNOWN[:12].encode())
    seen = b""

    async def follow() -> None:
        nonlocal seen
        async for chunk in screened.output():
            seen += chunk.data

    with anyio.fail_after(MOST):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow)
            await anyio.sleep(3 * PAUSE)
            assert seen == b""
            await process.say(KNOWN[12:].encode() + b"\n")
            process.end()

    assert seen == b"[REDACTED:db]\n"


async def test_a_command_that_is_found_again_is_screened(home: Path) -> None:
    async with opened("local", home) as runtime, open_in(runtime, rules=WorkspaceOptions(redaction=HIDES)) as box:
        process = await box.spawn(f"echo {KNOWN}")
        assert await process.wait() == Exited(0)

        found = await box.find(process.exec_id)

        assert found is not None
        assert await read(found) == b"[REDACTED:db]\n"


async def test_who_finds_a_command_again_sees_as_little_of_its_own_variables(home: Path) -> None:
    async with opened("local", home) as runtime, open_in(runtime, rules=WorkspaceOptions(redaction=Redaction())) as box:
        process = await box.spawn("echo $API_TOKEN", env={"API_TOKEN": KNOWN})
        assert await process.wait() == Exited(0)

        found = await box.guarded(redaction=Redaction()).find(process.exec_id)

        assert found is not None
        assert await read(found) == b"[REDACTED:API_TOKEN]\n"


async def test_one_name_may_stand_for_two_values_and_both_are_hidden(home: Path) -> None:
    known = Redaction(secrets={"TOKEN": Secret("the value that is known")}, families=False)
    async with opened("local", home) as runtime, open_in(runtime, rules=WorkspaceOptions(redaction=known)) as box:
        shown = await box.run('echo "$TOKEN, the value that is"" known"', env={"TOKEN": "an0ther-value-of-the-call"})
    assert shown.stdout == b"[REDACTED:TOKEN.2], [REDACTED:TOKEN]\n"
