"""The response object: every key, in its order, with what stands there when nothing was given."""

from dataclasses import replace
from typing import Any

import msgspec

from limpet.core.clock import MICROSECONDS
from limpet.responses.resource import response_object, stored_object
from limpet.store.responses import ResponseRecord
from limpet.upstreams.endings import ResponseError
from limpet.upstreams.usage import Usage
from tests.wire.schema import RESPONSE_KEYS, check_response
from tests.wire.strict import STRICT

RECORD = ResponseRecord(
    id="resp_1",
    tenant="default",
    status="in_progress",
    model="m",
    provider="p",
    created_at=5 * MICROSECONDS,
    owner="o",
    request={"model": "p/m", "tools": []},
    input=[],
)
USAGE = {
    "input_tokens": 1,
    "output_tokens": 2,
    "total_tokens": 3,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 0},
}
LEAST = (
    b'{"id":"resp_1","object":"response","created_at":5,"completed_at":null,"status":"in_progress","background":false,"error":null,'
    b'"incomplete_details":null,"model":"p/m","output":[],"reasoning":{"effort":null,"summary":null},"store":true,'
    b'"text":{"format":{"type":"text"}},"tools":[],"usage":null,"presence_penalty":0.0,"frequency_penalty":0.0,"instructions":null,'
    b'"max_output_tokens":null,"max_tool_calls":null,"parallel_tool_calls":true,"previous_response_id":null,"prompt_cache_key":null,'
    b'"safety_identifier":null,"service_tier":"default","temperature":1.0,"top_p":1.0,"top_logprobs":0,"truncation":"disabled",'
    b'"tool_choice":"auto","metadata":{}}'
)


def as_json(value: object) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def test_the_least_response_has_every_key_in_its_order() -> None:
    shown = stored_object(RECORD, [])

    assert msgspec.json.encode(shown) == LEAST
    assert set(RESPONSE_KEYS) <= as_json(shown).keys()
    check_response(as_json(shown))


def test_what_was_given_is_shown_again() -> None:
    function = {"type": "function", "name": "f"}
    given = {
        "reasoning": {"effort": "low"},
        "text": {"verbosity": "low"},
        "tools": [function, {"type": "shell", "environment": {"type": "local"}}],
        "store": False,
        "instructions": "Be kind.",
        "temperature": 0,
        "metadata": {"a": "b"},
        "tool_choice": {"type": "function", "name": "f"},
        "parallel_tool_calls": False,
        "service_tier": None,
        "notes": ["So."],
    }
    record = replace(RECORD, container_id="cntr_1", request={"model": "p/m", **given})

    shown = as_json(
        response_object(
            record,
            status="completed",
            completed_at=9 * MICROSECONDS,
            output=[{"type": "message"}],
            usage=msgspec.convert(USAGE, Usage),
            error=None,
            incomplete_reason=None,
        )
    )

    assert {key: shown[key] for key in given} == {
        **given,
        "reasoning": {"effort": "low", "summary": None},
        "text": {"format": {"type": "text"}, "verbosity": "low"},
        "tools": [{"description": None, "parameters": None, "strict": True, **function}, given["tools"][1]],
        "service_tier": "default",
    }
    assert (shown["completed_at"], shown["container_id"], shown["usage"]) == (9, "cntr_1", USAGE)


def test_a_row_of_an_earlier_version_can_be_read_whatever_its_provider_sent() -> None:
    error = {"code": "overloaded", "message": "Busy."}
    record = replace(RECORD, status="failed", error=error, usage={"input_tokens": 3.0, "output_tokens": None})

    shown = stored_object(record, [])

    check_response(as_json(shown))
    assert shown.usage == Usage.counted(given=3, answered=0)
    assert shown.error is not None
    assert shown.error.message == "Busy. (The provider's code is overloaded.)"


def test_a_failed_response_is_read_from_its_row() -> None:
    error = {"code": "server_error", "message": "It broke."}
    record = replace(RECORD, status="failed", completed_at=9 * MICROSECONDS, error=error, usage=USAGE)

    shown = stored_object(record, [])

    assert shown.error == ResponseError(code="server_error", message="It broke.")
    assert (as_json(shown)["usage"], shown.completed_at) == (USAGE, None)
    check_response(as_json(shown))
    assert STRICT.response(as_json(shown)).status == "failed"
