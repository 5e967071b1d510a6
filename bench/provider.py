"""A provider that answers every request with the same stream of events, each sent as a piece of its own.

`python -m bench.provider EVENTS [WIRE [SECONDS]]` prints its address and serves until it is ended; the wire is `openai` (Responses),
`openai_chat` or `anthropic`. With SECONDS an event is sent every so many seconds, and its text is the moment at which it was sent, in
nanoseconds of the machine's clock that only grows.
"""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

MOMENT = "0" * 19  # stands where the moment goes
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
MESSAGE = "msg_0000000000000000000000000000000000000000000000000000"
PLACE = {"item_id": MESSAGE, "output_index": 0, "content_index": 0}


def events(count: int, piece: str) -> Iterator[dict[str, Any]]:
    """A response whose message comes in `count` pieces."""
    response = {"id": f"resp_{'0' * 50}", "object": "response", "created_at": 1, "model": "m", "output": []}
    text = piece * count
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}
    item = {"id": MESSAGE, "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    done = {**item, "status": "completed", "content": [{**part, "text": text}]}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    usage = {"input_tokens": 1, "output_tokens": count, "total_tokens": count + 1, **details}
    yield {"type": "response.created", "response": {**response, "status": "in_progress"}}
    yield {"type": "response.output_item.added", "output_index": 0, "item": item}
    yield {"type": "response.content_part.added", **PLACE, "part": part}
    for _ in range(count):
        yield {"type": "response.output_text.delta", **PLACE, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", **PLACE, "text": text, "logprobs": []}
    yield {"type": "response.content_part.done", **PLACE, "part": {**part, "text": text}}
    yield {"type": "response.output_item.done", "output_index": 0, "item": done}
    ended = {**response, "status": "completed", "output": [done], "usage": usage}
    yield {"type": "response.completed", "response": ended}


def completion_chunks(count: int, piece: str) -> Iterator[dict[str, Any]]:
    """The same as a chat completion."""
    head = {"id": "chatcmpl-0", "object": "chat.completion.chunk", "created": 1, "model": "m"}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    for _ in range(count):
        yield chunk({"content": piece})
    yield chunk({}, "stop")
    yield {**head, "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": count, "total_tokens": count + 1}}


def message_events(count: int, piece: str) -> Iterator[dict[str, Any]]:
    """The same as Anthropic's Messages API has it."""
    message: dict[str, Any] = {
        "id": "msg_0",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
    }
    yield {"type": "message_start", "message": {**message, "usage": {"input_tokens": 1, "output_tokens": 1}}}
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    for _ in range(count):
        yield {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": count}}
    yield {"type": "message_stop"}


def frames(count: int, wire: str, piece: str) -> list[bytes]:
    """The same as chunks of HTTP, each a server-sent event."""
    match wire:
        case "openai_chat":
            said = [f"data: {json.dumps(chunk)}\n\n" for chunk in completion_chunks(count, piece)] + [
                "data: [DONE]\n\n"
            ]
        case "anthropic":
            said = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in message_events(count, piece)]
        case _:
            numbered = [{**event, "sequence_number": number} for number, event in enumerate(events(count, piece))]
            said = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in numbered]
    return [*(b"%x\r\n%b\r\n" % (len(each.encode()), each.encode()) for each in said), b"0\r\n\r\n"]


async def main(count: int, wire: str = "openai", pause: float = 0.0) -> None:
    answer = frames(count, wire, MOMENT if pause else "word ")

    async def answered(connection: SocketStream) -> None:
        async with connection:
            with suppress(anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError):  # the reader has left
                await answer_to(connection)

    async def answer_to(connection: SocketStream) -> None:
        reader = BufferedByteReceiveStream(connection)
        head = (await reader.receive_until(b"\r\n\r\n", 1 << 16)).lower()
        length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
        await reader.receive_exactly(length)
        await connection.send(HEAD)
        due = anyio.current_time()
        for frame in answer:
            if pause:
                due += pause
                await anyio.sleep_until(due)
                frame = frame.replace(MOMENT.encode(), b"%019d" % time.monotonic_ns())
            await connection.send(frame)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    print(f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}/v1", flush=True)
    await listener.serve(answered)


if __name__ == "__main__":
    wire = sys.argv[2] if len(sys.argv) > 2 else "openai"
    anyio.run(main, int(sys.argv[1]), wire, float(sys.argv[3]) if len(sys.argv) > 3 else 0.0)
