"""The journal of a redacted command's output is enough to go on from, wherever it breaks off, and holds no secret."""

import random

import msgspec
import pytest

from limpet.core.secret import Secret
from limpet.guard.redaction.redactor import Redaction, Redactor
from limpet.responses.command_output import CommandOutput
from limpet.responses.writer import Writer
from limpet.workspace.redacted_process import RedactedProcess
from tests.responses.test_command_output import ListLog, NoFiles
from tests.workspace.test_redacted_process import HIDES, KNOWN, Told, some_text

pytestmark = pytest.mark.anyio
TOKENS = Redaction(secrets={"db": Secret(KNOWN)})


@pytest.mark.parametrize("redaction", [HIDES, TOKENS], ids=["with_patterns", "without_patterns"])
@pytest.mark.parametrize("seed", range(12))
async def test_a_row_with_a_raw_offset_is_a_place_to_start_decoder_and_redactor_empty(
    redaction: Redaction, seed: int
) -> None:
    chance, redactor = random.Random(seed), Redactor(redaction)
    raw = some_text(chance, 120) + (b"\n" if seed % 2 else b"\xc3")
    process, log = Told(), ListLog()
    screened = RedactedProcess(process, redactor.screen)
    output = CommandOutput(Writer(log), {"item_id": "i", "output_index": 0}, 0, "x", limit=1 << 20, streams=True)
    # One piece at a time, so that each is a chunk of its own.
    chunks = screened.output()
    await process.say_in_pieces(raw, chance, 60)
    async for chunk in chunks:
        await output.take(chunk)
    await output.end(screened, NoFiles())

    whole = redactor.bytes(raw).decode(errors="replace")
    assert output.texts() == (whole, "")
    told, since = "", 0
    for entry in log.entries:
        told += msgspec.json.decode(entry.data)["delta"]["stdout"]
        if entry.raw_offset is not None:
            since = entry.raw_offset
            assert told + redactor.bytes(raw[since:]).decode(errors="replace") == whole
    assert since == len(raw)
    assert KNOWN not in told


async def test_the_end_counts_what_the_command_printed_and_not_what_was_shown() -> None:
    process, log, raw = Told(), ListLog(), f"{KNOWN}\n".encode() * 3
    screened = RedactedProcess(process, Redactor(TOKENS).screen)
    output = CommandOutput(Writer(log), {"item_id": "i", "output_index": 0}, 0, "x", limit=1 << 20, streams=True)
    await process.say(raw)
    process.end()
    async for chunk in screened.output():
        await output.take(chunk)
    await output.end(screened, NoFiles())

    assert output.texts() == ("[REDACTED:db]\n" * 3, "")
    assert log.entries[-1].raw_offset == len(raw)
