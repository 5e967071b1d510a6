"""How output becomes text that may be shown: decoded in one place, cut where it is too long. Pure.

Decoding is incremental, so that a character split over two chunks arrives whole, and it says after which raw byte it may be
started again empty: from there another process continues a stream exactly (DESIGN, the journal).
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
    if len(stdout) + len(stderr) <= limit:
        return stdout, stderr
    half = limit // 2
    if len(stderr) <= half:
        return head_and_tail(stdout, limit - len(stderr)), stderr
    if len(stdout) <= half:
        return stdout, head_and_tail(stderr, limit - len(stdout))
    return head_and_tail(stdout, limit - half), head_and_tail(stderr, half)


class Clip:
    """Lets the first `limit` bytes (in UTF-8) of a stream's text through and counts the rest. Cuts between characters."""

    def __init__(self, limit: int) -> None:
        self._left = limit
        self.dropped = 0

    def admit(self, text: str) -> str:
        """The part of `text` that still fits."""
        if not text:
            return ""
        encoded = text.encode("utf-8", errors="surrogatepass")
        if not self.dropped and len(encoded) <= self._left:
            self._left -= len(encoded)
            return text
        if self.dropped:
            self.dropped += len(encoded)
            return ""
        kept = encoded[: self._left].decode("utf-8", errors="ignore")
        self.dropped = len(encoded) - len(kept.encode())
        self._left = 0
        return kept
