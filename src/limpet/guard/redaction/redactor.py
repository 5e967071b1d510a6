"""What output, events and records may show: secrets are replaced by a marker before anything is stored, streamed or logged.

It stops accidents. A program that means to get a secret out can change it so that it is not recognised (reversed, compressed, a
character a line): what must never be seen must not be in the box.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, TypeVar

from limpet.core.secret import Secret
from limpet.core.settings import Names
from limpet.guard.redaction.encodings import forms, require_long_enough
from limpet.guard.redaction.matcher import SecretMatcher
from limpet.guard.redaction.stream import RedactingStream
from limpet.guard.redaction.token_shapes import TOKEN_SHAPES
from limpet.guard.redaction.user_patterns import compiled

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Redaction:
    """What to hide.

    `secrets`: known values by name, at least 8 characters each; they are found in base64, hexadecimal, percent signs, JSON's and the
    shell's escapes too. `patterns`: expressions in RE2's syntax, matched within a line; with a group `(?P<secret>…)` only that is
    hidden. `families`: tokens of known shape (`rules`). `names`: "[REDACTED:name]"; False gives "[REDACTED]".
    Raises ConfigInvalid for a secret that is too short and for a pattern that RE2 refuses. docs/bash-tool.md has
    examples.
    """

    secrets: Annotated[Mapping[str, Secret], Names(lower=False)] = field(default_factory=dict)
    patterns: Mapping[str, str] | Sequence[str] = ()
    families: bool = True
    names: bool = True

    def __post_init__(self) -> None:
        require_long_enough(self.secrets)
        compiled(self.patterns)


class Redactor:
    """A Redaction, compiled: make it once and share it. `count` is how many markers it has set."""

    def __init__(self, redaction: Redaction) -> None:
        known = ((form, name) for name, secret in redaction.secrets.items() for form in forms(secret.reveal()))
        self._matcher = SecretMatcher(known, TOKEN_SHAPES if redaction.families else ())
        self._patterns = compiled(redaction.patterns)
        self._names = redaction.names
        self.count = 0

    def screen(self) -> RedactingStream:
        """For one stream, from its first byte."""
        return RedactingStream(self._matcher, self._patterns, marks_names=self._names, counted=self._counted)

    def bytes(self, data: bytes) -> bytes:
        """The whole of something."""
        screen = self.screen()
        return screen.feed(data) + screen.end()

    def text(self, text: str) -> str:
        """The whole of a text. Lone surrogates stay what they are."""
        hidden = self.bytes(text.encode("utf-8", "surrogatepass"))
        try:
            return hidden.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:  # a secret that is no text began within a character
            return hidden.decode("utf-8", "replace")

    def value(self, value: Value) -> Value:
        """A value of JSON's kinds with every text in it redacted, keys too; numbers stay."""
        hidden: Value = self._value(value)  # type: ignore[assignment]  # each kind comes back as itself
        return hidden

    def _value(self, value: object) -> object:
        match value:
            case str():
                return self.text(value)
            case Mapping():
                return {self._value(key): self._value(each) for key, each in value.items()}
            case list() | tuple():
                return type(value)(self._value(each) for each in value)
            case _:
                return value

    def _counted(self) -> None:
        self.count += 1
