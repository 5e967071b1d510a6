"""Three turns of openai-agents whose conversation the server keeps: by a session over its items, or by its id."""

import asyncio
import json
import sys

from agents import Agent, OpenAIConversationsSession, RunConfig, Runner, set_tracing_disabled
from agents.models.openai_provider import OpenAIProvider
from agents.tool import ShellTool
from openai import AsyncOpenAI

asked = json.loads(sys.argv[1])


async def main() -> None:
    set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=asked["url"], api_key="none needed", max_retries=0)
    provider = OpenAIProvider(openai_client=client, use_responses=True)
    agent = Agent(name="worker", model="limpet/script", tools=[ShellTool(environment={"type": "container_auto"})])
    config = RunConfig(model_provider=provider)
    if asked["by"] == "session":
        session = OpenAIConversationsSession(openai_client=client)
        kept = {"session": session}
    else:
        kept = {"conversation_id": (await client.conversations.create()).id}
    turns = []
    for prompt in asked["prompts"]:
        if asked["streamed"]:
            result = Runner.run_streamed(agent, prompt, run_config=config, **kept)
            async for _ in result.stream_events():
                continue
        else:
            result = await Runner.run(agent, prompt, run_config=config, **kept)
        turns.append(result.final_output)
    if asked["by"] == "session":
        count = len(await session.get_items())
        await session.pop_item()
        assert len(await session.get_items()) == count - 1
        await session.clear_session()
    print(json.dumps(turns))


asyncio.run(main())
