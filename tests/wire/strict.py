"""The official client's own opinion, without a socket: values go through `openai` in strict-response-validation mode.

The client is the real one; only the wire under it is a transport that answers with the value in question. What strict mode
refuses raises AssertionError with the client's reasons. Start with `STRICT`, which is ready to use.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx2
import openai
from openai.types.container_list_response import ContainerListResponse
from openai.types.container_retrieve_response import ContainerRetrieveResponse
from openai.types.containers.file_retrieve_response import FileRetrieveResponse
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import ValidationError

from tests.wire.problems import demand

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Strict:
    """Parses wire values as an official client in strict mode does, and returns its typed objects."""

    def response(self, value: Mapping[str, Any]) -> Response:
        """A Response object."""
        with _answering(value) as client:
            return _refused_clearly(lambda: client.responses.retrieve("resp_1"))

    def events(self, values: Iterable[Mapping[str, Any]]) -> list[ResponseStreamEvent]:
        """A whole stream of events, framed as server-sent events with the closing `[DONE]`."""
        frames = [f"event: {value['type']}\ndata: {json.dumps(value)}\n\n" for value in values]
        body = "".join([*frames, "data: [DONE]\n\n"])
        with _answering_with(httpx2.Response(200, text=body, headers={"content-type": "text/event-stream"})) as client:
            return _refused_clearly(lambda: list(client.responses.create(model="m", input="i", stream=True)))

    def container(self, value: Mapping[str, Any]) -> ContainerRetrieveResponse:
        """A container."""
        with _answering(value) as client:
            return _refused_clearly(lambda: client.containers.retrieve("cntr_1"))

    def containers(self, page: Mapping[str, Any]) -> list[ContainerListResponse]:
        """The containers of one page."""
        with _answering(page) as client:
            return _refused_clearly(lambda: client.containers.list().data)

    def container_file(self, value: Mapping[str, Any]) -> FileRetrieveResponse:
        """A container file's metadata."""
        with _answering(value) as client:
            return _refused_clearly(lambda: client.containers.files.retrieve("cfile_1", container_id="cntr_1"))


STRICT = Strict()


def _answering(value: Mapping[str, Any]) -> openai.OpenAI:
    return _answering_with(httpx2.Response(200, json=value))


def _answering_with(response: httpx2.Response) -> openai.OpenAI:
    """A strict client whose every request is answered with `response`."""
    transport = httpx2.MockTransport(lambda request: response)
    return openai.OpenAI(
        api_key="none",
        base_url="http://127.0.0.1/v1",
        max_retries=0,
        http_client=httpx2.Client(transport=transport),
        _strict_response_validation=True,
    )


def _refused_clearly(ask: Callable[[], T]) -> T:
    try:
        return ask()
    except openai.APIResponseValidationError as refusal:
        demand(_reasons(refusal), "strict client")
        raise


def _reasons(refusal: openai.APIResponseValidationError) -> list[str]:
    cause = refusal.__cause__
    if not isinstance(cause, ValidationError):
        return [str(refusal)]
    errors = cause.errors()
    # A union reports every branch; those whose own `type` does not fit were never meant.
    elsewhere = [
        error["loc"][:-1] for error in errors if error["loc"][-1:] == ("type",) and error["type"] == "literal_error"
    ]
    meant = [error for error in errors if not any(error["loc"][: len(branch)] == branch for branch in elsewhere)]
    return [f"{'.'.join(str(part) for part in error['loc'])}: {error['msg']}" for error in meant or errors]
