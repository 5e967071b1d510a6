"""`/openapi.json`: a sound document that says what is served, all of it and nothing else."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import openai
import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from starlette.routing import Route

from limpet.core import events as ev
from limpet.responses.event_payloads import PAYLOADS
from limpet.runtimes.memory import MemoryRuntime
from limpet.server.gateway import GatewaySettings, opened
from limpet.server.openapi import document
from limpet.server.openapi_schemas import ANSWERED
from limpet.store.home import prepare_home
from tests.support.gateway import Gateway, running
from tests.wire.asking import SHELL, container_of, run, shell_blocks
from tests.wire.streams import asking
from tests.wire.test_skills import bundle, zipped

METHODS = ("get", "post", "put", "patch", "delete")


@pytest.fixture(scope="module")
def served(gateway: Gateway) -> Any:
    with gateway.http() as http:
        answer = http.get("/openapi.json")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    return answer.json()


def operations(document: Any) -> Iterator[tuple[str, str, Any]]:
    for address, methods in document["paths"].items():
        for method in METHODS:
            if method in methods:
                yield method.upper(), address, methods[method]


@pytest.mark.parametrize("has_keys", [False, True])
def test_the_document_is_valid_openapi(has_keys: bool) -> None:
    validate(document(has_keys=has_keys))


@pytest.mark.anyio
async def test_every_route_is_in_the_document_and_every_address_of_it_is_served(tmp_path: Path) -> None:
    prepare_home(tmp_path / "home")
    settings = GatewaySettings(home=tmp_path / "home")
    async with opened(settings, runtime=MemoryRuntime(), providers=[]) as gateway:
        routes = {
            (method, route.path.replace(":path}", "}"))
            for route in gateway.app.routes  # type: ignore[attr-defined]  # Starlette's application
            if isinstance(route, Route)
            for method in route.methods or ()
            if method != "HEAD"
        }

    assert {(method, address) for method, address, _ in operations(document(has_keys=False))} == routes


def test_names_of_operations_stand_once_and_every_schema_is_used(served: Any) -> None:
    names = [operation["operationId"] for _, _, operation in operations(served)]
    assert sorted(set(names)) == sorted(names)
    assert {f"#/components/schemas/{name}" for name in served["components"]["schemas"]} == set(references(served))


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for each in value.values():
            yield from references(each)
    elif isinstance(value, list):
        for each in value:
            yield from references(each)


STRUCTS = {kind.__name__: kind for kind in ANSWERED}


def checked(served: Any, name: str, answer: httpx2.Response) -> None:
    """The answer fits its schema, and its struct reads it and writes the same."""
    if name in STRUCTS:
        again = msgspec.json.encode(msgspec.json.decode(answer.content, type=STRUCTS[name]))
        assert msgspec.json.decode(again) == answer.json()
    fits(served, name, answer.json())


def fits(served: Any, name: str, value: Any) -> None:
    schema = {"$ref": f"#/components/schemas/{name}", "components": served["components"]}
    assert [error.message for error in Draft202012Validator(schema).iter_errors(value)] == []


def test_what_is_answered_fits_its_schema(served: Any, gateway: Gateway, client: openai.OpenAI) -> None:
    response = run(client, "echo x > f; exit 3")
    container = container_of(response)
    upload = client.files.create(
        file=("a", b"x"), purpose="user_data", expires_after={"anchor": "created_at", "seconds": 3600}
    )
    skill = client.skills.create(files=("s.zip", zipped(bundle()), "application/zip"))
    (file,) = client.containers.files.list(container).data
    asked = {
        f"/v1/responses/{response.id}": "Response",
        "/v1/containers": "ContainerList",
        f"/v1/containers/{container}": "Container",
        f"/v1/containers/{container}/files": "ContainerFileList",
        f"/v1/containers/{container}/files/{file.id}": "ContainerFile",
        "/v1/files": "FileList",
        f"/v1/files/{upload.id}": "File",
        "/v1/skills": "SkillList",
        f"/v1/skills/{skill.id}": "Skill",
        f"/v1/skills/{skill.id}/versions": "SkillVersionList",
        f"/v1/skills/{skill.id}/versions/1": "SkillVersion",
        "/v1/models": "ModelList",
        "/v1/models/limpet/script": "Model",
        "/livez": "Alive",
        "/healthz": "GatewayHealth",
        "/v1/files/none": "ErrorAnswer",
    }
    with gateway.http() as http:
        for address, name in asked.items():
            checked(served, name, http.get(address))
        for address, name in (
            (f"/v1/containers/{container}/files/{file.id}", "DeletedContainerFile"),
            (f"/v1/containers/{container}", "DeletedContainer"),
            (f"/v1/files/{upload.id}", "DeletedFile"),
            (f"/v1/skills/{skill.id}", "DeletedSkill"),
            (f"/v1/responses/{response.id}", "DeletedResponse"),
        ):
            checked(served, name, http.delete(address))


def test_every_event_of_a_stream_is_described(served: Any, gateway: Gateway) -> None:
    kinds = {value for name, value in vars(ev).items() if name.isupper() and isinstance(value, str)}
    with asking(gateway, model="limpet/script", input=shell_blocks("echo x > f; exit 3"), tools=SHELL) as stream:
        told = stream.rest()

    assert set(PAYLOADS) == kinds
    assert len({event["type"] for event in told}) >= 13
    for event in told:
        fits(served, "".join(map(str.capitalize, re.split("[._]", event["type"]))) + "Event", event)
        fits(served, "ResponseStreamEvent", event)


def test_what_the_seed_and_the_official_client_send_fits_the_schema_of_requests(served: Any) -> None:
    tool = {"type": "shell", "environment": {"type": "container_auto", "memory_limit": "1g", "file_ids": ["file-1"]}}
    message = {
        "role": "user",
        "content": [{"type": "input_text", "text": "hi"}, {"type": "input_file", "file_id": "f"}],
    }
    fits(served, "CreateRequest", {"model": "limpet/script", "input": [message], "tools": [tool], "stream": True})
    skill = {"type": "skill_reference", "skill_id": "skill_1", "version": "latest"}
    expiry = {"anchor": "last_active_at", "minutes": 60}
    fits(served, "CreateContainer", {"name": "w", "memory_limit": "1g", "expires_after": expiry, "skills": [skill]})


def test_with_keys_the_document_says_so_and_is_open_like_the_health_of_the_gateway(tmp_path: Path) -> None:
    with running(tmp_path, runtime="memory", config='[auth]\nmode = "keys"\n') as gateway, gateway.http() as http:
        shown = http.get("/openapi.json").json()
        opened = {address for method, address, operation in operations(shown) if operation.get("security") == []}

        assert shown["security"] == [{"bearer": []}]
        assert shown["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
        assert {address: http.get(address).status_code for address in opened} == {
            "/livez": 200,
            "/healthz": 200,
            "/openapi.json": 200,
        }
        for method, address, operation in operations(shown):
            if address not in opened:
                assert http.request(method, address.replace("{", "").replace("}", "")).status_code == 401
                assert "401" in operation["responses"], address
