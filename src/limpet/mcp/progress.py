"""A command's output as progress notifications, while it runs. Bounded: a client that reads slowly holds up no command."""

from collections.abc import Awaitable, Callable

import anyio

INTERVAL = 0.1  # seconds between two notifications
MOST = 4_096  # characters of one

Report = Callable[[float, str], Awaitable[None]]


class Progress:
    """What is taken goes out at most once in INTERVAL; of what comes faster than the client reads, the newest MOST characters.

    `report` gets the characters printed so far, left out ones too, which grow with every call, and the text since the last one.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._text = ""
        self._taken = 0
        self._left_out = 0
        self._something = anyio.Event()
        self._over = anyio.Event()

    def take(self, text: str) -> None:
        self._taken += len(text)
        text = self._text + text
        self._left_out += max(0, len(text) - MOST)
        self._text = text[-MOST:]
        self._something.set()

    def end(self) -> None:
        """Nothing more comes: `carry` reports the rest and returns."""
        self._over.set()
        self._something.set()

    async def carry(self) -> None:
        """Report, until `end`."""
        while not (self._over.is_set() and not self._text):
            await self._something.wait()
            self._something = anyio.Event()
            await self._tell()
            with anyio.move_on_after(INTERVAL):
                await self._over.wait()

    async def _tell(self) -> None:
        if not self._text:
            return
        message = f"… [{self._left_out} characters left out] …{self._text}" if self._left_out else self._text
        self._text, self._left_out = "", 0
        await self._report(float(self._taken), message)
