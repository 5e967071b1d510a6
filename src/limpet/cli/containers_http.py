"""Containers as a gateway's clients have them. Knows only the wire."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import msgspec

from limpet.cli.client import is_loopback, key_headers, refusal
from limpet.containers.network_objects import ContainerNetwork
from limpet.containers.wire_objects import Container, ContainerFile, ContainerPort, DeletedContainer
from limpet.core.errors import LimpetError
from limpet.core.resources import R, ResourcePage

TIMEOUT = httpx2.Timeout(10.0, read=60.0)
PAGE = 100
Json = dict[str, Any]


class GatewayFailed(LimpetError):
    """The gateway could not be asked, or refused."""


class GatewayPlace:
    """The containers of the tenant whose key LIMPET_API_KEY is, or of all who need none."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    @property
    def url(self) -> str:
        """Without a slash at its end."""
        return self._url

    def check_home(self, path: Path, own: str) -> None:
        """Whether the gateway there serves this home, whose id is `own`. GatewayFailed, with both named, where it serves another."""
        served = self._ask("GET", "/livez", Json).get("home")
        if served != own:
            raise GatewayFailed(
                f"The gateway at {self._url} serves another home ({served}), not {path} ({own}). Name the gateway that is meant with "
                "--url, or set LIMPET_HOME to its home."
            )

    def containers(self) -> list[Json]:
        """All of them, newest first. GatewayFailed."""
        return self._all("/v1/containers", Container)

    def remove(self, container_id: str) -> None:
        """With its box and its files. GatewayFailed, also where there is none."""
        self._ask("DELETE", f"/v1/containers/{_segment(container_id)}", DeletedContainer)

    def files(self, container_id: str) -> list[Json]:
        """All of a container's files, newest first. GatewayFailed."""
        return self._all(f"/v1/containers/{_segment(container_id)}/files", ContainerFile)

    def ports(self, container_id: str) -> list[int]:
        """The ports on which it listens. GatewayFailed."""
        page = self._ask("GET", f"/v1/containers/{_segment(container_id)}/ports", ResourcePage[ContainerPort])
        return [each["port"] for each in page["data"]]

    def network(self, container_id: str) -> Json:
        """What it has used of its network. GatewayFailed."""
        return self._ask("GET", f"/v1/containers/{_segment(container_id)}/network", ContainerNetwork)

    def fetch(self, container_id: str, file_id: str, write: Callable[[bytes], object]) -> None:
        """Hand on a file's bytes, in pieces. GatewayFailed."""
        path = f"/v1/containers/{_segment(container_id)}/files/{_segment(file_id)}/content"
        try:
            with self._client() as client, client.stream("GET", path) as response:
                if response.status_code != httpx2.codes.OK:
                    response.read()
                    raise GatewayFailed(refusal(response))
                for piece in response.iter_raw():
                    write(piece)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise self._failed(error) from error

    def _all(self, path: str, kind: type[R]) -> list[Json]:
        found: list[Json] = []
        after: dict[str, str] = {}
        while True:
            page = self._ask("GET", path, ResourcePage[kind], params={"limit": PAGE, **after})  # type: ignore[valid-type]  # a value
            found += page["data"]
            if not page["has_more"] or not page["data"]:
                return found
            after = {"after": page["last_id"]}

    def _ask(self, method: str, path: str, kind: Any, *, params: dict[str, str | int] | None = None) -> Json:
        """The answer as it came, which is of that kind: it may have keys that this version does not know."""
        try:
            with self._client() as client:
                response = client.request(method, path, params=params)
                if response.status_code != httpx2.codes.OK:
                    raise GatewayFailed(self._refusal(response))
                answer: Json = msgspec.json.decode(response.content)
                msgspec.convert(answer, kind)
                return answer
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise self._failed(error) from error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise GatewayFailed(
                f"What answers at {self._url} is no gateway of Limpet's: {error}. Name one with --url or LIMPET_URL."
            ) from error

    def _client(self) -> httpx2.Client:
        return httpx2.Client(
            base_url=self._url, timeout=TIMEOUT, trust_env=not is_loopback(self._url), headers=key_headers()
        )

    def _refusal(self, response: httpx2.Response) -> str:
        said = refusal(response)
        return f"{said} Send it in LIMPET_API_KEY." if response.status_code == httpx2.codes.UNAUTHORIZED else said

    def _failed(self, error: Exception) -> GatewayFailed:
        if isinstance(error, httpx2.ConnectError):
            return GatewayFailed(
                f"No gateway answers at {self._url}. Start it with `limpet serve`, or name its settings with --config."
            )
        return GatewayFailed(f"The answer of {self._url} broke off: {str(error) or type(error).__name__}. Ask again.")


def _segment(id: str) -> str:
    """An id as one segment of a URL path, percent-encoded whatever was typed."""
    return quote(id, safe="")
