"""Images that a request names by the id of an upload: providers do not know our files, so they are sent the bytes."""

import base64
from collections.abc import Iterator, Sequence
from typing import Any

from limpet.core.errors import NotFound, RequestInvalid
from limpet.core.settings import MIB
from limpet.responses.input_sources import no_upload
from limpet.store.uploads import UploadRecord, Uploads

Json = dict[str, Any]
MAX_IMAGE = 32 * MIB
MAX_IN_ALL = 64 * MIB
HOLDERS = ("content", "output")
GONE: Json = {"type": "input_text", "text": "[An image was deleted.]"}
LEFT_OUT: Json = {"type": "input_text", "text": "[An image is left out: the conversation's images are too large.]"}


async def check_images(uploads: Uploads, tenant: str, items: Sequence[Json]) -> None:
    """Whether the images of these new items are there. RequestInvalid with the part's place."""
    for item, holder, position, part in _images(items):
        param = f"input[{item}].{holder}[{position}].file_id"
        try:
            upload = await uploads.get(tenant, part["file_id"])
        except NotFound as error:
            raise no_upload(part["file_id"], param) from error
        if not _type_of(upload).startswith("image/"):
            raise RequestInvalid(
                f"The file {upload.id} is not an image ({_type_of(upload) or 'its type is not known'}). Send it as input_file.",
                param=param,
                code="invalid_image_format",
            )
        if upload.bytes > MAX_IMAGE:
            raise RequestInvalid(
                f"The image has {upload.bytes} bytes; the most is {MAX_IMAGE}.", param=param, code="image_too_large"
            )


async def with_images(uploads: Uploads, tenant: str, items: Sequence[Json]) -> list[Json]:
    """The items with the bytes of their images, the newest first as long as there is room."""
    whole, left = list(items), MAX_IN_ALL
    for item, holder, position, part in reversed(list(_images(items))):
        told, size = await _told(uploads, tenant, part, left)
        left -= size
        parts = list(whole[item][holder])
        parts[position] = told
        whole[item] = {**whole[item], holder: parts}
    return whole


async def _told(uploads: Uploads, tenant: str, part: Json, left: int) -> tuple[Json, int]:
    """The part as a provider gets it, and the bytes of its image."""
    try:
        upload = await uploads.get(tenant, part["file_id"])
    except NotFound:
        return GONE, 0  # it was there when it was sent: a conversation outlives its files
    if upload.bytes > left:
        return LEFT_OUT, 0
    data = b"".join([piece async for piece in uploads.read(upload)])
    url = f"data:{_type_of(upload)};base64,{base64.b64encode(data).decode()}"
    return {**{key: value for key, value in part.items() if key != "file_id"}, "image_url": url}, upload.bytes


def _images(items: Sequence[Json]) -> Iterator[tuple[int, str, int, Json]]:
    """Parts that name an image by its id: the item's number, its field, the part's place there, the part."""
    for number, item in enumerate(items):
        for holder in HOLDERS:
            held = item.get(holder)
            for position, part in enumerate(held if isinstance(held, list) else ()):
                if isinstance(part, dict) and part.get("type") == "input_image" and part.get("file_id") is not None:
                    yield number, holder, position, part


def _type_of(upload: UploadRecord) -> str:
    """By what the client said, else by the file's name."""
    said = (upload.content_type or "").partition(";")[0].strip().lower()
    if said.startswith("image/"):
        return said
    return _BY_NAME.get(upload.filename.rpartition(".")[2].lower(), said)


_BY_NAME = {
    "gif": "image/gif",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "png": "image/png",
    "webp": "image/webp",
}
