"""How many files this process may open. A gateway raises the limit, since every connection is one; what it starts gets the old one."""

import resource

_usual = resource.getrlimit(resource.RLIMIT_NOFILE)


def raise_open_file_limit() -> None:
    """As many as this process may ever have."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def restore_open_file_limit(pid: int) -> None:
    """Give a process that this one started the limit that this one was started with: many programs go through all descriptors that
    they might have, and select(2) knows 1,024. Raises ProcessLookupError."""
    if resource.getrlimit(resource.RLIMIT_NOFILE) != _usual:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, _usual)


def open_file_limit() -> int:
    """How many files this process may open."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return soft if soft != resource.RLIM_INFINITY else 1 << 20
