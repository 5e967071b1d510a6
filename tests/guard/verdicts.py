"""The verdict on a script under a policy, by nothing but the policy and a parser."""

from limpet.core.command import Command, Script
from limpet.guard.policy.bash.parser import Parser
from limpet.guard.policy.judge import Judge
from limpet.guard.policy.policy import Policy
from limpet.guard.policy.verdict import Verdict


async def verdict(parser: Parser, text: str, policy: Policy) -> Verdict:
    return await Judge(policy, parser=parser).judge(Command(what=Script(text)))
