"""The certificate authority of one box: it can vouch for the hosts of the box's secrets and for no other name (RFC 5280, 4.2.1.10)."""

import os
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from limpet.egress.host_patterns import HostPattern

LASTS = timedelta(days=30)
_EARLIER = timedelta(days=2)  # clocks differ
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
    """Its key never leaves this process. `certificate` is in PEM, for the box to trust."""

    def __init__(self, hosts: Sequence[HostPattern]) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._leaf_key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"limpet box {os.urandom(8).hex()}")])
        self._contexts: dict[str, ssl.SSLContext] = {}
        everything = [x509.IPAddress(ip_network(text)) for text in ("0.0.0.0/0", "::/0")]
        names = [x509.DNSName(pattern.name) for pattern in hosts]
        builder = self._builder(self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(
            x509.KeyUsage(digital_signature=False, key_cert_sign=True, crl_sign=True, **_NO_USE), critical=True
        )
        builder = builder.add_extension(x509.NameConstraints(names, everything), critical=True)
        self.certificate = builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _EARLIER)
            .not_valid_after(now + LASTS)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        )

    def context_for(self, host: str) -> ssl.SSLContext:
        """What answers a TLS client that wants that host; HTTP/1.1 only."""
        if host not in self._contexts:
            if len(self._contexts) >= _MOST_CONTEXTS:
                del self._contexts[next(iter(self._contexts))]
            self._contexts[host] = self._context(host)
        return self._contexts[host]

    def _context(self, host: str) -> ssl.SSLContext:
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host[:_MOST_NAME])])
        builder = self._builder(subject, self._leaf_key.public_key())
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(
            x509.KeyUsage(digital_signature=True, key_cert_sign=False, crl_sign=False, **_NO_USE), critical=True
        )
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        leaf = builder.add_extension(issuer, critical=False).sign(self._key, hashes.SHA256())
        private = self._leaf_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        # Python's ssl reads certificates from files only: this one is in memory and has no name.
        descriptor = os.memfd_create("leaf", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, leaf.public_bytes(serialization.Encoding.PEM) + private)
            context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)
        return context
