"""A box may send anything. Whatever cannot be ends the connection, in words, and nothing waits for ever."""

import socket
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from limpet.core.command import START, Lost, Outcome
from limpet.core.errors import SandboxGone
from limpet.runtimes.agent import wire
from limpet.runtimes.agent_client.client import Client, connect

pytestmark = pytest.mark.anyio


def _data(number: int, offset: int, size: int, stream: int = 1) -> bytes:
    return wire.frame(wire.DATA, number, wire.CHUNK.pack(stream, offset) + b"x" * size)


_LIES: dict[str, Callable[[int], bytes]] = {
    "a frame of 4 GiB": lambda _: wire.HEADER.pack(wire.REPLY, 1, 0xFFFFFFFF),
    "an unknown frame": lambda _: wire.frame(200, 1),
    "output at an offset that leaves a gap": lambda number: _data(number, 5, 1),
    "output of a third stream": lambda number: _data(number, 0, 1, stream=3),
    "output without bytes": lambda number: _data(number, 0, 0),
    "more output than was granted": lambda number: b"".join(_data(number, at * 65536, 65536) for at in range(17)),
    "output with half a header": lambda number: wire.frame(wire.DATA, number, b"\1"),
    "an end that is no outcome": lambda _: wire.frame(wire.ENDED, 1, wire.encode({"outcome": "won", "code": 0})),
    "an end with a code out of range": lambda _: wire.frame(
        wire.ENDED, 1, wire.encode({"outcome": "exited", "code": 999})
    ),
    "a value that breaks off": lambda _: wire.frame(wire.ENDED, 1, b"m\0\0\0\1s\0\0\0\4ab"),
    "silence for ever": lambda _: b"",
}


@pytest.mark.parametrize("lie", _LIES)
async def test_a_lie_is_the_end_of_the_connection(lie: str) -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    client = Client(ours)
    outcomes: list[Outcome] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.serve)
        tasks.start_soon(client.keep_sending)
        client.follow(1, outcomes.append)
        with anyio.fail_after(5):
            async with anyio.create_task_group() as asking:
                asking.start_soon(_answer, theirs, _LIES[lie])
                with pytest.raises(SandboxGone):
                    reading = await client.open_reading(1, START)
                    while await client.next_chunk(reading) is not None:
                        pass

    assert client.gone is not None
    assert [type(outcome) for outcome in outcomes] == [Lost]
    with pytest.raises(SandboxGone):
        await client.ask(wire.TOUCH, {})


async def _answer(theirs: socket.socket, lie: Callable[[int], bytes]) -> None:
    """Accept the reading, then lie, and hang up."""
    theirs.setblocking(False)
    await anyio.wait_readable(theirs)
    buffer = bytearray(theirs.recv(65536))
    found = wire.take_frame(buffer, 65536)
    assert found is not None
    kind, number, payload = found
    assert kind == wire.READ
    reader = wire.decode(payload)["reader"]
    assert isinstance(reader, int)
    told = memoryview(wire.frame(wire.REPLY, number, wire.encode({})) + lie(reader))
    while told:
        await anyio.wait_writable(theirs)
        try:
            told = told[theirs.send(told) :]
        except (BrokenPipeError, ConnectionResetError):
            break
    theirs.close()


async def test_where_nobody_listens_the_sandbox_is_gone_at_once(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "dead"))

    for path in (tmp_path / "dead", tmp_path / "none", tmp_path / "no/where"):
        with pytest.raises(SandboxGone):
            connect(path)


_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), _values, max_size=4))
def test_values_come_back_as_they_were(values: dict[str, object]) -> None:
    assume(_depth(values) < 8)  # deeper than anything of ours

    assert wire.decode(wire.encode(values)) == values


def _depth(value: object) -> int:
    inner = list(value.values()) if isinstance(value, dict) else value
    return 1 + max(map(_depth, inner), default=0) if isinstance(inner, list) else 0


@given(st.binary(max_size=80))
def test_no_bytes_make_the_reader_of_values_fail_otherwise_than_by_name(data: bytes) -> None:
    try:
        wire.decode(data)
    except wire.BadFrame:
        return


@given(st.lists(st.tuples(st.integers(0, 255), st.integers(0, 2**32 - 1), st.binary(max_size=50))), st.integers(1, 40))
def test_frames_are_found_again_however_they_are_cut(frames: list[tuple[int, int, bytes]], cut: int) -> None:
    whole = b"".join(wire.frame(*one) for one in frames)
    buffer, found = bytearray(), []

    for at in range(0, len(whole), cut):
        buffer += whole[at : at + cut]
        while (one := wire.take_frame(buffer, 100)) is not None:
            found.append(one)

    assert found == frames
