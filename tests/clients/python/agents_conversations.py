"""Three turns of openai-agents whose conversation the server keeps: by a session over its items, and by its id; whole, and
streamed."""

import asyncio
import json
import sys

from agents import Agent, OpenAIConversationsSession, RunConfig, Runner, set_tracing_disabled
from agents.models.openai_provider import OpenAIProvider
from agents.tool import ShellTool
from openai import AsyncOpenAI

asked = json.loads(sys.argv[1])


async def turns_of(by: str, streamed: bool) -> list:
    client = AsyncOpenAI(base_url=asked["url"], api_key="none needed", max_retries=0)
    provider = OpenAIProvider(openai_client=client, use_responses=True)
    agent = Agent(name="worker", model="limpet/script", tools=[ShellTool(environment={"type": "container_auto"})])
    config = RunConfig(model_provider=provider)
    if by == "session":
        session = OpenAIConversationsSession(openai_client=client)
        kept = {"session": session}
    else:
        kept = {"conversation_id": (await client.conversations.create()).id}
    turns = []
    for prompt in asked["prompts"]:
        if streamed:
            result = Runner.run_streamed(agent, prompt, run_config=config, **kept)
            async for _ in result.stream_events():
                continue
        else:
            result = await Runner.run(agent, prompt, run_config=config, **kept)
        turns.append(result.final_output)
    if by == "session":
        count = len(await session.get_items())
        await session.pop_item()
        assert len(await session.get_items()) == count - 1
        await session.clear_session()
    return turns


async def main() -> None:
    set_tracing_disabled(True)
    ways = [(by, streamed) for by in ("session", "conversation_id") for streamed in (False, True)]
    print(json.dumps([await turns_of(by, streamed) for by, streamed in ways]))


asyncio.run(main())
