"""What the objects of the HTTP API have in common. Each is one struct, which holds its values, serialises them and documents them.

The JSON object has the struct's fields in their order. A field whose default is UNSET is left out of it; every other one is there.
"""

from collections.abc import Sequence
from typing import Annotated, Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

V = TypeVar("V")
R = TypeVar("R", bound="Resource")
EXTENSION = Meta(extra_json_schema={"x-limpet-extension": True})  # a key that OpenAI's API does not have
Moment = Annotated[int, Meta(description="Seconds since 1970-01-01 UTC.")]
Count = Annotated[int, Meta(ge=0)]


class WireObject(msgspec.Struct, frozen=True, kw_only=True):
    """A JSON object of the API. Types are checked where one is read (`msgspec.convert`), not where one is made."""


class Resource(WireObject, frozen=True, kw_only=True):
    """One that has an address of its own."""

    id: str


class DeletedResource(Resource, frozen=True, kw_only=True):
    """The answer to a DELETE; `object` is narrowed to the resource's kind."""

    object: str
    deleted: Literal[True] = True


class ResourcePage(WireObject, Generic[R], frozen=True, kw_only=True):
    """`first_id` and `last_id` are null where the page is empty."""

    object: Literal["list"] = "list"
    data: Sequence[R]
    first_id: str | None
    last_id: str | None
    has_more: bool


def or_unset(value: V | None) -> V | UnsetType:
    """The value of a field that is left out where there is none."""
    return UNSET if value is None else value
