"""Other people's frameworks: each file turns a workspace or tools into what one of them takes, and decides nothing itself."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def extra(name: str, package: str) -> Iterator[None]:
    """Around the import of a framework: ModuleNotFoundError with what to install where it isn't there."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != package:
            raise
        raise ModuleNotFoundError(
            f'{package} is not installed, and limpet.integrations needs it here: pip install "limpet[{name}]"',
            name=package,
        ) from missing
