"""Links to ports: what a token is worth, and where."""

from typing import Any

from limpet.core.clock import MICROSECONDS
from limpet.server.preview_links import PreviewLinks, link_prefix
from tests.containers.turned import TurnedClock

_ID = "cntr_0123456789abcdef0123456789abcdef"


def _request(path: str) -> Any:
    return {"type": "http", "raw_path": path.encode(), "path": path}


def test_a_link_admits_its_tenant_to_its_port_until_it_expires() -> None:
    clock = TurnedClock()
    links = PreviewLinks(clock)
    expires_at = clock.now() // MICROSECONDS + 60
    path = links.path("a:b/ü", _ID, 3000, expires_at=expires_at)
    scope = _request(f"{path}x/y")

    caller = links.admit(scope)

    assert caller is not None
    assert (caller.tenant, caller.scopes) == ("a:b/ü", {"containers"})
    assert scope["raw_path"] == f"/v1/containers/{_ID}/ports/3000/x/y".encode()
    assert scope["path"] == f"/v1/containers/{_ID}/ports/3000/x/y"
    assert link_prefix(scope) == path.encode()
    clock.turn(60)
    assert links.admit(_request(path)) is None


def test_a_token_is_worth_nothing_elsewhere_or_changed_or_after_a_restart() -> None:
    clock = TurnedClock()
    links = PreviewLinks(clock)
    path = links.path("t", _ID, 3000, expires_at=clock.now() // MICROSECONDS + 60)
    claim, _, signature = path.rstrip("/").rpartition("~")[2].partition(".")
    changed = [
        path.replace("/3000/", "/3001/"),
        path.replace("/3000/", "/300/"),
        path.replace(_ID, _ID[:-1] + "0"),
        path.replace(claim, claim[:-1] + ("A" if claim[-1] != "A" else "B")),
        path.replace(signature, "0" * 64),
        path.replace(signature, signature.upper()),
        path.replace("~", "~~"),
        path.rstrip("/"),
        "/x" + path,
    ]

    assert [links.admit(_request(each)) for each in changed] == [None] * len(changed)
    assert PreviewLinks(clock).admit(_request(path)) is None
    assert links.admit(_request(path)) is not None
