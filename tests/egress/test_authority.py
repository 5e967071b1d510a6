"""The authority of a box: what a client that trusts it takes from it. OpenSSL verifies."""

import ssl
from contextlib import suppress

import pytest

from limpet.egress.authority import Authority
from limpet.egress.host_patterns import HostPattern


def _verified(authority: Authority, host: str) -> None:
    """A handshake for that host with a client that trusts the authority. The names are not compared: what counts is what may be signed."""
    trust = ssl.create_default_context(cadata=authority.certificate.decode())
    trust.check_hostname = False
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trust.wrap_bio(to_client, to_server, server_hostname=host)
    server = authority.context_for(host).wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (client, server):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    assert client.version() is not None


def test_a_leaf_for_another_name_is_not_believed_though_the_authority_signed_it() -> None:
    authority = Authority.for_hosts([HostPattern("api.good.example")])
    _verified(authority, "api.good.example")
    for other in ("evil.example", "good.example", "xapi.good.example"):
        with pytest.raises(ssl.SSLCertVerificationError, match="permitted subtree violation"):
            _verified(authority, other)
