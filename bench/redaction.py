"""Secrets hidden in a long output, beside what looking for the plain values one by one costs; and what it costs in memory."""

import random
import string
import sysconfig
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench import bare
from bench.table import Line, Row, Scale, by_turns, compared
from limpet.core.secret import Secret
from limpet.guard.redaction.redactor import Redaction, Redactor

MEGABYTE = 1_000_000
KNOWN = 400
PIECE = 64 * 1024
LETTERS = string.ascii_letters + string.digits + "!/+#$-_"


async def rows(scale: Scale) -> list[Line]:
    size = 100 * MEGABYTE // (10 if scale.is_quick else 1)
    choices = random.Random(1)
    values = {f"KEY_{n}": f"pw-{n}-" + "".join(choices.choices(LETTERS, k=28)) for n in range(KNOWN)}
    pieces = list(_pieces(size, list(values.values()), choices))
    redactor = Redactor(Redaction(secrets={name: Secret(value) for name, value in values.items()}))
    count = scale.of(5)
    ours, floor = await by_turns(
        partial(_screened, redactor, pieces),
        partial(_looked_for, [value.encode() for value in values.values()], pieces),
        n=count,
    )
    small = [piece[at : at + 4096] for piece in pieces[: len(pieces) // 10] for at in range(0, len(piece), 4096)]
    small_ours, small_floor = await by_turns(
        partial(_screened, redactor, small),
        partial(_looked_for, [value.encode() for value in values.values()], small),
        n=count,
    )
    beside = f"bytes.find for each of the {KNOWN} values"
    name = f"redaction of {size // MEGABYTE} MB of logs and source, {KNOWN} known secrets"
    speed = _per_second(compared(name, ours, beside, floor), size / MEGABYTE)
    in_small = _per_second(
        compared("redaction in chunks of 4 KiB", small_ours, beside, small_floor), size / 10 / MEGABYTE
    )
    growth = Row(
        name="redaction, growth of memory",
        ours=await _growth(redactor, pieces),
        beside="none",
        floor=0.0,
        unit="MiB",
        n=1,
    )
    return [speed, in_small, growth]


def _per_second(row: Row, megabytes: float) -> Row:
    """The row in MB/s, where it was in milliseconds: more is better."""
    ours, floor = (megabytes * 1000 / taken for taken in (row.ours, row.floor))
    return Row(name=row.name, ours=ours, beside=row.beside, floor=floor, unit="MB/s", n=row.n)


def _pieces(size: int, values: list[str], choices: random.Random) -> Iterator[bytes]:
    """Half the standard library's source, half a server's log; a secret in every megabyte."""
    paths = sorted(Path(sysconfig.get_paths()["stdlib"]).rglob("*.py"))
    source = b"".join(path.read_bytes() for path in paths[:400])
    made = 0
    while made < size:
        log = b"".join(_line(choices) for _ in range(PIECE // 180))
        at = choices.randrange(max(1, len(source) - PIECE))
        for piece in (log, source[at : at + PIECE]):
            if made % MEGABYTE < PIECE:
                piece = choices.choice(values).encode() + piece
            made += len(piece)
            yield piece


def _line(choices: random.Random) -> bytes:
    number = choices.getrandbits(32)
    return (
        f"2026-01-02T03:04:{number % 60:02}.123Z INFO [worker-{number % 8}] id={number:08x} method=GET "
        f'url="https://example.com/api/v1/items/{number}?page=2" status=200 duration={number % 300}ms agent="curl/8.1"\n'
    ).encode()


async def _screened(redactor: Redactor, pieces: list[bytes]) -> int:
    screen = redactor.screen()
    for piece in pieces:
        screen.feed(piece)
    screen.end()
    if screen.count == 0:
        raise RuntimeError("No secret was hidden.")
    return screen.count


async def _looked_for(values: list[bytes], pieces: list[bytes]) -> int:
    return sum(piece.find(value) >= 0 for piece in pieces for value in values)


async def _growth(redactor: Redactor, pieces: list[bytes]) -> float:
    """The most that memory grew, looked at every 10 ms."""
    begun = most = bare.resident_mib()
    screen, due = redactor.screen(), time.perf_counter()
    for piece in pieces:
        screen.feed(piece)
        if time.perf_counter() >= due:
            most, due = max(most, bare.resident_mib()), time.perf_counter() + 0.01
    return most - begun
