"""What most wire tests ask: let the built-in model run these commands, and read what came of each."""

from typing import Any

import openai
from openai.types.responses import Response

SHELL: list[Any] = [{"type": "shell"}]


def shell_blocks(*commands: str) -> str:
    """A prompt for the built-in model: one fenced block, hence one shell call, for each command."""
    return "\n".join(f"~~~~sh\n{command}\n~~~~" for command in commands)


def referring_to(container_id: str) -> list[Any]:
    """The shell tool in a container that there is."""
    return [{"type": "shell", "environment": {"type": "container_reference", "container_id": container_id}}]


def run(client: openai.OpenAI, *commands: str, container: str | None = None, **options: Any) -> Response:
    """A response in which each command is run by one shell call; it has ended, however that was."""
    tools = options.pop("tools", SHELL if container is None else referring_to(container))
    return client.responses.create(model="limpet/script", input=shell_blocks(*commands), tools=tools, **options)


def entries(response: Response) -> list[Any]:
    """Each command's stdout, stderr and outcome, in order."""
    return [entry for item in response.output if item.type == "shell_call_output" for entry in item.output]


def printed(response: Response) -> str:
    """What its only command wrote on stdout; it must have ended with 0."""
    (entry,) = entries(response)
    assert entry.outcome.type == "exit", entry
    assert entry.outcome.exit_code == 0, entry
    text: str = entry.stdout
    return text


def container_of(response: Response) -> str:
    """The container that the response names."""
    named: str = (response.model_extra or {})["container_id"]
    return named


def output_files(response: Response) -> list[dict[str, Any]]:
    """The files that its shell calls wrote."""
    items = [item for item in response.output if item.type == "shell_call_output"]
    return [file for item in items for file in (item.model_extra or {})["output_files"]]
