"""What the records of all tables share: turning into a row and back, and pages that follow the hidden growing number."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Generic, Literal, TypeVar

from sqlalchemy import ColumnElement, Row, Table, select
from sqlalchemy.ext.asyncio import AsyncConnection

from limpet.core.errors import RequestInvalid

Order = Literal["asc", "desc"]
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Page(Generic[R]):
    """Some records of a list, in its order, and whether more come after them."""

    records: list[R]
    has_more: bool


def columns_of(record: Any) -> dict[str, Any]:
    """The record's fields as a new row; `number` is left to the database."""
    return {field.name: getattr(record, field.name) for field in fields(record) if field.name != "number"}


def record_of(kind: Callable[..., R], row: Row[Any]) -> R:
    """The row of a whole table as its record; both have the same names."""
    return kind(**row._mapping)


async def read_page(
    connection: AsyncConnection,
    table: Table,
    *where: ColumnElement[bool],
    kind: Callable[..., R],
    limit: int,
    after: str | None,
    order: Order,
    cursor_in: ColumnElement[bool],
) -> Page[R]:
    """At most `limit` records, those behind the one whose id is `after`. RequestInvalid when that id is not within `cursor_in`."""
    number = table.c.number
    wanted = select(table).where(*where)
    if after is not None:
        at = (await connection.execute(select(number).where(table.c.id == after, cursor_in))).scalar_one_or_none()
        if at is None:
            raise RequestInvalid(f"after: there is no {after} in this list. Use the last id of a page.", param="after")
        wanted = wanted.where(number > at if order == "asc" else number < at)
    wanted = wanted.order_by(number.asc() if order == "asc" else number.desc()).limit(limit + 1)
    found = [record_of(kind, row) for row in await connection.execute(wanted)]
    return Page(found[:limit], has_more=len(found) > limit)
