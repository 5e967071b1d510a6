"""A foreground response lives by its readers, and for a grace time without any."""

import anyio
import pytest

from limpet.responses.reader_leases import ReaderLeases

pytestmark = pytest.mark.anyio


class _Expiries:
    """The ids that expired, in order."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.news = anyio.Event()

    async def add(self, response_id: str) -> None:
        self.ids.append(response_id)
        self.news.set()
        self.news = anyio.Event()

    async def until(self, count: int) -> list[str]:
        with anyio.fail_after(5):
            while len(self.ids) < count:
                await self.news.wait()
        return self.ids


async def test_who_is_read_stays_and_who_was_left_expires() -> None:
    expiries = _Expiries()
    async with ReaderLeases(0.05, expired=expiries.add) as leases:
        leases.begin("read")
        leases.come("read")
        leases.come("read")
        leases.leave("read")  # one of two
        leases.begin("left")  # later, so that it expires later
        assert await expiries.until(1) == ["left"]
        leases.leave("read")
        assert await expiries.until(2) == ["left", "read"]


async def test_one_that_was_looked_at_gets_its_whole_time_again() -> None:
    expiries = _Expiries()
    async with ReaderLeases(0.1, expired=expiries.add) as leases:
        leases.begin("renewed")
        leases.begin("left")
        for _ in range(3):
            await anyio.sleep(0.02)
            leases.renew("renewed")
        assert await expiries.until(2) == ["left", "renewed"]


async def test_one_that_ended_never_expires() -> None:
    expiries = _Expiries()
    async with ReaderLeases(0.05, expired=expiries.add) as leases:
        leases.begin("ended")
        with leases.reading("ended"):
            leases.end("ended")
        leases.begin("left")
        assert await expiries.until(1) == ["left"]


async def test_a_reader_of_an_earlier_run_does_not_count_for_a_later_one() -> None:
    expiries = _Expiries()
    async with ReaderLeases(0.05, expired=expiries.add) as leases:
        leases.begin("again")
        with leases.reading("again"):
            leases.end("again")
            leases.begin("again")
            leases.come("again")
        leases.begin("left")
        assert await expiries.until(1) == ["left"]
