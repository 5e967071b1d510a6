"""What an operator may choose about fetching. Values only."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Annotated

from limpet.core.settings import MIB, Between, Positive
from limpet.egress.addresses import Network

MOST_PAUSE = 21_600.0  # seconds: six hours between two attempts, three days of them by default


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    """`[features.file_url]`: whether and how far files are fetched by URL, in bytes after decompression and seconds in all.
    `allowed_networks` are reachable beside the public internet."""

    enabled: bool = True
    max_bytes: Positive = 512 * MIB
    timeout_secs: Annotated[float, Between(0.1, 3600)] = 60.0
    allowed_networks: tuple[str, ...] = ()
    ports: Annotated[tuple[int, ...], Between(1, 65_535)] = (443,)

    def networks(self) -> tuple[Network, ...]:
        """The allowed networks. Raises ValueError for a text that is none."""
        return tuple(ip_network(text) for text in self.allowed_networks)

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """See `core.settings.Checked`."""
        yield from _wrong_networks(self.allowed_networks)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """`[features.webhooks]`: how events are delivered. A delivery is tried `max_attempts` times, the second time after `first_retry_secs`,
    later ones each after four times as long, at most MOST_PAUSE. `allowed_networks` are reachable beside the public internet."""

    timeout_secs: Annotated[float, Between(0.1, 120)] = 15.0
    max_attempts: Annotated[int, Between(1, 50)] = 15
    first_retry_secs: Annotated[float, Between(0.1, 3600)] = 5.0
    max_endpoints: Positive = 20
    allowed_networks: tuple[str, ...] = ()
    ports: Annotated[tuple[int, ...], Between(1, 65_535)] = (443,)

    def networks(self) -> tuple[Network, ...]:
        """The allowed networks. Raises ValueError for a text that is none."""
        return tuple(ip_network(text) for text in self.allowed_networks)

    def pause(self, attempts: int) -> float:
        """Seconds until the next one, after so many attempts."""
        return min(self.first_retry_secs * 4.0 ** min(attempts - 1, 20), MOST_PAUSE)

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """See `core.settings.Checked`."""
        yield from _wrong_networks(self.allowed_networks)


def _wrong_networks(networks: Sequence[str]) -> Iterator[tuple[str, str]]:
    for index, text in enumerate(networks):
        try:
            ip_network(text)
        except ValueError:
            yield (
                f"allowed_networks[{index}]",
                f'"{text}" is not a network; write it as 10.1.0.0/16 or 2001:db8::/32, with no bits set behind the prefix',
            )
