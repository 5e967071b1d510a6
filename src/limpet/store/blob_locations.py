"""Which place holds a blob's bytes, as a row remembers it. Pure; holds no secret.

A row names its place in full, so that changed settings lose nothing: what was kept elsewhere is still read from there.
"""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit


@dataclass(frozen=True, slots=True)
class Directory:
    """Files below a directory; None is the one in LIMPET_HOME, wherever that lies."""

    path: Path | None = None


@dataclass(frozen=True, slots=True)
class InDatabase:
    """Rows of the database that everything else is in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """Objects of an S3-compatible bucket below `prefix`. `endpoint` None is Amazon's, `region` None the environment's."""

    bucket: str
    prefix: str = ""
    endpoint: str | None = None
    region: str | None = None


Place = Directory | InDatabase | Bucket


def backend_of(place: Place) -> str:
    """Its word in the settings."""
    match place:
        case Directory():
            return "filesystem"
        case InDatabase():
            return "database"
        case Bucket():
            return "s3"


def to_text(place: Place) -> str:
    """As a column holds it, and as people read it; `from_text` reads it back."""
    match place:
        case Directory(path=None):
            return "filesystem:"
        case Directory(path=path):
            return f"filesystem:{quote(str(path))}"
        case InDatabase():
            return "database:"
        case Bucket():
            options = {"endpoint": place.endpoint, "region": place.region}
            query = urlencode({name: value for name, value in options.items() if value is not None})
            return f"s3://{place.bucket}/{quote(place.prefix)}" + (f"?{query}" if query else "")


def from_text(text: str) -> Place:
    """The location that the text names. Raises ValueError."""
    parts = urlsplit(text)
    match parts.scheme:
        case "filesystem":
            return Directory(Path(unquote(parts.path)) if parts.path else None)
        case "database":
            return InDatabase()
        case "s3":
            query = parse_qs(parts.query)
            return Bucket(
                bucket=parts.netloc,
                prefix=unquote(parts.path.removeprefix("/")),
                endpoint=query.get("endpoint", [None])[0],
                region=query.get("region", [None])[0],
            )
        case _:
            raise ValueError(f"{text!r} names no place for blobs")
