"""How output becomes text that may be shown: decoded in one place, cut where it is too long. Pure.

Decoding is incremental, so that a character split over two chunks arrives whole, and it says after which raw byte it may be
started again empty: from there another process continues a stream exactly (docs/architecture.md, "The journal").
"""

import codecs
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Decoded text and, where the decoder holds nothing back, the raw offset up to which it is complete."""

    text: str
    raw_offset: int | None


class Decoder:
    """UTF-8 of one stream, piece by piece; what is not UTF-8 becomes U+FFFD. `start` is the raw offset of the first byte it gets."""

    def __init__(self, start: int = 0) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._offset = start

    def feed(self, data: bytes) -> Text:
        """The text that is complete with these bytes."""
        self._offset += len(data)
        text = self._decoder.decode(data)
        held_back = self._decoder.getstate()[0]
        return Text(text=text, raw_offset=None if held_back else self._offset)

    def end(self) -> Text:
        """What a broken end leaves: at most one U+FFFD."""
        return Text(text=self._decoder.decode(b"", final=True), raw_offset=self._offset)


def head_and_tail(text: str, limit: int) -> str:
    """`text` if it has at most `limit` characters; else its head and tail with a marker that counts what was left out between them."""
    if len(text) <= limit:
        return text
    head = (limit + 1) // 2
    tail = limit - head
    left_out = len(text) - limit
    marker = f"\n... [{left_out} characters left out] ...\n"
    return text[:head] + marker + (text[-tail:] if tail else "")


def trim_pair(stdout: str, stderr: str, limit: int) -> tuple[str, str]:
    """Both streams of a command, together at most `limit` characters beside the markers (OpenAI's `max_output_length`).

    The shorter stream is kept whole as long as it needs no more than half.
    """
    for_stdout, for_stderr = shares(len(stdout), len(stderr), limit)
    return head_and_tail(stdout, for_stdout), head_and_tail(stderr, for_stderr)


def shares(stdout: int, stderr: int, limit: int) -> tuple[int, int]:
    """How many of `limit` characters each of two streams of these lengths may have: the shorter one is whole where half suffices."""
    half = limit // 2
    if stdout + stderr <= limit or stderr <= half:
        return limit - min(stderr, limit), stderr
    if stdout <= half:
        return stdout, limit - stdout
    return limit - half, half


class HeadTailBuffer:
    """Lets the head of a stream's text through as it comes and keeps its tail until the end: `limit` bytes (in UTF-8) together, of
    which the tail has a quarter. Cuts between characters. Memory: twice the tail."""

    def __init__(self, limit: int) -> None:
        self._tail_limit = max(0, limit) // 4
        self._head_left = max(0, limit) - self._tail_limit
        self._is_head_full = False
        self._tail = bytearray()
        self._dropped = 0

    def admit(self, text: str) -> str:
        """The part of `text` that belongs to the head."""
        if not text:
            return ""
        encoded = text.encode("utf-8", errors="surrogatepass")
        if not self._is_head_full and len(encoded) <= self._head_left:
            self._head_left -= len(encoded)
            return text
        head = b"" if self._is_head_full else _prefix(encoded, self._head_left)
        self._is_head_full = True
        self._tail_limit += self._head_left - len(head)  # what the cut between characters left over
        self._head_left = 0
        self._tail += encoded[len(head) :]
        if len(self._tail) > 2 * self._tail_limit:
            self._shorten()
        return head.decode("utf-8", errors="surrogatepass")

    def skip(self, text: str) -> None:
        """Count text of the head that was let through before."""
        self._head_left = max(0, self._head_left - len(text.encode("utf-8", errors="surrogatepass")))

    def end(self) -> "Tail":
        """What comes after the head, once all was admitted."""
        self._shorten()
        return Tail(text=self._tail.decode("utf-8", errors="surrogatepass"), dropped=self._dropped)

    def _shorten(self) -> None:
        cut = max(0, len(self._tail) - self._tail_limit)
        while cut < len(self._tail) and cut > 0 and self._tail[cut] & 0xC0 == 0x80:
            cut += 1  # a character that began before the tail is left out whole
        del self._tail[:cut]
        self._dropped += cut


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The end of a stream's text, and how many bytes were dropped between it and the head."""

    text: str
    dropped: int


def _prefix(encoded: bytes, limit: int) -> bytes:
    """At most `limit` bytes, cut before a character."""
    while 0 < limit < len(encoded) and encoded[limit] & 0xC0 == 0x80:
        limit -= 1
    return encoded[: max(0, limit)]
