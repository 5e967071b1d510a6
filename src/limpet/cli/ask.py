"""`limpet ask`: one streamed request through the gateway's HTTP API. A client like any other: knows only the wire."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx2

from limpet.cli.client import is_loopback, key_headers, refusal
from limpet.cli.terminal import Screen
from limpet.core import events as ev
from limpet.core import exit_codes
from limpet.core.errors import LimpetError

# The gateway sends a comment every 15 s; four missing ones mean that it is gone.
TIMEOUT = httpx2.Timeout(10.0, read=60.0)
CANCEL_SECONDS = 10.0

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked. `prompt` "-" stands for standard input; `container` and `previous` are ids."""

    prompt: str
    model: str
    container: str | None = None
    previous: str | None = None

    def body(self) -> Json:
        tool: Json = {"type": "shell"}
        if self.container:
            tool["environment"] = {"type": "container_reference", "container_id": self.container}
        body: Json = {"model": self.model, "input": self.prompt, "tools": [tool], "stream": True}
        if self.previous:
            body["previous_response_id"] = self.previous
        return body


class AskFailed(LimpetError):
    """The gateway could not be asked, or refused."""


def ask(question: Question, *, url: str) -> int:
    """Show the answer while it comes. Returns the exit code of the last command, 0 where there was none, 1 where the response
    failed. Raises AskFailed."""
    if question.prompt == "-":
        question = Question(
            prompt=sys.stdin.read(), model=question.model, container=question.container, previous=question.previous
        )
    answer = Answer(Screen())
    try:
        for event in _events(question.body(), url.rstrip("/")):
            answer.take(event)
    except httpx2.ConnectError as error:
        raise AskFailed(
            f"No gateway answers at {url}. Start it with `./dev up`, or name another with --url."
        ) from error
    except (httpx2.HTTPError, httpx2.InvalidURL, json.JSONDecodeError) as error:
        raise AskFailed(
            f"The answer of {url} broke off: {str(error) or type(error).__name__}. {answer.how_to_find_it}"
        ) from error
    except KeyboardInterrupt:
        # Once cancels, a second time leaves.
        try:
            answer.cancel(url.rstrip("/"))
        except KeyboardInterrupt:
            answer.interrupted()
        raise
    return answer.finish()


def start_box(container: str, *, url: str) -> None:
    """Have the gateway at `url` run nothing in a container, so that its box is there. Blocking. Raises AskFailed."""
    question = Question(prompt="```sh\n:\n```", model="limpet/script", container=container)
    response: Json = {}
    try:
        for event in _events({**question.body(), "store": False}, url.rstrip("/")):
            response = event.get("response", response)
    except (httpx2.HTTPError, httpx2.InvalidURL, json.JSONDecodeError) as error:
        raise AskFailed(f"No gateway answers at {url}.") from error
    if response.get("status") != "completed":
        raise AskFailed(
            f"{url} did not run a command: {(response.get('error') or {}).get('message', 'no reason given')}"
        )


def _events(body: Json, url: str) -> Iterator[Json]:
    with (
        httpx2.Client(timeout=TIMEOUT, trust_env=not is_loopback(url), headers=key_headers()) as client,
        client.stream("POST", f"{url}/v1/responses", json=body) as response,
    ):
        if response.status_code != httpx2.codes.OK:
            response.read()
            raise AskFailed(refusal(response))
        for line in response.iter_lines():
            if line.startswith("data:") and line != "data: [DONE]":
                yield json.loads(line.removeprefix("data:"))


@dataclass(slots=True)
class Answer:
    """What has come so far, and how it is shown."""

    screen: Screen
    response: Json = field(default_factory=dict)
    code: int = 0
    _streamed: set[tuple[int, int, str]] = field(default_factory=set)

    @property
    def how_to_find_it(self) -> str:
        """Where the response can still be read; it goes on without us."""
        if "id" not in self.response:
            return "Ask again."
        return f"It goes on in the gateway: GET /v1/responses/{self.response['id']}"

    def take(self, event: Json) -> None:
        """Show one event of the stream."""
        match event.get("type"):
            case ev.TEXT_DELTA | ev.REFUSAL_DELTA:
                self.screen.say(event["delta"])
            case ev.COMMAND_DONE:
                self.screen.command(event["command"])
            case ev.OUTPUT_DELTA:
                for stream, text in event["delta"].items():
                    self._streamed.add((event["output_index"], event["command_index"], stream))
                    self.screen.output(stream, text)
            case ev.OUTPUT_DONE:
                self._end_command(event)
            case ev.CREATED | ev.COMPLETED | ev.FAILED | ev.INCOMPLETE:
                self.response = event["response"]
            case "error":
                self.response = {**self.response, "status": "failed", "error": event}

    def _end_command(self, event: Json) -> None:
        """Output that was not streamed (`stream_output = false`) comes whole."""
        for entry in event["output"]:
            for stream in ("stdout", "stderr"):
                if (event["output_index"], event["command_index"], stream) not in self._streamed:
                    self.screen.output(stream, entry[stream])
            outcome = entry["outcome"]
            self.code = outcome["exit_code"] if outcome["type"] == "exit" else exit_codes.TIMED_OUT

    def cancel(self, url: str) -> None:
        """End the response in the gateway, with the command that runs."""
        if "id" not in self.response:
            self.screen.note(
                "The gateway had not begun to answer. It cancels what it has begun, since no client reads it."
            )
            return
        try:
            httpx2.post(
                f"{url}/v1/responses/{self.response['id']}/cancel",
                headers=key_headers(),
                timeout=CANCEL_SECONDS,
                trust_env=not is_loopback(url),
            ).raise_for_status()
        except httpx2.HTTPError:
            self.interrupted()
        else:
            self.screen.note("The response was cancelled; what it had done is kept.")

    def interrupted(self) -> None:
        self.screen.note(self.how_to_find_it)

    def finish(self) -> int:
        """Close the screen and return the exit code."""
        self.screen.end()
        match self.response.get("status"):
            case "completed":
                self.screen.hint(self._going_on())
                return self.code
            case "incomplete":
                reason = (self.response.get("incomplete_details") or {}).get("reason", "unknown")
                self.screen.note(f"The response ended early: {reason}.")
            case "failed":
                error = self.response.get("error") or {}
                self.screen.note(f"The response failed: {error.get('message', 'no reason was given')}")
            case _:
                self.screen.note(f"The stream ended before the response did. {self.how_to_find_it}")
        return 1

    def _going_on(self) -> str:
        return f"go on with: limpet ask --previous {self.response['id']} …"
