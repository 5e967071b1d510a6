"""Three turns of pydantic-ai with a message history of its own, which has no shell items in it: whole, and streamed.

By default it sends texts without ids, whose origin is unknown; with this setting the ids go along.
"""

import asyncio
import json
import sys

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIResponsesModel, OpenAIResponsesModelSettings
from pydantic_ai.providers.openai import OpenAIProvider

asked = json.loads(sys.argv[1])


async def turns_of(streamed: bool) -> list:
    provider = OpenAIProvider(base_url=asked["url"], api_key="none needed")
    shell = {"type": "shell", "environment": {"type": "container_auto"}}
    settings = OpenAIResponsesModelSettings(openai_native_tools=[shell], openai_send_reasoning_ids=True)
    agent = Agent(OpenAIResponsesModel("limpet/script", provider=provider), model_settings=settings)
    history: list = []
    turns = []
    for prompt in asked["prompts"]:
        if streamed:
            async with agent.run_stream(prompt, message_history=history) as result:
                turns.append(await result.get_output())
                history = result.all_messages()
        else:
            result = await agent.run(prompt, message_history=history)
            turns.append(result.output)
            history = result.all_messages()
    return turns


async def main() -> None:
    print(json.dumps([await turns_of(False), await turns_of(True)]))


asyncio.run(main())
