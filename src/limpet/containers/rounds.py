"""A periodic round over many containers: the failure of one does not stop the others."""

import logging
from collections.abc import Awaitable
from typing import TypeVar

from limpet.core.errors import LimpetError

log = logging.getLogger("limpet.containers")

T = TypeVar("T")


class Round:
    """Take each container's turn, then `end` the round."""

    def __init__(self) -> None:
        self._first: Exception | None = None

    async def turn(self, container_id: str, work: Awaitable[T]) -> T | None:
        """What the work gives; None where it failed."""
        try:
            return await work
        except Exception as error:
            if not isinstance(error, LimpetError | OSError):
                log.exception("What is due for the container %s failed.", container_id)
            self._first = self._first or error
            return None

    def end(self) -> None:
        """Raise the first thing that went wrong, if anything did."""
        if self._first is not None:
            raise self._first
