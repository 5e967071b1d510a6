"""How our values look in a column, in every dialect: text, JSON, a path, numbers that grow and numbers without a sign."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy import BigInteger, Dialect, Integer, LargeBinary, MetaData
from sqlalchemy.types import TypeDecorator

# SQLite counts by itself only in a column declared INTEGER; there it holds 64 bits, as BIGINT does elsewhere.
Number = BigInteger().with_variant(Integer(), "sqlite")


class Text(TypeDecorator[str]):
    """Text of any length. PostgreSQL keeps no character of the number 0: there it becomes its picture, U+2400."""

    impl = sa.Text
    cache_ok = True

    def bind_processor(self, dialect: Dialect) -> Callable[[str | None], str | None] | None:
        return _pictured if dialect.name == "postgresql" else None


class Json(TypeDecorator[Any]):
    """A JSON value, kept as text; None is NULL. Text with lone surrogates, which clients can send as escapes, survives."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else to_json(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        return None if value is None else from_json(value)


class Path(TypeDecorator[str]):
    """A path in a sandbox. File names are bytes, and those that are no UTF-8 come as surrogate escapes."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> bytes | None:
        return None if value is None else value.encode("utf-8", "surrogateescape")

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> str | None:
        return None if value is None else value.decode("utf-8", "surrogateescape")


class Unsigned(TypeDecorator[int]):
    """A number of 64 bits without a sign, such as an inode's; databases only know signed ones."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Dialect) -> int | None:
        return value - (1 << 64) if value is not None and value >= 1 << 63 else value

    def process_result_value(self, value: int | None, dialect: Dialect) -> int | None:
        return None if value is None else value % (1 << 64)


def _pictured(value: str | None) -> str | None:
    return value.replace("\0", "\u2400") if value is not None and "\0" in value else value


def to_json(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (UnicodeEncodeError, OverflowError, ValueError):
        # What msgspec cannot write (lone surrogates, integers above 64 bits) the slower encoder can.
        return json.dumps(value, separators=(",", ":"))


def from_json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return json.loads(text)


def named_metadata() -> MetaData:
    """Of tables whose keys and indexes have names that are the same in every dialect."""
    return MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
