"""Three turns of openai-agents with its hosted shell and a session of its own: whole, and streamed."""

import asyncio
import json
import sys

from agents import Agent, RunConfig, Runner, SQLiteSession, set_tracing_disabled
from agents.models.openai_provider import OpenAIProvider
from agents.tool import ShellTool

asked = json.loads(sys.argv[1])


async def turns_of(streamed: bool) -> list:
    provider = OpenAIProvider(base_url=asked["url"], api_key="none needed", use_responses=True)
    shell = ShellTool(environment={"type": "container_auto"})
    agent = Agent(name="worker", model="limpet/script", tools=[shell])
    session = SQLiteSession("one")
    config = RunConfig(model_provider=provider)
    turns = []
    for prompt in asked["prompts"]:
        if streamed:
            result = Runner.run_streamed(agent, prompt, session=session, run_config=config)
            async for _ in result.stream_events():
                continue
        else:
            result = await Runner.run(agent, prompt, session=session, run_config=config)
        turns.append(result.final_output)
    return turns


async def main() -> None:
    set_tracing_disabled(True)
    print(json.dumps([await turns_of(False), await turns_of(True)]))


asyncio.run(main())
