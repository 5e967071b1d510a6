"""What people and models type every day passes, under each kind of policy."""

import pytest

from limpet.core.command import Command, Script
from limpet.guard.policy.bash.parser import Parser
from limpet.guard.policy.judge import Judge
from limpet.guard.policy.policy import Policy
from limpet.guard.policy.verdict import Allowed
from tests.guard.everyday import BY_DEFAULT, CONFINED, READONLY, TOOLS, UNDER_AN_ALLOWLIST

CASES = [
    *((Policy(allowed_commands=TOOLS), text) for text in UNDER_AN_ALLOWLIST),
    *((Policy(readonly=True), text) for text in READONLY),
    *((Policy(allowed_paths=()), text) for text in CONFINED),
    *((Policy(), text) for text in BY_DEFAULT),
]


@pytest.mark.anyio
async def test_an_everyday_command_passes(parser: Parser) -> None:
    for policy, text in CASES:
        assert await Judge(policy, parser=parser).judge(Command(what=Script(text))) == Allowed(), text
