"""How many files this process may open. A gateway raises the limit, since every connection is one; commands get the old one."""

import resource

_usual = resource.getrlimit(resource.RLIMIT_NOFILE)


def raise_open_file_limit() -> None:
    """As many as this process may ever have."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def usual_open_file_limit() -> tuple[int, int]:
    """What this process was started with, soft and hard. Commands get it: many programs go through all descriptors that they might
    have, and select(2) knows 1,024."""
    return _usual


def open_file_limit() -> int:
    """How many files this process may open."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return soft if soft != resource.RLIM_INFINITY else 1 << 20
