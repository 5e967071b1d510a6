"""A journal that keeps each text once gives back every event as it was."""

import json
from pathlib import Path

import pytest

from limpet.core import events as ev
from limpet.responses.snapshot import Snapshot

RECORDINGS = sorted((Path(__file__).parents[1] / "wire" / "data").glob("*.chunks.txt"))


def recorded(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.startswith("{")]


def through_the_journal(events: list[dict]) -> tuple[list[dict], int]:
    """What a reader gets of these events, and how many bytes were stored."""
    writer, reader, size, read = Snapshot(), Snapshot(), 0, []
    for event in events:
        data = {key: value for key, value in event.items() if key not in ("type", "sequence_number")}
        stored = writer.shrink(event["type"], data)
        writer.apply(event["type"], data)
        raw = json.dumps(stored)
        size += len(raw)
        full = reader.expand(event["type"], json.loads(raw))
        reader.apply(event["type"], full)
        read.append({"type": event["type"], "sequence_number": event["sequence_number"], **full})
    return read, size


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.split(".")[0])
def test_a_real_stream_comes_back_as_it_was(path: Path) -> None:
    events = recorded(path)

    read, _ = through_the_journal(events)

    assert read == events


def test_a_text_is_stored_once() -> None:
    events = recorded(next(path for path in RECORDINGS if "skills" in path.name))
    text = next(event["text"] for event in events if event["type"] == ev.TEXT_DONE)
    writer = Snapshot()
    stored = []
    for event in events:
        data = {key: value for key, value in event.items() if key not in ("type", "sequence_number")}
        stored.append(json.dumps(writer.shrink(event["type"], data)))
        writer.apply(event["type"], data)

    assert not any(json.dumps(text)[1:-1] in row for row in stored)
    assert sum(json.dumps(text)[1:40] in row for row in stored) == 0


def test_what_the_deltas_did_not_tell_is_kept_in_the_done_event() -> None:
    item = {"id": "sho_1", "type": "shell_call_output", "call_id": "c", "status": "in_progress", "output": []}
    entry = {"stdout": "quiet", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
    events = [
        {"type": ev.ITEM_ADDED, "sequence_number": 0, "output_index": 0, "item": item},
        {"type": ev.OUTPUT_DONE, "sequence_number": 1, "output_index": 0, "command_index": 0, "output": [entry]},
        {
            "type": ev.ITEM_DONE,
            "sequence_number": 2,
            "output_index": 0,
            "item": {**item, "status": "completed", "output": [entry]},
        },
    ]

    read, _ = through_the_journal(events)

    assert read == events


def test_unfinished_items_show_what_was_told() -> None:
    snapshot = Snapshot()
    item = {"id": "msg_1", "type": "message", "status": "in_progress", "role": "assistant", "content": []}
    part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    snapshot.apply(ev.ITEM_ADDED, {"output_index": 0, "item": item})
    snapshot.apply(ev.PART_ADDED, {"output_index": 0, "content_index": 0, "part": part})
    snapshot.apply(ev.TEXT_DELTA, {"output_index": 0, "content_index": 0, "delta": "half a sen"})

    assert snapshot.unfinished() == [0]
    assert snapshot.item(0)["content"][0]["text"] == "half a sen"
