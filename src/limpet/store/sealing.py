"""Seals what may be in the database only sealed: authenticated encryption (AES-256-GCM, NIST SP 800-38D) with a key that is not there.

Each row has a key of its own, derived from the gateway's (HKDF, RFC 5869): what was sealed for one row opens in no other one.
"""

import hmac
import os
import secrets
from functools import cached_property
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from limpet.core.errors import HomeUnusable, LimpetError
from limpet.core.secret import Secret

KEY_FILE = "key"
_VERSION = b"\x01"
_NONCE = 12
_KEY = 32


class SealBroken(LimpetError):
    """What is sealed was changed, or was sealed with a key that is no longer there."""

    def __init__(self) -> None:
        super().__init__(
            "What is sealed in the database cannot be opened with this gateway's key. Give it the key that it was sealed with as "
            "server.secret_key_previous, or send the secrets again."
        )


class Sealer:
    """`key` is the operator's, None for the one in the file `key` of `home`, which is made when it is first needed. What was sealed
    with `previous` can still be opened. HomeUnusable where the file cannot be read or made."""

    def __init__(self, home: Path, *, key: Secret | None = None, previous: Secret | None = None) -> None:
        self._home = home
        self._own = key
        self._previous = previous

    def seal(self, plain: bytes, *, row: str) -> bytes:
        """Sealed for the row of that id."""
        nonce = os.urandom(_NONCE)
        return _VERSION + nonce + _cipher(self._key, row).encrypt(nonce, plain, _VERSION + row.encode())

    def unseal(self, sealed: bytes, *, row: str) -> bytes:
        """What was sealed for that row. Raises SealBroken."""
        nonce, rest = sealed[1 : 1 + _NONCE], sealed[1 + _NONCE :]
        if sealed[:1] != _VERSION or len(nonce) != _NONCE:
            raise SealBroken
        keys = [self._key] if self._previous is None else [self._key, self._previous.reveal().encode()]
        for key in keys:
            try:
                return _cipher(key, row).decrypt(nonce, rest, _VERSION + row.encode())
            except InvalidTag:
                continue
        raise SealBroken

    def digest(self, plain: bytes, *, row: str) -> str:
        """Tells whether two texts are the same. With the database alone a text cannot be guessed from it
        (HMAC-SHA-256, in hex)."""
        return hmac.digest(_derived(self._key, row), plain, "sha256").hex()

    def is_digest(self, digest: str, plain: bytes, *, row: str) -> bool:
        """Whether it is that of this text, by the key or by the previous one."""
        keys = [self._key] if self._previous is None else [self._key, self._previous.reveal().encode()]
        wanted = [hmac.digest(_derived(key, row), plain, "sha256").hex() for key in keys]
        return any(hmac.compare_digest(each.encode(), digest.encode()) for each in wanted)

    @cached_property
    def _key(self) -> bytes:
        return self._own.reveal().encode() if self._own else key_of_home(self._home)


def key_of_home(home: Path) -> bytes:
    """The key of this home, the same for as long as its file exists; made when it is first asked for. HomeUnusable."""
    file = home / KEY_FILE
    try:
        if not file.exists():
            fresh = home / f".{KEY_FILE}-{secrets.token_hex(8)}"
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(descriptor, "w") as writer:
                writer.write(f"{secrets.token_hex(_KEY)}\n")
                writer.flush()
                os.fsync(descriptor)
            try:
                os.link(fresh, file)  # the first one stays, however many make one at once
            except FileExistsError:
                pass
            finally:
                fresh.unlink()
        key = file.read_bytes().strip()
    except OSError as error:
        reason = f"{file}: {error.strerror}."
        raise HomeUnusable(home, reason, "Make it readable for this user, or set server.secret_key.") from error
    if len(key) < _KEY:
        raise HomeUnusable(home, f"{file} holds no key.", "Put back the one that was there, or remove the file.")
    return key


def _cipher(key: bytes, row: str) -> AESGCM:
    return AESGCM(_derived(key, row))


def _derived(key: bytes, row: str) -> bytes:
    return HKDF(algorithm=hashes.SHA256(), length=_KEY, salt=None, info=b"limpet row " + row.encode()).derive(key)
