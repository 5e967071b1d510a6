"""A provider that answers every request with the same stream of Responses events, each sent as a piece of its own.

`python -m bench.provider EVENTS` prints its address and serves until it is ended.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
MESSAGE = "msg_0000000000000000000000000000000000000000000000000000"
PLACE = {"item_id": MESSAGE, "output_index": 0, "content_index": 0}


def events(count: int) -> Iterator[dict[str, Any]]:
    """A response whose message comes in `count` pieces."""
    response = {"id": f"resp_{'0' * 50}", "object": "response", "created_at": 1, "model": "m", "output": []}
    text = "word " * count
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}
    item = {"id": MESSAGE, "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    done = {**item, "status": "completed", "content": [{**part, "text": text}]}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    usage = {"input_tokens": 1, "output_tokens": count, "total_tokens": count + 1, **details}
    yield {"type": "response.created", "response": {**response, "status": "in_progress"}}
    yield {"type": "response.output_item.added", "output_index": 0, "item": item}
    yield {"type": "response.content_part.added", **PLACE, "part": part}
    for _ in range(count):
        yield {"type": "response.output_text.delta", **PLACE, "delta": "word ", "logprobs": []}
    yield {"type": "response.output_text.done", **PLACE, "text": text, "logprobs": []}
    yield {"type": "response.content_part.done", **PLACE, "part": {**part, "text": text}}
    yield {"type": "response.output_item.done", "output_index": 0, "item": done}
    ended = {**response, "status": "completed", "output": [done], "usage": usage}
    yield {"type": "response.completed", "response": ended}


def frames(count: int) -> list[bytes]:
    """The same as chunks of HTTP, each a server-sent event."""
    made = []
    for number, event in enumerate(events(count)):
        data = json.dumps({**event, "sequence_number": number})
        frame = f"event: {event['type']}\ndata: {data}\n\n".encode()
        made.append(b"%x\r\n%b\r\n" % (len(frame), frame))
    return [*made, b"0\r\n\r\n"]


async def main(count: int) -> None:
    answer = frames(count)

    async def answered(connection: SocketStream) -> None:
        async with connection:
            reader = BufferedByteReceiveStream(connection)
            head = (await reader.receive_until(b"\r\n\r\n", 1 << 16)).lower()
            length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
            await reader.receive_exactly(length)
            await connection.send(HEAD)
            for frame in answer:
                await connection.send(frame)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    print(f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}/v1", flush=True)
    await listener.serve(answered)


if __name__ == "__main__":
    anyio.run(main, int(sys.argv[1]))
