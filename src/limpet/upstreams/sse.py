"""Server-sent events out of bytes, wherever the bytes are cut. Knows framing only, nothing of what the events mean.

Source: the event stream format of the HTML standard. Event names and ids are ignored: what is read here says its type in its data.
"""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class FrameTooLarge(ValueError):
    """An event without end: more bytes than the limit."""


class Frames:
    """Give it the bytes as they come; it gives back the data of each event that is complete. `limit` bounds one event, in bytes."""

    def __init__(self, *, limit: int = 64 * 2**20) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._starts = True
        self._held_return = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that this chunk completes; comments and events without data give none. Raises FrameTooLarge."""
        if self._held_return or b"\r" in chunk:
            chunk = self._with_newlines(chunk)
        if not self._starts and not self._buffer and chunk.endswith(b"\n\n"):
            # Whole events, as most senders write them.
            return [data for block in chunk[:-2].split(b"\n\n") if (data := _data(block)) is not None]
        searched = max(0, len(self._buffer) - 1)
        self._buffer += chunk
        if self._starts and len(self._buffer) >= len(BYTE_ORDER_MARK):
            self._starts = False
            if self._buffer.startswith(BYTE_ORDER_MARK):
                del self._buffer[: len(BYTE_ORDER_MARK)]
                searched = 0
        end = self._buffer.rfind(b"\n\n", searched)
        if end < 0:
            if len(self._buffer) > self._limit:
                raise FrameTooLarge(f"An event has more than {self._limit} bytes.")
            return []
        blocks = bytes(self._buffer[:end]).split(b"\n\n")
        del self._buffer[: end + 2]
        return [data for block in blocks if (data := _data(block)) is not None]

    def finish(self) -> list[bytes]:
        """At the end of the bytes: what is left, for senders that forget the last empty line."""
        return self.feed(b"\n\n")

    def _with_newlines(self, chunk: bytes) -> bytes:
        r"""The chunk with every line end as \n. A return at its end waits for the next chunk: it may be half of \r\n."""
        if self._held_return:
            chunk = b"\r" + chunk
            self._held_return = False
        if b"\r" not in chunk:
            return chunk
        if chunk.endswith(b"\r"):
            chunk = chunk[:-1]
            self._held_return = True
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _data(block: bytes) -> bytes | None:
    """The data of one event; None where it has none."""
    first = block.find(b"\n")
    if block.startswith(b"event:") and block.startswith(b"data: ", first + 1) and block.find(b"\n", first + 1) < 0:
        return block[first + 7 :]
    lines = []
    for line in block.split(b"\n"):
        name, _, value = line.partition(b":")
        if name == b"data":
            lines.append(value.removeprefix(b" "))
    return b"\n".join(lines) if lines else None
