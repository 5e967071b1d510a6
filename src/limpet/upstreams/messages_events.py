"""What the events of Anthropic's Messages API mean for a turn. Pure: events in, turn events out. Source: Anthropic's documentation,
"Streaming Messages".
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from limpet.upstreams.answer_reader import StreamedError
from limpet.upstreams.item_writer import Finish, ItemWriter
from limpet.upstreams.messages_request import MADE_BY
from limpet.upstreams.upstream import TurnEvent
from limpet.upstreams.usage import Usage, count_in

_FINISHES: Mapping[str, Finish] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
_STATUSES = {"invalid_request_error": 400, "rate_limit_error": 429, "api_error": 500, "overloaded_error": 529}
_COUNTED = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


class MessagesEventReader:
    """Reads the events of one message in order. `has_finished` is set by the reason to stop."""

    def __init__(self, writer: ItemWriter) -> None:
        self._writer = writer
        self._block = -1
        self._signatures: dict[int, list[str]] = {}  # of what thinks, in pieces, until its block ends
        self._used: dict[str, int] = {}
        self._thought_tokens = 0
        self._finish: Finish = "stop"
        self._shown: dict[str, Any] = {}
        self.has_finished = False

    def read(self, event: dict[str, Any]) -> Iterable[TurnEvent]:
        """What one event says, in order; often nothing. Raises StreamedError."""
        match event.get("type"):
            case "content_block_delta":
                return self._delta(event["index"], event["delta"])
            case "content_block_start":
                return self._start(event["index"], event["content_block"])
            case "message_start":
                message = event.get("message") or {}
                self._shown["model"] = message.get("model")
                self._count(message.get("usage"))
            case "message_delta":
                self._count(event.get("usage"))
                if reason := (event.get("delta") or {}).get("stop_reason"):
                    self.has_finished = True
                    self._finish = _FINISHES.get(reason, "stop")
            case "error":
                error = event.get("error")
                kind = error.get("type") if isinstance(error, Mapping) else None
                raise StreamedError(error, status=_STATUSES.get(kind or ""))
        return ()

    def end(self) -> Iterator[TurnEvent]:
        """Close what is open and end the turn."""
        self._seal()
        return self._writer.end(finish=self._finish, usage=self._usage(), response=self._shown)

    def _start(self, index: int, block: Mapping[str, Any]) -> list[TurnEvent]:
        """A block begins; only then the text or reasoning before it has ended, since the last one may have been cut."""
        self._seal()
        ended = [*self._writer.end_part(self._block)]
        self._block = index
        self._writer.begin_part(index)
        return [*ended, *self._begin(index, block)]

    def _begin(self, index: int, block: Mapping[str, Any]) -> Iterator[TurnEvent]:
        match block.get("type"):
            case "text":
                yield from self._writer.text(index, block.get("text") or "")
            case "thinking":
                yield from self._writer.thought(index, block.get("thinking") or "", even_empty=True)
                self._sign(index, block.get("signature") or "")
            case "redacted_thinking":
                yield from self._writer.thought(index, "", even_empty=True)
                self._writer.seal(index, made_by=MADE_BY, id="redacted_thinking", signature=block["data"])
            case "tool_use":
                yield from self._writer.call(index, block["name"], block["id"])
                given = block.get("input")
                yield from self._writer.arguments(index, json.dumps(given, ensure_ascii=False) if given else "")

    def _delta(self, index: int, delta: Mapping[str, Any]) -> Iterable[TurnEvent]:
        match delta.get("type"):
            case "text_delta":
                return self._writer.text(index, delta["text"])
            case "input_json_delta":
                return self._writer.arguments(index, delta["partial_json"])
            case "thinking_delta":
                return self._writer.thought(index, delta["thinking"])
            case "signature_delta":
                self._sign(index, delta["signature"])
        return ()

    def _sign(self, index: int, signature: str) -> None:
        """The signature may come in pieces."""
        self._signatures.setdefault(index, []).append(signature)

    def _seal(self) -> None:
        """Without a signature reasoning proves nothing and is sent back as text."""
        for index, pieces in self._signatures.items():
            self._writer.seal(index, made_by=MADE_BY, signature="".join(pieces) or None)
        self._signatures.clear()

    def _count(self, usage: object) -> None:
        """Each event has the sums until then."""
        if not isinstance(usage, Mapping):
            return
        self._used |= {name: count_in(usage, name) for name in _COUNTED if usage.get(name) is not None}
        details = usage.get("output_tokens_details")
        if isinstance(details, Mapping):
            self._thought_tokens = count_in(details, "thinking_tokens")

    def _usage(self) -> Usage | None:
        """Anthropic does not count what is read from or written to the cache as input."""
        given, answered, cached, written = (self._used.get(name, 0) for name in _COUNTED)
        if not given + cached + written and not answered:
            return None
        return Usage.counted(
            given=given + cached + written,
            answered=answered,
            cached=cached,
            written=written,
            reasoning=self._thought_tokens,
        )
