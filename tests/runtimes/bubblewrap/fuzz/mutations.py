"""Lies: what an agent that is not what it was makes of the frames of a true one. Everything follows from the seed."""

import random
import struct
from collections.abc import Callable, Iterator

from limpet.runtimes.agent import wire

_KINDS = (wire.REPLY, wire.REFUSED, wire.DATA, wire.READ_END, wire.ENDED, wire.DONE, 0, 7, 200)
_ODD: tuple[object, ...] = (
    None, True, -1, 0, 1, 256, 2**31, 2**32, 2**62 + 1, 2**63 - 1, -(2**63), 1.5, float("nan"), "", "x", "exited", "x" * 9000,
    "\ud800", b"", b"\xff", [], [1, 2, 3, 4], ["x"] * 500, [["x"]], [2**63 - 1] * 4, {}, {"process": 1},
)  # fmt: skip


class Liar:
    """Turns the frames of one connection, one after the other, into what is sent in their place."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._rate = self._random.choice((0.02, 0.1, 0.4))
        self._seen: list[tuple[int, int, bytes]] = []
        self._held = b""
        self.hangs_up = False
        self.has_lied = False
        self._lies: tuple[Callable[[int, int, bytes], bytes], ...] = (
            self._flip, self._drop, self._twice, self._later, self._kind, self._number, self._length, self._value, self._value,
            self._chunk, self._split, self._again, self._made_up, self._noise, self._cut, self._overflow,
        )  # fmt: skip

    def instead(self, kind: int, number: int, payload: bytes) -> bytes:
        """What to send for this frame."""
        before, self._held = self._held, b""
        lies = self._seen and self._random.random() < self._rate  # the first, which greets, is the truth
        self._seen = [*self._seen[-50:], (kind, number, payload)]
        if not lies:
            return wire.frame(kind, number, payload) + before
        self.has_lied = True
        return self._random.choice(self._lies)(kind, number, payload) + before

    def _flip(self, kind: int, number: int, payload: bytes) -> bytes:
        data = bytearray(wire.frame(kind, number, payload))
        for _ in range(self._random.randint(1, 4)):
            data[self._random.randrange(min(len(data), 80))] ^= 1 << self._random.randrange(8)
        return bytes(data)

    def _drop(self, kind: int, number: int, payload: bytes) -> bytes:
        return b""

    def _twice(self, kind: int, number: int, payload: bytes) -> bytes:
        times = self._random.choice((2, 3, 500))
        return wire.frame(kind, number, payload) * min(times, 2 + (1 << 20) // (len(payload) + 1))

    def _later(self, kind: int, number: int, payload: bytes) -> bytes:
        self._held = wire.frame(kind, number, payload)
        return b""

    def _kind(self, kind: int, number: int, payload: bytes) -> bytes:
        return wire.frame(self._random.choice(_KINDS), number, payload)

    def _number(self, kind: int, number: int, payload: bytes) -> bytes:
        known = [one for _, one, _ in self._seen]
        other = self._random.choice([0, 1, number - 1 if number else 0, number + 1, 0x7FFFFFFF, 0xFFFFFFFF, *known])
        return wire.frame(kind, other & 0xFFFFFFFF, payload)

    def _length(self, kind: int, number: int, payload: bytes) -> bytes:
        length = self._random.choice((0, len(payload) + 1, max(0, len(payload) - 1), 1 << 17, 1 << 20, 0xFFFFFFFF))
        return wire.HEADER.pack(kind, number, length) + payload

    def _value(self, kind: int, number: int, payload: bytes) -> bytes:
        try:
            values = wire.decode(payload)
        except wire.BadFrame:
            return self._chunk(kind, number, payload)
        names = [*values, "process", "outcome", "code", "notes", "kept", "pid", "ahead", "killed", "error", "reason"]
        for _ in range(self._random.randint(1, 3)):
            name = self._random.choice(names)
            values[name] = self._random.choice(_ODD)
            if self._random.random() < 0.2:
                del values[name]
        return wire.frame(kind, number, wire.encode(values))

    def _chunk(self, kind: int, number: int, payload: bytes) -> bytes:
        if kind != wire.DATA or len(payload) < wire.CHUNK.size:
            return self._made_up(kind, number, payload)
        stream, offset = wire.CHUNK.unpack_from(payload)
        stream = self._random.choice((0, 1, 2, 3, 255, stream))
        offset = self._random.choice((0, offset, max(0, offset - 1), offset + 1, 2**63, 2**64 - 1))
        return wire.frame(kind, number, wire.CHUNK.pack(stream, offset) + payload[wire.CHUNK.size :])

    def _split(self, kind: int, number: int, payload: bytes) -> bytes:
        """The truth, a byte at a time."""
        if kind != wire.DATA:
            return wire.frame(kind, number, payload)
        stream, offset = wire.CHUNK.unpack_from(payload)
        data = payload[wire.CHUNK.size :]
        return b"".join(
            wire.frame(kind, number, wire.CHUNK.pack(stream, offset + at) + data[at : at + 1])
            for at in range(len(data))
        )

    def _again(self, kind: int, number: int, payload: bytes) -> bytes:
        return wire.frame(kind, number, payload) + wire.frame(*self._random.choice(self._seen))

    def _made_up(self, kind: int, number: int, payload: bytes) -> bytes:
        other = self._random.choice([number, *(one for _, one, _ in self._seen), *range(8)])
        values = {
            name: self._random.choice(_ODD) for name in self._random.sample(("process", "outcome", "notes", "pid"), 2)
        }
        made = {
            wire.REPLY: wire.encode(values),
            wire.REFUSED: wire.encode({"error": self._random.choice(_ODD)}),
            wire.ENDED: wire.encode({"outcome": "exited", "code": 3, **values}),
            wire.READ_END: b"",
            wire.DATA: wire.CHUNK.pack(1, 0) + b"made up",
            wire.DONE: wire.DONE_HEAD.pack(self._random.randrange(9), self._random.randrange(5), 0, 2) + b"made up",
        }
        chosen = self._random.choice(list(made))
        return wire.frame(kind, number, payload) + wire.frame(chosen, other, made[chosen])

    def _noise(self, kind: int, number: int, payload: bytes) -> bytes:
        return self._random.randbytes(self._random.choice((1, 9, 100, 70_000))) + wire.frame(kind, number, payload)

    def _cut(self, kind: int, number: int, payload: bytes) -> bytes:
        self.hangs_up = True
        data = wire.frame(kind, number, payload)
        return data[: self._random.randrange(len(data))]

    def _overflow(self, kind: int, number: int, payload: bytes) -> bytes:
        """Output beyond all that was granted, from where this frame begins."""
        if kind != wire.DATA:
            return wire.frame(kind, number, payload)
        stream, offset = wire.CHUNK.unpack_from(payload)
        size = wire.PIECE
        pieces = range(offset, offset + 2 * wire.WINDOW, size)
        return b"".join(wire.frame(kind, number, wire.CHUNK.pack(stream, at % 2**64) + bytes(size)) for at in pieces)


def frames_of(buffer: bytearray) -> Iterator[tuple[int, int, bytes]]:
    """The whole frames at its front, which are cut off."""
    while (found := wire.take_frame(buffer, 1 << 24)) is not None:
        yield found


def ends_that_were_not_asked_for(process: int) -> bytes:
    """What ended all boxes once: an answer, and the end of a process that runs, after the host's side can send no more."""
    ended = wire.encode({"outcome": "exited", "code": 0})
    return wire.frame(wire.REPLY, 1, struct.pack("!cI", b"m", 0)) + wire.frame(wire.ENDED, process, ended)
