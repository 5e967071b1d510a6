"""Three turns of Simon Willison's llm over the Responses API, with a tool of its own that keeps notes in a file."""

import json
import sys
from pathlib import Path

import llm

asked = json.loads(sys.argv[1])
notes = Path("notes.txt")


def note(text: str) -> str:
    """Adds a line to the notes and gives back all of them."""
    with notes.open("a") as file:
        file.write(f"{text}\n")
    return notes.read_text()


conversation = llm.get_model("chat-llm").conversation(tools=[note])
turns = []
for prompt in asked["prompts"]:
    chain = conversation.chain(prompt, stream=asked["streamed"])
    turns.append("".join(chain) if asked["streamed"] else chain.text())
print(json.dumps(turns))
