"""The authorities that Java trusts: it reads no PEM, but stores of its own kind (JKS).

The format is that of `sun.security.provider.JavaKeyStore` in OpenJDK, which says it in its comments; every Java since 1.2 reads it, also
where its own stores are PKCS #12 (`keystore.type.compat`).
"""

import base64
import hashlib
import os
import re
import struct
from pathlib import Path

from limpet.core.network import JAVA_TRUST_FILE, TRUST_FILE

# Java says on its standard error that it has read this.
JAVA_ENVIRONMENT = {"JAVA_TOOL_OPTIONS": f"-Djavax.net.ssl.trustStore={JAVA_TRUST_FILE}"}
PASSWORD = "changeit"  # Java's own for what holds no secret
_MAGIC, _VERSION, _TRUSTED = 0xFEEDFEED, 2, 2
_WHITENER = b"Mighty Aphrodite"
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]+)-----END CERTIFICATE-----")


def write_java_trust(trust: Path, known: Path | None = None) -> None:
    """Let Java trust what a box's file of authorities does: below the same directory, which the box sees. `known` is a store with
    these, which is copied where it is there. Blocking; the box sees the old store or the new one. Raises OSError."""
    store = trust.parent / JAVA_TRUST_FILE.removeprefix(os.path.dirname(TRUST_FILE)).lstrip("/")
    store.parent.mkdir(exist_ok=True)
    store.parent.chmod(0o755)
    replacing = store.with_suffix(".new")
    content = known.read_bytes() if known is not None and known.exists() else java_store(trust.read_bytes())
    replacing.write_bytes(content)
    replacing.chmod(0o644)
    replacing.replace(store)


def java_store(bundle: bytes) -> bytes:
    """A store that trusts the certificates of a bundle in PEM; what is no base64 is left out."""
    certificates = list(filter(None, map(_decoded, _CERTIFICATE.findall(bundle))))
    parts = [struct.pack(">III", _MAGIC, _VERSION, len(certificates))]
    for number, certificate in enumerate(certificates):
        parts += [
            struct.pack(">I", _TRUSTED),
            _text(f"limpet:{number}"),
            struct.pack(">Q", 0),  # since when, in milliseconds
            _text("X.509"),
            struct.pack(">I", len(certificate)),
            certificate,
        ]
    store = b"".join(parts)
    return store + hashlib.sha1(PASSWORD.encode("utf-16-be") + _WHITENER + store, usedforsecurity=False).digest()


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def _decoded(text: bytes) -> bytes:
    try:
        return base64.b64decode(text)
    except ValueError:
        return b""
