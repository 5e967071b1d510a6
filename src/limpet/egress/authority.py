"""The certificate authority of one box: it can vouch for the hosts of the box's secrets and for no other name (RFC 5280, 4.2.1.10)."""

import os
import ssl
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from limpet.egress.host_patterns import HostPattern

LASTS = timedelta(days=30)
_EARLIER = timedelta(days=2)  # clocks differ
_LEAST_LEFT = timedelta(days=1)
_MOST_CONTEXTS = 256  # hosts whose certificates are kept; a box can think of as many as it likes
_MOST_NAME = 64  # characters of a common name (RFC 5280, A.1)
_OTHER_USES = (
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "encipher_only",
    "decipher_only",
)
_NO_USE = dict.fromkeys(_OTHER_USES, False)


class Authority:
    """Its key never leaves this process but in `stored`, to be sealed. `certificate` is in PEM, for the box to trust."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self._key = key
        self._certificate = certificate
        self._leaf_key = ec.generate_private_key(ec.SECP256R1())
        self._contexts: dict[str, ssl.SSLContext] = {}
        self.certificate = certificate.public_bytes(serialization.Encoding.PEM)

    @classmethod
    def for_hosts(cls, hosts: Sequence[HostPattern], *, before: "Authority | None" = None) -> Self:
        """A new one; with `before` of its key and name, so that a program which has read that one's certificate trusts it for the
        hosts that both are for."""
        key = ec.generate_private_key(ec.SECP256R1()) if before is None else before._key
        own_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"limpet box {os.urandom(8).hex()}")])
        name = own_name if before is None else before._certificate.subject
        everything = [x509.IPAddress(ip_network(text)) for text in ("0.0.0.0/0", "::/0")]
        names = [x509.DNSName(each) for each in sorted({pattern.name for pattern in hosts})]
        builder = _builder(name, name, key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(
            x509.KeyUsage(digital_signature=False, key_cert_sign=True, crl_sign=True, **_NO_USE), critical=True
        )
        builder = builder.add_extension(x509.NameConstraints(names, everything), critical=True)
        return cls(key, builder.sign(key, hashes.SHA256()))

    @classmethod
    def read(cls, stored: bytes) -> Self:
        """What `stored` gave, in this process or an earlier one. Raises ValueError."""
        key = serialization.load_pem_private_key(stored, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("not the key of an authority")
        return cls(key, x509.load_pem_x509_certificate(stored))

    def stored(self) -> bytes:
        """Key and certificate, in clear: to be sealed at once."""
        return _private(self._key) + self.certificate

    @property
    def is_fresh(self) -> bool:
        """Whether it lasts for a day at least."""
        return self._certificate.not_valid_after_utc - datetime.now(UTC) >= _LEAST_LEFT

    def vouches_for(self, hosts: Iterable[HostPattern]) -> bool:
        """Whether it is fresh and can vouch for all of these."""
        constraints = self._certificate.extensions.get_extension_for_class(x509.NameConstraints).value
        permitted = [each.value for each in constraints.permitted_subtrees or ()]
        return self.is_fresh and all(any(f".{host.name}".endswith(f".{name}") for name in permitted) for host in hosts)

    def context_for(self, host: str) -> ssl.SSLContext:
        """What answers a TLS client that wants that host; HTTP/1.1 only."""
        if host not in self._contexts:
            if len(self._contexts) >= _MOST_CONTEXTS:
                del self._contexts[next(iter(self._contexts))]
            self._contexts[host] = self._context(host)
        return self._contexts[host]

    def _context(self, host: str) -> ssl.SSLContext:
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host[:_MOST_NAME])])
        builder = _builder(subject, self._certificate.subject, self._leaf_key.public_key())
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(
            x509.KeyUsage(digital_signature=True, key_cert_sign=False, crl_sign=False, **_NO_USE), critical=True
        )
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        leaf = builder.add_extension(issuer, critical=False).sign(self._key, hashes.SHA256())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        # Python's ssl reads certificates from files only: this one is in memory and has no name.
        descriptor = os.memfd_create("leaf", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, leaf.public_bytes(serialization.Encoding.PEM) + _private(self._leaf_key))
            context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)
        return context


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + LASTS)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
