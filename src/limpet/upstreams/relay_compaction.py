"""`POST /responses/compact` of a Responses-native provider: a conversation goes out whole, and comes back as the provider compacts it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx2
import msgspec

from limpet.core.errors import UpstreamRefused
from limpet.upstreams.client import ProviderClient, close, reason_of
from limpet.upstreams.endpoints import Access, Endpoint
from limpet.upstreams.key_filter import KeyFilter, hide_key
from limpet.upstreams.refusals import refusal
from limpet.upstreams.relay_request import request_body
from limpet.upstreams.upstream import Turn

MOST_BYTES = 64 << 20  # of an answer
_JSON = {"accept": "application/json", "accept-encoding": "identity", "content-type": "application/json"}
_NOT_TAKEN = ("tools", "stream", "store", "include")  # of a turn's body


class RelayCompaction:
    """See `ProviderCompaction`. `client` gives the open client of the provider `name`."""

    def __init__(
        self, name: str, endpoint: Endpoint, *, native_shell: bool, client: Callable[[], ProviderClient | None]
    ) -> None:
        self._name = name
        self._endpoint = endpoint
        self._native_shell = native_shell
        self._client = client

    async def compact(self, turn: Turn) -> dict[str, Any]:
        """See `ProviderCompaction.compact`."""
        named = replace(turn, model=self._endpoint.model_name(turn.model))
        body = request_body(named, native_shell=self._native_shell, provider=self._name)
        for key in _NOT_TAKEN:
            del body[key]
        try:
            content = msgspec.json.encode(body)
        except UnicodeEncodeError as error:
            raise UpstreamRefused(
                self._name, 400, "the input has half of a surrogate pair. Send whole characters."
            ) from error
        access = await self._endpoint.access()
        status, answer = await self._answer(content, access)
        if not 200 <= status < 300:
            raise refusal(self._name, status, answer, access.secret)
        return self._read(answer, access)

    async def _answer(self, content: bytes, access: Access) -> tuple[int, bytes]:
        client = self._client()
        if client is None:
            raise RuntimeError("The upstream is used outside its `async with`.")
        base, mark, query = self._endpoint.responses.partition("?")
        url = f"{base}/compact{mark}{query}"
        request = client.build_request("POST", url, content=content, headers={**_JSON, **access.headers})
        try:
            response = await client.send(request, stream=True)
            body = bytearray()
            try:
                async for chunk in response.aiter_bytes():
                    body += chunk
                    if len(body) > MOST_BYTES:
                        raise UpstreamRefused(self._name, None, "its answer to /responses/compact is too large.")
            finally:
                await close(response)
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            said = hide_key(reason_of(error), access.secret)
            raise UpstreamRefused(self._name, None, f"it cannot be reached: {said}") from error
        return response.status_code, bytes(body)

    def _read(self, answer: bytes, access: Access) -> dict[str, Any]:
        try:
            given = msgspec.json.decode(answer)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            given = None
        output = given.get("output") if isinstance(given, dict) else None
        if not isinstance(output, list) or not all(
            isinstance(item, dict) and isinstance(item.get("type"), str) for item in output
        ):
            raise UpstreamRefused(self._name, None, "its answer to /responses/compact is not of the API's form.")
        if sum(item["type"] == "compaction" and isinstance(item.get("encrypted_content"), str) for item in output) != 1:
            raise UpstreamRefused(self._name, None, "its answer to /responses/compact has not exactly one compaction.")
        hidden: dict[str, Any] = KeyFilter(access.secret).hide(given)
        return hidden
