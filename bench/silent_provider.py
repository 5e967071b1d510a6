"""A provider of chat completions that leaves its first requests without an answer and answers all others at once.

`python -m bench.silent_provider COUNT` prints its address and serves until it is ended.
"""

import sys

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from bench.provider import HEAD, frames


async def main(silent: int) -> None:
    answer = HEAD + b"".join(frames(3, "openai_chat", "word "))
    asked = 0

    async def answered(connection: SocketStream) -> None:
        nonlocal asked
        async with connection:
            reader = BufferedByteReceiveStream(connection)
            try:
                head = (await reader.receive_until(b"\r\n\r\n", 1 << 16)).lower()
                length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
                await reader.receive_exactly(length)
                asked += 1
                if asked <= silent:
                    await reader.receive(1)  # until the gateway is gone
                await connection.send(answer)
            except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError):
                return

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0, backlog=4096)
    print(f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}/v1", flush=True)
    await listener.serve(answered)


if __name__ == "__main__":
    anyio.run(main, int(sys.argv[1]))
