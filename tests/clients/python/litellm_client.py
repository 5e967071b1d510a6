"""Three turns of LiteLLM's Responses interface, with a history of its caller's: whole, and streamed."""

import json
import sys

import litellm

asked = json.loads(sys.argv[1])


def turns_of(streamed: bool) -> list:
    items: list = []
    turns = []
    for prompt in asked["prompts"]:
        items.append({"role": "user", "content": prompt})
        response = litellm.responses(
            model="openai/limpet/script",
            api_base=asked["url"],
            api_key="none needed",
            input=items,
            tools=[{"type": "shell", "environment": {"type": "container_auto"}}],
            stream=streamed,
        )
        if streamed:
            response = [event for event in response if event.type == "response.completed"][-1].response
        output = [item if isinstance(item, dict) else item.model_dump(exclude_none=True) for item in response.output]
        items += output
        texts = [part["text"] for item in output if item["type"] == "message" for part in item["content"]]
        turns.append("\n".join(texts))
    return turns


print(json.dumps([turns_of(False), turns_of(True)]))
