"""Commands that need a person's yes: the client's user is asked, by either era's way; without a way they are denied."""

from typing import Any

import pytest
from mcp.types import ElicitResult

from tests.mcp.conftest import Connect, text_of

pytestmark = pytest.mark.anyio

DESTRUCTIVE = {"command": "rm -rf build", "description": "Clean up"}


class User:
    """Answers questions, and keeps them."""

    def __init__(self, *answers: ElicitResult) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, context: Any, params: Any) -> ElicitResult:
        self.asked.append(params.message)
        return self._answers.pop(0)


YES = ElicitResult(action="accept", content={"run": True})


@pytest.mark.parametrize("tool", ["Bash", "workspace__box__run"])
async def test_what_destroys_runs_after_a_yes_which_holds_for_the_same_command(client_of: Connect, tool: str) -> None:
    arguments = {"command": DESTRUCTIVE["command"]}
    user = User(YES)
    async with client_of("--confirm-destructive", elicitation_callback=user) as client:
        await client.call_tool(tool, {"command": "mkdir build"})
        first = await client.call_tool(tool, arguments)
        again = await client.call_tool(tool, arguments)
        seen = await client.call_tool(tool, {"command": "ls"})
    assert [result.is_error for result in (first, again)] == [False, False]
    assert seen.structured_content["stdout"] == ""
    (question,) = user.asked
    assert "rm -rf build" in question


@pytest.mark.parametrize(
    "answer",
    [
        ElicitResult(action="decline"),
        ElicitResult(action="cancel"),
        ElicitResult(action="accept", content={"run": False}),
        ElicitResult(action="accept"),
    ],
    ids=["decline", "cancel", "accept but no", "accept without a word"],
)
async def test_anything_but_a_yes_is_a_no(stdio: Connect, answer: ElicitResult) -> None:
    for mode in ("auto", "legacy"):
        user = User(answer)
        async with stdio("--confirm-destructive", mode=mode, elicitation_callback=user) as client:
            await client.call_tool("Bash", {"command": "mkdir -p build"})
            denied = await client.call_tool("Bash", DESTRUCTIVE)
            seen = await client.call_tool("Bash", {"command": "ls"})
        assert (denied.is_error, denied.structured_content["error"]["rule"]) == (True, "confirm_destructive")
        assert "did not approve" in text_of(denied)
        assert seen.structured_content["stdout"] == "build\n"
        assert len(user.asked) == 1


async def test_a_yes_is_for_that_command_alone(stdio: Connect) -> None:
    for mode in ("auto", "legacy"):
        user = User(YES, ElicitResult(action="decline"))
        async with stdio("--confirm-destructive", mode=mode, elicitation_callback=user) as client:
            await client.call_tool("Bash", DESTRUCTIVE)
            other = await client.call_tool("Bash", {"command": "rm -rf build /mnt/data/other"})
        assert (other.is_error, len(user.asked)) == (True, 2)


async def test_a_client_that_cannot_ask_gets_a_denial_that_says_so(client_of: Connect) -> None:
    async with client_of("--confirm-destructive") as client:
        denied = await client.call_tool("Bash", DESTRUCTIVE)
        harmless = await client.call_tool("Bash", {"command": "ls"})
    assert (denied.is_error, "no way to ask" in text_of(denied)) == (True, True)
    assert not harmless.is_error
