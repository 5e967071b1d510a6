"""What an operator may choose about fetching. Values only."""

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Annotated

from limpet.core.settings import MIB, Between, Positive
from limpet.egress.addresses import Network


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
        for index, text in enumerate(self.allowed_networks):
            try:
                ip_network(text)
            except ValueError:
                yield (
                    f"allowed_networks[{index}]",
                    f'"{text}" is not a network; write it as 10.1.0.0/16 or 2001:db8::/32, with no bits set behind the prefix',
                )
