"""The host's side of the agent's protocol, without sockets: which frame may come when, and how much an agent can make the host keep."""

import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limpet.core.command import START, Chunk, Exited, Position, TimedOut
from limpet.runtimes.agent import wire
from limpet.runtimes.agent_client import events
from limpet.runtimes.agent_client.pending import OutputSubscription
from limpet.runtimes.agent_client.protocol import AgentProtocol

_RUNS = {"process": 7, "outcome": None, "code": 0, "kept": [1, 2, 3, 4], "notes": ["short"]}


def _reply(number: int, **values: object) -> bytes:
    return wire.frame(wire.REPLY, number, wire.encode(values))


def _data(reader: int, offset: int, data: bytes, stream: int = 1) -> bytes:
    return wire.frame(wire.DATA, reader, wire.CHUNK.pack(stream, offset) + data)


def _ended(process: int) -> bytes:
    return wire.frame(wire.ENDED, process, wire.encode({"outcome": "exited", "code": 3}))


def _started(protocol: AgentProtocol, process: int = 7) -> int:
    """A process that runs, and its reader."""
    reader = protocol.open_reader(credit=wire.AHEAD)
    number, _ = protocol.ask(wire.START, b"", reader=reader)
    (event,) = protocol.receive(_reply(number, process=process, ahead=True, pid=12))
    assert event == events.CommandStarted(request=number, process=process, pid=12, notes=())
    return reader


def test_each_request_gets_its_kind_of_answer() -> None:
    protocol = AgentProtocol()
    asked = [protocol.ask(kind, b"")[0] for kind in (wire.HELLO, wire.FIND, wire.STOP_WRITERS, wire.TOUCH, wire.WRITE)]

    heard = protocol.receive(
        _reply(asked[0], version=4, boot_id="b")
        + _reply(asked[1], **_RUNS)
        + _reply(asked[2], killed=None)
        + _reply(asked[3])
        + wire.frame(wire.REFUSED, asked[4], wire.encode({"error": "unknown", "reason": "x" * 999}))
    )

    kept = (Position(stdout=1, stderr=3), Position(stdout=2, stderr=4))
    assert heard == [
        events.Greeted(request=asked[0], version=4, boot_id="b"),
        events.Described(request=asked[1], process=7, outcome=None, kept=kept, pid=None, notes=("short",)),
        events.WritersStopped(request=asked[2], killed=None),
        events.Acknowledged(request=asked[3]),
        events.RequestRefused(request=asked[4], error="unknown", reason="x" * 200),
    ]


def test_output_and_end_come_in_their_order_however_they_are_cut() -> None:
    sent = _data(2, 0, b"out") + _data(2, 0, b"err", stream=2) + _data(2, 3, b"x" * 30_000) + _ended(7)
    sent += wire.frame(wire.READ_END, 2)
    for cut in (1, 7, 1000, len(sent)):
        protocol = AgentProtocol()
        assert _started(protocol) == 2
        heard = [event for at in range(0, len(sent), cut) for event in protocol.receive(sent[at : at + cut])]

        assert _joined(heard) == ["out" + "x" * 30_000, "err"]
        assert [event for event in heard if not isinstance(event, events.Output)] == [
            events.Ended(7, Exited(3), ()),
            events.OutputEnded(2),
        ]


def test_a_start_may_be_answered_by_its_end() -> None:
    protocol = AgentProtocol()
    reader = protocol.open_reader(credit=wire.AHEAD)
    number, _ = protocol.ask(wire.START, b"", reader=reader)

    heard = protocol.receive(wire.frame(wire.DONE, number, wire.DONE_HEAD.pack(9, 1, 0, 3) + b"outerr"))

    assert heard == [
        events.CommandFinished(request=number, process=9, outcome=TimedOut(), stdout=b"out", stderr=b"err")
    ]


def test_what_was_on_its_way_to_a_reader_that_left_is_no_lie_until_something_is_asked_behind_it() -> None:
    protocol = AgentProtocol()
    reader = _started(protocol)
    assert protocol.leave(reader) == wire.frame(wire.UNREAD, reader)
    assert (protocol.leave(reader), protocol.grant(reader, 5)) == (b"", b"")
    assert protocol.receive(_data(reader, 0, b"late")) == []
    number, _ = protocol.ask(wire.TOUCH, b"")
    assert protocol.receive(_reply(number)) == [events.Acknowledged(request=number)]

    (event,) = protocol.receive(_data(reader, 4, b"later"))

    assert isinstance(event, events.Broken)


def test_output_that_was_let_go_of_is_told() -> None:
    protocol = AgentProtocol()
    reader = _started(protocol)

    assert protocol.receive(wire.frame(wire.REFUSED, reader, wire.encode({"error": "dropped"}))) == [
        events.OutputDropped(reader)
    ]


_LIES: dict[str, Callable[[int, int], bytes]] = {
    "an answer that was given": lambda asked, reader: _reply(asked) * 2,
    "an answer to nothing": lambda asked, reader: _reply(99),
    "an answer of another kind": lambda asked, reader: wire.frame(wire.DONE, asked, wire.DONE_HEAD.pack(9, 0, 0, 0)),
    "an answer that is no dict": lambda asked, reader: wire.frame(wire.REPLY, asked, b"N"),
    "the end of a process that ended": lambda asked, reader: _ended(7) * 2,
    "the end of a process that is unknown": lambda asked, reader: _ended(8),
    "output for no reader": lambda asked, reader: _data(99, 0, b"x"),
    "output that goes back": lambda asked, reader: _data(reader, 0, b"xy") + _data(reader, 1, b"y"),
    "output beyond its credit": lambda asked, reader: _data(reader, 0, b"x" * (wire.AHEAD + 1)),
    "output after its end": lambda asked, reader: wire.frame(wire.READ_END, reader) + _data(reader, 0, b"x"),
    "two ends of output": lambda asked, reader: wire.frame(wire.READ_END, reader) * 2,
    "a huge answer": lambda asked, reader: wire.HEADER.pack(wire.REPLY, asked, 1 << 17),
    "an end with a body": lambda asked, reader: wire.frame(wire.READ_END, reader, b"x"),
    "notes that are no text": lambda asked, reader: wire.frame(
        wire.ENDED, 7, wire.encode({"outcome": "exited", "code": 0, "notes": [1]})
    ),
    "a code that is no number": lambda asked, reader: wire.frame(
        wire.ENDED, 7, wire.encode({"outcome": "exited", "code": True})
    ),
}


@pytest.mark.parametrize("lie", _LIES)
def test_what_cannot_be_is_the_last_that_is_looked_at(lie: str) -> None:
    protocol = AgentProtocol()
    reader = _started(protocol)
    asked, _ = protocol.ask(wire.TOUCH, b"")

    heard = protocol.receive(_LIES[lie](asked, reader) + _ended(7))

    assert [isinstance(event, events.Broken) for event in heard] == [False] * (len(heard) - 1) + [True]
    assert protocol.receive(_ended(7)) == []


_WRONG: dict[str, tuple[int, dict[str, object]]] = {
    "a boot id that is a number": (wire.HELLO, {"version": 4, "boot_id": 1}),
    "a version that is a text": (wire.HELLO, {"version": "4", "boot_id": "b"}),
    "a process of 33 bits": (wire.FIND, {**_RUNS, "process": 1 << 32}),
    "a process below nothing": (wire.FIND, {**_RUNS, "process": -1}),
    "a process that is true": (wire.FIND, {**_RUNS, "process": True}),
    "a pid that is a text": (wire.FIND, {**_RUNS, "pid": "1"}),
    "output beyond 64 bits": (wire.FIND, {**_RUNS, "kept": [0, 2**63 - 1, 0, 0]}),
    "output that ends before it begins": (wire.FIND, {**_RUNS, "kept": [2, 1, 0, 0]}),
    "less than none killed": (wire.STOP_WRITERS, {"killed": -1}),
    "a new process that runs already": (wire.START, {"process": 7, "ahead": True}),
    "a start that names no process": (wire.START, {"ahead": True}),
}


@pytest.mark.parametrize("wrong", _WRONG)
def test_values_of_a_wrong_type_or_size_are_lies(wrong: str) -> None:
    protocol = AgentProtocol()
    _started(protocol)
    kind, values = _WRONG[wrong]
    number, _ = protocol.ask(kind, b"", reader=protocol.open_reader() if kind == wire.START else None)

    (event,) = protocol.receive(_reply(number, **values))

    assert isinstance(event, events.Broken)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.sampled_from((32, 33, 34, 35, 36, 37)), st.integers(0, 12), st.binary(max_size=60))))
def test_no_frames_make_it_fail_or_say_what_was_not_asked_for(frames: list[tuple[int, int, bytes]]) -> None:
    protocol = AgentProtocol()
    _started(protocol)
    asked = {protocol.ask(kind, b"")[0] for kind in (wire.HELLO, wire.FIND, wire.TOUCH, wire.WRITE)}

    heard = [event for one in frames for event in protocol.receive(wire.frame(*one))]

    answers = [event.request for event in heard if hasattr(event, "request")]
    assert set(answers) <= asked
    assert len(answers) == len(set(answers))
    assert sum(len(event.chunk.data) for event in heard if isinstance(event, events.Output)) <= wire.AHEAD
    assert [event for event in heard if isinstance(event, events.Broken)] == [
        event for event in heard[-1:] if isinstance(event, events.Broken)
    ]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=400), max_size=6))
def test_no_bytes_make_it_fail(pieces: list[bytes]) -> None:
    protocol = AgentProtocol()
    _started(protocol)

    heard = [event for piece in pieces for event in protocol.receive(piece)]

    assert all(isinstance(event, events.Broken) for event in heard[-1:]) or heard == []


def test_output_in_single_bytes_is_kept_in_little_more_than_itself() -> None:
    protocol, reading = AgentProtocol(), OutputSubscription(1)
    reader = protocol.open_reader(START)
    number, _ = protocol.ask(wire.READ, b"", reader=reader)
    protocol.receive(_reply(number))
    size = 40_000

    tracemalloc.start()
    for at in range(size):
        for event in protocol.receive(_data(reader, at // 2, b"x", stream=1 + at % 2)):
            assert isinstance(event, events.Output)
            reading.put(event.chunk)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    taken: list[Chunk] = []
    while (chunk := reading.take()) is not None:
        taken.append(chunk)
    assert held < 4 * size
    assert sum(len(chunk.data) for chunk in taken) == size
    ends = {"stdout": 0, "stderr": 0}
    for chunk in taken:
        assert chunk.offset == ends[chunk.stream]
        ends[chunk.stream] += len(chunk.data)


def _joined(heard: list[events.Event]) -> list[str]:
    return [
        b"".join(
            event.chunk.data for event in heard if isinstance(event, events.Output) and event.chunk.stream == stream
        ).decode()
        for stream in ("stdout", "stderr")
    ]
