"""Every known way around a list of allowed commands ends at the guard, and says which construct it was."""

from collections.abc import AsyncIterator

import pytest

from limpet.core.command import Command, Script
from limpet.guard.policy.bash.parser import Parser
from limpet.guard.policy.judge import Judge
from limpet.guard.policy.policy import Policy
from limpet.guard.policy.verdict import Denied
from tests.guard.bypasses import BYPASSES, READERS


@pytest.fixture(scope="module")
async def parser(anyio_backend: str) -> AsyncIterator[Parser]:
    async with Parser() as parser:
        yield parser


@pytest.mark.anyio
@pytest.mark.parametrize("text", BYPASSES)
async def test_no_way_around_the_allowed_commands_is_allowed(parser: Parser, text: str) -> None:
    verdict = await Judge(Policy(allowed_commands=READERS), parser=parser).judge(Command(what=Script(text)))

    assert isinstance(verdict, Denied)
    assert verdict.rule == "allowed_commands"
    assert verdict.reason.endswith(".")
    assert verdict.remedy.endswith(".")
