"""A gateway that is killed around an `apply_patch` call: the response goes on, and no diff is applied twice or lost."""

import json
import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from limpet.core.ids import new_id
from tests.faults.test_resume import Json, ask, check_goes_on, check_unbroken, essence, go_on, undisturbed
from tests.support.gateway import Gateway, lasting
from tests.support.kill_points import KillPoint
from tests.support.providers.server import Request
from tests.support.providers.turns import Raw, ShellCall, Turn, reply
from tests.wire.provider import config_of, scripted_provider

pytestmark = pytest.mark.timeout(300)
BODY: Json = {
    "model": "gpt-scripted",
    "input": "Go.",
    "tools": [{"type": "shell"}, {"type": "apply_patch"}],
    "stream": True,
}
BEFORE, AFTER = b"one\n", b"one\ntwo\n"
DIGESTS = {"before": sha256(BEFORE).hexdigest(), "after": sha256(AFTER).hexdigest()}


def patching(request: Request) -> Turn:
    """A command, then a patch that could be applied any number of times, then the answer."""
    answered = sum(item["type"].endswith("_call_output") for item in request.body["input"])
    if answered == 0:
        return reply(ShellCall(("echo one >> ran",), call_id=new_id("call")))
    if answered == 2:
        return reply("Done.")
    operation = {"type": "update_file", "path": "ran", "diff": "@@\n one\n+two"}
    item = {"id": new_id("apc"), "type": "apply_patch_call", "call_id": new_id("call"), "operation": operation}
    added = {"type": "response.output_item.added", "output_index": 0, "item": {**item, "status": "in_progress"}}
    done = {"type": "response.output_item.done", "output_index": 0, "item": {**item, "status": "completed"}}
    return reply(Raw(added), Raw(done))


def place_of(events: list[Json]) -> int:
    """Where the output of the patch is announced."""
    return [event.get("item", {}).get("type") for event in events].index("apply_patch_call_output")


def test_a_patch_is_applied_once(tmp_path: Path) -> None:
    """Killed before its output is told: with the result on disk, and with the intent alone, where the file says whether it was written."""
    with scripted_provider() as provider, lasting(tmp_path, config=config_of(provider)) as gateway:
        provider.play(*[patching] * 1000)
        wanted = undisturbed(gateway, BODY)
        place = place_of(wanted)
        check_goes_on(gateway, BODY, KillPoint(place, before=True), wanted)
        for found, digests, status in (
            (AFTER, DIGESTS, "completed"),
            (BEFORE, DIGESTS, "completed"),
            (b"other\n", DIGESTS, "failed"),
            (BEFORE, {}, "failed"),
        ):
            whole = gone_on_from_an_intent(gateway, place, found, digests)
            check_unbroken(whole)
            output: Any = whole[place_of(whole)]["item"]
            assert (found, output["status"]) == (found, status)
            if status == "completed":
                assert essence(whole) == essence(wanted)
            else:
                assert "The gateway was interrupted while it applied this" in output["output"]


def test_a_result_that_cannot_be_written_down_is_told_as_it_is(tmp_path: Path) -> None:
    with scripted_provider() as provider, lasting(tmp_path, config=config_of(provider)) as gateway:
        provider.play(*[patching] * 10)
        with closing(sqlite3.connect(gateway.home / "limpet.db")) as database, database:
            database.execute(
                "CREATE TRIGGER full BEFORE UPDATE ON executions WHEN OLD.outcome LIKE '%before%' "
                "BEGIN SELECT RAISE(ABORT, 'full'); END"
            )
        whole = ask(gateway, BODY)
        assert whole[place_of(whole)]["item"]["status"] == "completed"
        (written,) = gateway.home.glob("boxes/*/data/ran")
        assert written.read_bytes() == AFTER


def gone_on_from_an_intent(gateway: Gateway, place: int, found: bytes, digests: Json) -> list[Json]:
    """What a client has seen in the end, where the gateway was killed with no result of the patch on disk and that in the file."""
    gateway.kill()
    gateway.kill_point = KillPoint(place, before=True)
    seen = ask(gateway.start(), BODY)
    assert gateway.process is not None
    assert gateway.process.wait(timeout=10) == -9
    gateway.kill_point = None
    _only_intend(gateway, seen[0]["response"]["id"], digests)
    container = seen[0]["response"]["container_id"]
    (gateway.home / "boxes" / container / "data" / "ran").write_bytes(found)
    return go_on(gateway.start(), seen)


def _only_intend(gateway: Gateway, response: str, digests: Json) -> None:
    """Take the result of the patch away, as if the gateway had been killed before it was written down."""
    with closing(sqlite3.connect(gateway.home / "limpet.db")) as database, database:
        (number,) = database.execute("SELECT max(number) FROM executions WHERE response_id = ?", (response,)).fetchone()
        database.execute(
            "UPDATE executions SET outcome = ?, finished_at = NULL WHERE number = ?", (json.dumps(digests), number)
        )
