"""A response as a chat completion, whole or in chunks. Pure. Source: OpenAI's CreateChatCompletionResponse and …StreamResponse.

Reasoning that is shown stands in `reasoning_content`, where the servers that have it put it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from limpet.core import events as ev

Json = dict[str, Any]
_CALLS = ("function_call", "custom_tool_call")
_STOPS = {"max_output_tokens": "length", "content_filter": "content_filter"}


def completion_of(response: Mapping[str, Any], *, id: str, stop: Sequence[str]) -> Json:
    """A response that has ended, as one choice."""
    text, is_cut = _cut("".join(_texts(response, "output_text", "text")), stop)
    refusal = "".join(_texts(response, "refusal", "refusal"))
    calls = [] if is_cut else [_call(item) for item in response["output"] if item["type"] in _CALLS]
    message: Json = {"role": "assistant", "content": text or None, "refusal": refusal or None, "annotations": []}
    if thought := "".join(part["text"] for item in _items(response, "reasoning") for part in item["summary"]):
        message["reasoning_content"] = thought
    if calls:
        message["tool_calls"] = calls
    logprobs = [each for part in _parts(response, "output_text") for each in part.get("logprobs") or ()]
    choice = {
        "index": 0,
        "message": message,
        "logprobs": {"content": logprobs, "refusal": None} if logprobs else None,
        "finish_reason": "stop" if is_cut else _reason(response, has_calls=bool(calls)),
    }
    completion = _head(response, id, "chat.completion") | {"choices": [choice]}
    if (usage := _usage(response)) is not None:
        completion["usage"] = usage
    return completion


class Chunks:
    """The chunks of one response; `read` takes its events in order. `has_ended` once the last choice was given: by the response's own end
    or by one of the texts in `stop`, whose beginnings are held back until it is known that they are none."""

    def __init__(self, *, id: str, stop: Sequence[str], includes_usage: bool) -> None:
        self._id = id
        self._stop = stop
        self._includes_usage = includes_usage
        self._response: Mapping[str, Any] = {}
        self._calls: dict[int, int] = {}
        self._held = ""
        self.has_ended = False

    def read(self, type: str, data: Mapping[str, Any]) -> Iterator[Json]:
        """What one event says; often nothing."""
        match type:
            case ev.CREATED:
                self._response = data["response"]
                yield self._chunk({"role": "assistant", "content": "", "refusal": None})
            case ev.TEXT_DELTA:
                yield from self._text(data["delta"], data.get("logprobs"))
            case ev.REFUSAL_DELTA:
                yield self._chunk({"refusal": data["delta"]})
            case ev.SUMMARY_DELTA | ev.REASONING_DELTA:
                yield self._chunk({"reasoning_content": data["delta"]})
            case ev.ITEM_ADDED if data["item"]["type"] in _CALLS:
                number = self._calls[data["output_index"]] = len(self._calls)
                yield self._chunk({"tool_calls": [{"index": number, **_call(data["item"])}]})
            case ev.ARGUMENTS_DELTA:
                yield self._more(data, "function", "arguments")
            case ev.CUSTOM_INPUT_DELTA:
                yield self._more(data, "custom", "input")
            case _ if type in ev.TERMINAL:
                yield from self._end(data["response"])

    def _text(self, delta: str, logprobs: list[Json] | None) -> Iterator[Json]:
        text, is_cut = _cut(self._held + delta, self._stop)
        self._held = "" if is_cut else _beginning(text, self._stop)
        if shown := text.removesuffix(self._held) if self._held else text:
            yield self._chunk({"content": shown}, logprobs=logprobs)
        if is_cut:
            self.has_ended = True
            yield self._chunk({}, finish_reason="stop")

    def _more(self, data: Mapping[str, Any], kind: str, field: str) -> Json:
        return self._chunk({"tool_calls": [{"index": self._calls[data["output_index"]], kind: {field: data["delta"]}}]})

    def _end(self, response: Mapping[str, Any]) -> Iterator[Json]:
        self.has_ended = True
        if self._held:
            yield self._chunk({"content": self._held})
        if response["status"] == "failed":
            error = response["error"] or {"code": "server_error", "message": "The answer broke off."}
            yield {"error": {"message": error["message"], "type": "server_error", "param": None, "code": error["code"]}}
            return
        yield self._chunk({}, finish_reason=_reason(response, has_calls=bool(self._calls)))
        if self._includes_usage:
            yield _head(response, self._id, "chat.completion.chunk") | {"choices": [], "usage": _usage(response)}

    def _chunk(self, delta: Json, *, finish_reason: str | None = None, logprobs: list[Json] | None = None) -> Json:
        known = {"content": logprobs, "refusal": None} if logprobs else None
        choice = {"index": 0, "delta": delta, "logprobs": known, "finish_reason": finish_reason}
        chunk = _head(self._response, self._id, "chat.completion.chunk") | {"choices": [choice]}
        return {**chunk, "usage": None} if self._includes_usage else chunk


def _head(response: Mapping[str, Any], id: str, kind: str) -> Json:
    head = {"id": id, "object": kind, "created": int(response["created_at"]), "model": response["model"]}
    tier = response.get("service_tier")
    return {**head, "service_tier": tier, "system_fingerprint": None}


def _items(response: Mapping[str, Any], kind: str) -> Iterator[Json]:
    return (item for item in response["output"] if item["type"] == kind)


def _parts(response: Mapping[str, Any], kind: str) -> Iterator[Json]:
    return (part for item in _items(response, "message") for part in item["content"] if part["type"] == kind)


def _texts(response: Mapping[str, Any], kind: str, field: str) -> Iterator[str]:
    return (part[field] for part in _parts(response, kind))


def _call(item: Mapping[str, Any]) -> Json:
    if item["type"] == "custom_tool_call":
        return {"id": item["call_id"], "type": "custom", "custom": {"name": item["name"], "input": item["input"]}}
    function = {"name": item["name"], "arguments": item["arguments"]}
    return {"id": item["call_id"], "type": "function", "function": function}


def _reason(response: Mapping[str, Any], *, has_calls: bool) -> str:
    if response["status"] == "incomplete":
        return _STOPS.get((response.get("incomplete_details") or {}).get("reason", ""), "length")
    return "tool_calls" if has_calls else "stop"


def _usage(response: Mapping[str, Any]) -> Json | None:
    used = response.get("usage")
    if used is None:
        return None
    return {
        "prompt_tokens": used["input_tokens"],
        "completion_tokens": used["output_tokens"],
        "total_tokens": used["total_tokens"],
        "prompt_tokens_details": {"cached_tokens": used["input_tokens_details"]["cached_tokens"], "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": used["output_tokens_details"]["reasoning_tokens"],
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def _cut(text: str, stop: Sequence[str]) -> tuple[str, bool]:
    """The text in front of the first of the stop texts, and whether one was there."""
    places = [place for each in stop if (place := text.find(each)) >= 0]
    return (text[: min(places)], True) if places else (text, False)


def _beginning(text: str, stop: Sequence[str]) -> str:
    """The longest end of a text with which one of the stop texts begins."""
    ends = (
        text[-length:]
        for each in stop
        for length in range(min(len(each) - 1, len(text)), 0, -1)
        if text.endswith(each[:length])
    )
    return max(ends, key=len, default="")
