"""Three turns of langchain-openai, which keeps the messages and drops the shell's items: whole, and streamed."""

import json
import sys

from langchain_openai import ChatOpenAI

asked = json.loads(sys.argv[1])
model = ChatOpenAI(
    model="limpet/script", base_url=asked["url"], api_key="none needed", use_responses_api=True, max_retries=0
).bind(tools=[{"type": "shell", "environment": {"type": "container_auto"}}])


def turns_of(streamed: bool) -> list:
    messages: list = []
    turns = []
    for prompt in asked["prompts"]:
        messages.append(("user", prompt))
        if streamed:
            answer = None
            for chunk in model.stream(messages):
                answer = chunk if answer is None else answer + chunk
        else:
            answer = model.invoke(messages)
        messages.append(answer)
        turns.append(answer.text if isinstance(answer.text, str) else answer.text())
    return turns


print(json.dumps([turns_of(False), turns_of(True)]))
