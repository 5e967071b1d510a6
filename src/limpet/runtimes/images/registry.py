"""Brings an image from a registry, by skopeo: it knows the protocol, credentials, mirrors and certificates (docs/images.md).

Which registry a name means, its mirrors and who may sign are the host's settings (containers-registries.conf(5), policy.json(5));
credentials are the usual file's (containers-auth.json(5), or docker's).
"""

import os
import re
import shutil
import subprocess
from collections.abc import Collection
from pathlib import Path

import anyio

from limpet.core.image_errors import ImageUnusable

PROGRAM = "skopeo"
REMEDY = "apt-get install skopeo"
PULLED_WITHIN = 1800.0  # seconds
_NAME = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(:[0-9]+)?(/[A-Za-z0-9][A-Za-z0-9._-]*)*(:[A-Za-z0-9_][A-Za-z0-9._-]*)?(@sha256:[0-9a-f]{64})?"
)
_LONGEST = 512
_SAID = re.compile(r'level=fatal msg="((?:[^"\\]|\\.)*)"')
# Where it finds credentials, proxies, certificates and its own settings; nothing else of the environment is its business.
_PASSED = frozenset(
    "PATH HOME XDG_RUNTIME_DIR XDG_CONFIG_HOME REGISTRY_AUTH_FILE DOCKER_CONFIG SSL_CERT_FILE SSL_CERT_DIR CONTAINERS_REGISTRIES_CONF"
    " HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy".split()
)


def is_reference(name: str) -> bool:
    """Whether it is written as names of images in registries are."""
    return len(name) <= _LONGEST and _NAME.fullmatch(name) is not None


def missing() -> str | None:
    """Why nothing can be pulled here; None where it can."""
    return None if shutil.which(PROGRAM) else f"{PROGRAM} is not installed, so no image can be pulled: {REMEDY}"


async def pull(name: str, directory: Path, *, plain_http: Collection[str] = (), within: float = PULLED_WITHIN) -> None:
    """Copy the image for this machine into a new directory, as it is: `manifest.json`, and its parts by their digests' digits. So its
    digest stays what its registry says; an OCI layout would have its layers compressed and its manifest converted. `plain_http` are the
    registries that may be asked without TLS.

    Raises ImageUnusable in skopeo's words; cancelled, skopeo is ended. What it wrote is the caller's to remove.
    """
    if not is_reference(name):
        raise ImageUnusable("it is neither a file or directory here nor the name of an image in a registry", image=name)
    if (reason := missing()) is not None:
        raise ImageUnusable(reason, image=name)
    registry = name.partition("/")[0]
    words = [PROGRAM, "copy", "--override-os", "linux"]
    if registry in plain_http:
        words.append("--src-tls-verify=false")
    # Of a name with a tag and a digest the digest decides, and skopeo takes no other.
    named = re.sub(r":[^:/@]+@", "@", name)
    environment = {key: value for key, value in os.environ.items() if key in _PASSED} | {
        "TMPDIR": str(directory.parent)
    }
    try:
        with anyio.fail_after(within):
            done = await anyio.run_process(
                [*words, f"docker://{named}", f"dir:{directory}"],
                check=False,
                stdin=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
    except TimeoutError:
        raise ImageUnusable(f"its registry did not give it within {within:g} s", image=name) from None
    if done.returncode != 0:
        raise ImageUnusable(_explained(done.stderr.decode(errors="replace"), registry), image=name)


def _explained(said: str, registry: str) -> str:
    found = _SAID.findall(said)
    words = str(found[-1]).replace('\\"', '"') if found else said.strip()[-500:] or "skopeo failed"
    if "server gave HTTP response to HTTPS client" in words or "does not look like a TLS handshake" in words:
        words += f'; it speaks plain HTTP, which must be allowed by name: features.shell.plain_http_registries = ["{registry}"]'
    elif "unauthorized" in words or "authentication required" in words:
        words += f"; log in with: skopeo login {registry}"
    elif "policy.json" in words:
        words += "; apt-get install golang-github-containers-common"
    return words.rstrip(".")[-1000:]
