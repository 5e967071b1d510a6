"""How commands call a gateway: with which key, how its errors are shown, and without a proxy for this machine itself."""

import os

import httpx2

from limpet.core import loopback


def key_headers() -> dict[str, str]:
    """The caller's key, where the gateway asks for one."""
    key = os.environ.get("LIMPET_API_KEY")
    return {"authorization": f"Bearer {key}"} if key else {}


def refusal(response: httpx2.Response) -> str:
    """Why it was refused, in the gateway's words. The response has been read."""
    try:
        return str(response.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"{response.url} answered with status {response.status_code}, and not as a gateway of limpet does."


def is_loopback(url: str) -> bool:
    """A gateway on this machine is never asked through a proxy."""
    return loopback.is_loopback(httpx2.URL(url).host)
