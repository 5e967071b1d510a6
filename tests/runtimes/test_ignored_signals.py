"""A command starts with no signal ignored, whatever started the program that owns its box ignored."""

import signal
from collections.abc import Iterator

import pytest

from limpet.workspace.opening import open_in
from tests.support.homes import home_apart
from tests.support.runtimes import opened

pytestmark = pytest.mark.anyio

LEFT_IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGTERM, signal.SIGUSR1)


@pytest.fixture
def as_under_nohup() -> Iterator[None]:
    before = {number: signal.signal(number, signal.SIG_IGN) for number in LEFT_IGNORED}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("name", ["bubblewrap", "local"])
async def test_a_command_ignores_no_signal(name: str, as_under_nohup: None) -> None:
    with home_apart() as home:
        async with opened(name, home) as runtime, open_in(runtime) as box:
            for command in ("grep SigIgn /proc/self/status", "exec -a x grep SigIgn /proc/self/status; :"):
                done = await box.run(command)  # the first shell was waiting, the second may be a new one
                assert done.stdout.split()[1].strip(b"0") == b"", done.stdout
