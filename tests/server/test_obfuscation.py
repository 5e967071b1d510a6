"""Deltas that are padded: whoever sees only lengths learns little, whoever reads finds the same event."""

import json

from limpet.responses.replay import DecodedEvent, RawEvent
from limpet.server.sse import PADDED_TO, frame

DELTA = "response.output_text.delta"


def payload(frame: bytes) -> bytes:
    return frame.split(b"\ndata: ", 1)[1].removesuffix(b"\n\n")


def test_obfuscated_deltas_have_few_lengths_and_say_the_same() -> None:
    texts = ["a" * length for length in range(200)]
    told = [RawEvent(7, DELTA, json.dumps({"delta": text}, separators=(",", ":")).encode()) for text in texts]
    shown = [payload(frame(event, obfuscated=True)) for event in told]

    assert {len(each) % PADDED_TO for each in shown} == {0}
    for text, each in zip(texts, shown, strict=True):
        event = json.loads(each)
        assert isinstance(event.pop("obfuscation"), str)
        assert event == {"type": DELTA, "sequence_number": 7, "delta": text}


def test_other_events_and_other_streams_are_as_they_were() -> None:
    done = DecodedEvent(seq=8, type="response.output_text.done", data={"text": "a"})
    assert frame(done, obfuscated=True) == frame(done)
    assert b"obfuscation" not in frame(RawEvent(7, DELTA, b'{"delta":"a"}'))
