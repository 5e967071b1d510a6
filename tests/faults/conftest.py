"""Gateways that are killed, stopped and started again on one home."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gateway import Gateway, lasting


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    """One of the test's own, whose boxes outlive it until the test ends. The runtime is the default: only its boxes can."""
    with lasting(tmp_path) as gateway:
        yield gateway


@pytest.fixture
def every_event(request: pytest.FixtureRequest) -> bool:
    """Whether the gateway is to be killed at each event in turn, which takes minutes."""
    return bool(request.config.getoption("--faults"))
