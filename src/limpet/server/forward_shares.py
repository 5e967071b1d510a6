"""How many requests may be on their way to other gateways at once: in all, and of each tenant, so that none uses up what all share."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from limpet.core.errors import Overloaded

MOST_OPEN = 1024  # connections to other gateways
MOST_OF_TENANT = MOST_OPEN // 4


class ForwardsExhausted(Overloaded):
    """As many requests as may be are on their way to other gateways; `of_tenant` says that they are one tenant's."""

    def __init__(self, *, of_tenant: bool) -> None:
        most, whose = (MOST_OF_TENANT, "of your requests") if of_tenant else (MOST_OPEN, "requests")
        super().__init__(
            f"{most} {whose} are on their way to other gateways, as many as may be at once. Try again when some are done.",
            code="too_many_forwarded_of_tenant" if of_tenant else "too_many_forwarded",
        )


class ForwardShares:
    """Counts the requests of each tenant that are on their way."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

    @contextmanager
    def held(self, tenant: str) -> Iterator[None]:
        """One more, while the block runs. Raises ForwardsExhausted."""
        if self._open[tenant] >= MOST_OF_TENANT:
            raise ForwardsExhausted(of_tenant=True)
        if self._open.total() >= MOST_OPEN:
            raise ForwardsExhausted(of_tenant=False)
        self._open[tenant] += 1
        try:
            yield
        finally:
            self._open[tenant] -= 1
            if not self._open[tenant]:
                del self._open[tenant]
