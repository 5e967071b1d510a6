"""Registers the mark by which a test names the promises that it proves."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "promise(id, ...): the promises of tests/wire/manifest that this test proves")
