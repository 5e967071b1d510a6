"""Which names and addresses mean this machine itself."""

import re
from ipaddress import ip_address

# A name or an IPv4 address, or an IPv6 address in brackets, and a port; no user, path or fragment, which a URL may have.
_HOST = re.compile(r"([a-z0-9.-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?", re.IGNORECASE)


def is_loopback(host: str) -> bool:
    """Whether a name, or an address without brackets, is this machine. Of names only localhost: another may lead anywhere."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def is_loopback_host(header: str) -> bool:
    """Whether a Host header names this machine."""
    found = _HOST.fullmatch(header)
    return found is not None and is_loopback(found[1].strip("[]"))
