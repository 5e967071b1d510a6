"""inspect_ai's own check of sandbox environments, asked of a box."""

import inspect
from collections.abc import AsyncIterator

import pytest
from inspect_ai.util._sandbox import self_check

from limpet.integrations.inspect_ai import WorkspaceSandbox
from limpet.wiring.inspect_ai import LimpetSandbox
from tests.support.users import again_as_an_ordinary_user

# What cannot hold, and why. A case that is listed and holds all the same fails.
GAPS = {
    "test_exec_as_user": "A box has one user without privileges, and commands in it can never make another.",
}
CASES = sorted(
    name for name, check in inspect.getmembers(self_check, inspect.iscoroutinefunction) if name in self_check.__all__
)


@pytest.fixture(scope="module")
async def sandbox() -> AsyncIterator[WorkspaceSandbox]:
    environments = await LimpetSandbox.sample_init("self_check", None, {})
    yield environments["default"].as_type(WorkspaceSandbox)
    await LimpetSandbox.sample_cleanup("self_check", None, environments, False)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.xfail(reason=GAPS[name], strict=True)) if name in GAPS else name
        for name in CASES
    ],
)
async def test_a_box_keeps_what_inspect_ai_expects(name: str, sandbox: WorkspaceSandbox) -> None:
    await getattr(self_check, name)(sandbox)


def test_at_most_two_of_the_44_cases_are_gaps() -> None:
    assert len(CASES) >= 44
    assert set(GAPS) <= set(CASES)
    assert len(CASES) - len(GAPS) >= 42


@pytest.mark.timeout(300)
def test_the_box_of_an_ordinary_user_keeps_it_too() -> None:
    # How a command's tree is killed for him is shown by tests/runtimes/bubblewrap/test_users.py, without waiting for 7 seconds.
    again_as_an_ordinary_user(__file__, "-k", "not timeout_kills")
