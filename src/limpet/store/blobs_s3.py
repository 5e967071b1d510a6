"""Blobs as objects of a bucket that speaks S3. Credentials come from the settings or, as usual, from the environment."""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Self

import anyio
import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import S3Store

from limpet.core.errors import BlobMissing, PlaceUnusable, StoreError, StoreFailed
from limpet.core.secret import Secret
from limpet.store.blob_locations import Bucket, to_text
from limpet.store.blobs import BLOCK

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig, S3Config

# S3 takes parts of 5 MiB and more; what is smaller as a whole goes in one request.
PART = 8 * BLOCK
RETRIES = 3
RETRY_SECONDS = 20.0
ASKING = "limpet-is-this-bucket-usable"
# What servers that speak S3 say of themselves.
_ANSWER = re.compile(r"<Code>([^<]{1,100})</Code>.*?<Message>([^<]{1,300})</Message>", re.DOTALL)


class S3Blobs:
    """See `store.blobs.Blobs`. Opening it asks the bucket once, so that a wrong name or key is reported at the start.

    A process killed in mid-upload leaves an unfinished multipart upload, which is no object; the bucket's own rule for those
    (AbortIncompleteMultipartUpload) removes it.
    """

    def __init__(self, place: Bucket, *, access_key_id: Secret | None, secret_access_key: Secret | None) -> None:
        self._place = place
        self._access_key_id = access_key_id
        self._secret_access_key = secret_access_key
        self._bucket: S3Store | None = None

    async def __aenter__(self) -> Self:
        config: S3Config = {"bucket": self._place.bucket, "virtual_hosted_style_request": False}
        if self._place.endpoint is not None:
            config["endpoint"] = self._place.endpoint
        if self._place.region is not None:
            config["region"] = self._place.region
        if self._access_key_id is not None and self._secret_access_key is not None:
            config["access_key_id"] = self._access_key_id.reveal()
            config["secret_access_key"] = self._secret_access_key.reveal()
        client: ClientConfig = {"allow_http": (self._place.endpoint or "").startswith("http://")}
        retries: RetryConfig = {"max_retries": RETRIES, "retry_timeout": timedelta(seconds=RETRY_SECONDS)}
        try:
            self._bucket = S3Store(
                prefix=self._place.prefix or None, config=config, client_options=client, retry_config=retries
            )
            await self._ask()
        except (BaseError, ValueError) as error:
            remedy = "Look at bucket, region, endpoint and the keys (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)."
            raise PlaceUnusable(to_text(self._place), _first_line(error), remedy) from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bucket = None

    async def put(self, key: str, data: AsyncIterator[bytes]) -> None:
        beginning: list[bytes] = []
        async for block in data:
            beginning.append(block)
            if len(beginning) * BLOCK >= PART:
                break
        if len(beginning) * BLOCK < PART:
            with self._failures_translated(key):
                await obstore.put_async(self._open, key, b"".join(beginning), use_multipart=False)
            return
        source = _UploadSource(beginning, data)
        try:
            with self._failures_translated(key):
                # It breaks the upload off by itself when the source raises or the caller is cancelled.
                await obstore.put_async(self._open, key, source.blocks(), chunk_size=PART, max_concurrency=2)
        except StoreError:
            if source.failure is not None:
                raise source.failure from None  # not the bucket's doing
            raise

    async def read(self, key: str, *, start: int = 0, length: int | None = None) -> AsyncGenerator[bytes, None]:
        size = await self.size(key)
        if size is None:
            raise BlobMissing(key, to_text(self._place))
        end = size if length is None else min(size, start + length)
        if start >= end:
            return
        with self._failures_translated(key):
            found = await obstore.get_async(self._open, key, options={"range": (start, end)})
            pieces = found.stream(min_chunk_size=BLOCK)
        while True:
            with self._failures_translated(key):
                piece = await anext(pieces, None)
            if piece is None:
                return
            whole = memoryview(piece)
            for at in range(0, len(whole), BLOCK):
                yield bytes(whole[at : at + BLOCK])

    async def size(self, key: str) -> int | None:
        with self._failures_translated(key):
            try:
                return (await obstore.head_async(self._open, key))["size"]
            except FileNotFoundError:
                return None

    async def delete(self, key: str) -> None:
        with self._failures_translated(key):
            try:
                await obstore.delete_async(self._open, key)
            except FileNotFoundError:
                pass  # some servers say so

    @property
    def _open(self) -> S3Store:
        assert self._bucket is not None, "the bucket is not open"
        return self._bucket

    async def _ask(self) -> None:
        # A missing object and a missing bucket answer alike to HEAD; a listing tells them apart.
        stream = obstore.list(self._open, prefix=ASKING, chunk_size=1)
        with anyio.fail_after(RETRY_SECONDS * 2):
            async for _ in stream:
                break

    @contextmanager
    def _failures_translated(self, key: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise BlobMissing(key, to_text(self._place)) from error
        except (BaseError, OSError) as error:
            raise StoreFailed(
                f"{to_text(self._place)}: {_first_line(error)} Try again; see the bucket's own log."
            ) from error


class _UploadSource:
    """Blocks that were taken already, then the others. `failure` is what the others raised."""

    def __init__(self, beginning: list[bytes], rest: AsyncIterator[bytes]) -> None:
        self.failure: Exception | None = None
        self._beginning = beginning
        self._rest = rest

    async def blocks(self) -> AsyncGenerator[bytes, None]:
        while self._beginning:
            yield self._beginning.pop(0)
        try:
            async for block in self._rest:
                yield block
        except Exception as error:
            self.failure = error
            raise


def _first_line(error: BaseException) -> str:
    """What happened, without the library's own view of its insides."""
    if isinstance(error, PermissionDeniedError | UnauthenticatedError):
        return "the bucket refuses these credentials."
    text = str(error).partition("\n\nDebug source:")[0]
    if answer := _ANSWER.search(text):
        return f"{answer[2].rstrip('.')} ({answer[1]})."
    return " ".join(text.split())[:400].rstrip(".") + "."
