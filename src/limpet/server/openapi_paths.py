"""Every address of the gateway: its methods, what they take and every status that they answer with. Data, and the words to write it."""

from typing import Any

from limpet.server.files import LEAST_SECONDS, LIST_LIMIT, MOST_SECONDS, PURPOSES
from limpet.server.openapi_schemas import TEXT, Json, const, one_of, ref, shape
from limpet.server.preview_links import LEAST_SECONDS as LEAST_LINK_SECONDS
from limpet.server.preview_links import MOST_SECONDS as MOST_LINK_SECONDS

BYTES: Json = {"type": "string", "format": "binary"}
JSON, FORM, OCTETS = "application/json", "multipart/form-data", "application/octet-stream"
DESCRIPTIONS = {
    304: "The client has it: If-None-Match names its ETag.",
    400: "Something in the request is wrong; `param` names it.",
    403: "Not from here, not with this key, or the tenant has as much as it may have.",
    404: "There is no such thing, or it is another tenant's.",
    409: "It cannot be done as things are.",
    413: "The body is larger than the gateway takes.",
    415: "The body is of another type.",
    416: "No byte lies in the range.",
    422: "The provider refused the request.",
    426: "The request must ask for an upgrade to WebSocket, version 13.",
    429: "The provider, or the gateway for this key, has had too many requests.",
    500: "The gateway failed.",
    502: "The provider failed.",
    503: "No box can be had, or the gateway is stopping.",
}


def paths() -> Json:
    """By address, as OpenAPI writes them. Security is the document's."""
    return {
        **_responses(),
        **_containers(),
        **_container_network(),
        **_container_files(),
        **_ports(),
        **_files(),
        **_skills(),
        **_versions(),
        **_gateway(),
    }


def _responses() -> Json:
    event = shape({"data": {**TEXT, "description": "The event as JSON; `[DONE]` is the last."}}, {"event": TEXT})
    streamed = {"text/event-stream": {"schema": event}}
    one = {JSON: {"schema": ref("Response")}, **streamed}
    refusals = (400, 404, 409, 413, 415, 422, 429, 502, 503)
    return {
        "/v1/responses": {
            "post": _operation(
                "createResponse",
                "Ask a model, with a shell if the tools say so; `stream` answers with events",
                one,
                refusals,
                body={JSON: {"schema": ref("CreateRequest")}},
            ),
            "get": _upgrade(
                "connectResponses", "A WebSocket: `response.create` and `response.steer` go in, events come out"
            ),
        },
        "/v1/responses/{response_id}": {
            "parameters": [_in_path("response_id")],
            "get": _operation(
                "getResponse",
                "A stored response; `stream=true` tells its events again, from behind `starting_after` on",
                one,
                (400, 404, 503),
                parameters=[
                    _query("stream", one_of("true", "false")),
                    _query("starting_after", {"type": "integer", "minimum": -1, "maximum": 2**63 - 1}),
                ],
            ),
            "delete": _operation("deleteResponse", "Forget a response", _json("DeletedResponse"), (404, 503)),
        },
        "/v1/responses/{response_id}/cancel": {
            "parameters": [_in_path("response_id")],
            "post": _operation("cancelResponse", "Stop a response and keep what there is", one, (404, 503)),
        },
    }


def _containers() -> Json:
    return {
        "/v1/containers": {
            "post": _operation(
                "createContainer",
                "A new container; its box boots at its first command",
                _json("Container"),
                (400, 413, 415, 503),
                body={JSON: {"schema": ref("CreateContainer")}},
            ),
            "get": _operation(
                "listContainers",
                "The tenant's containers",
                _json("ContainerList"),
                (400,),
                parameters=[*_page(), _query("name", TEXT)],
            ),
        },
        "/v1/containers/{container_id}": {
            "parameters": [_in_path("container_id")],
            "get": _operation("getContainer", "A container, running or expired", _json("Container"), (404, 503)),
            "post": _operation(
                "changeContainer",
                "Change what a running container may reach, at once; an extension of this gateway",
                _json("Container"),
                (400, 404, 413, 415, 503),
                body={JSON: {"schema": ref("ChangeContainer")}},
            ),
            "delete": _operation(
                "deleteContainer",
                "End a container with its processes and its files",
                _json("DeletedContainer"),
                (404, 503),
            ),
        },
    }


def _container_network() -> Json:
    return {
        "/v1/containers/{container_id}/network": {
            "parameters": [_in_path("container_id")],
            "get": _operation(
                "getContainerNetwork",
                "What a running container has used of its network since the gateway started; an extension of this gateway",
                _json("ContainerNetwork"),
                (400, 404, 503),
            ),
        },
    }


def _container_files() -> Json:
    by_id = shape({"file_id": {"type": "string", "description": "Of a file in /v1/files."}})
    upload = shape({"file": BYTES})
    return {
        "/v1/containers/{container_id}/files": {
            "parameters": [_in_path("container_id")],
            "post": _operation(
                "createContainerFile",
                "Put a file at /mnt/data/<name>; one of that name is replaced and keeps its id",
                _json("ContainerFile"),
                (400, 404, 413, 415, 503),
                body={FORM: {"schema": upload}, JSON: {"schema": by_id}},
            ),
            "get": _operation(
                "listContainerFiles",
                "The files below /mnt/data",
                _json("ContainerFileList"),
                (400, 404, 503),
                parameters=_page(),
            ),
        },
        "/v1/containers/{container_id}/files/{file_id}": {
            "parameters": [_in_path("container_id"), _in_path("file_id")],
            "get": _operation("getContainerFile", "What is known of a file", _json("ContainerFile"), (404, 503)),
            "delete": _operation(
                "deleteContainerFile",
                "Remove a file, from the box too",
                _json("DeletedContainerFile"),
                (400, 404, 503),
            ),
        },
        "/v1/containers/{container_id}/files/{file_id}/content": {
            "parameters": [_in_path("container_id"), _in_path("file_id")],
            "get": _download("getContainerFileContent", (400, 404, 413, 503)),
        },
    }


def _ports() -> Json:
    """What lies below a port answers as the server in the container does, and is in no document."""
    seconds = {"type": "integer", "minimum": LEAST_LINK_SECONDS, "maximum": MOST_LINK_SECONDS}
    return {
        "/v1/containers/{container_id}/ports": {
            "parameters": [_in_path("container_id")],
            "get": _operation(
                "listContainerPorts",
                "The TCP ports on which commands of the container listen",
                _json("ContainerPortList"),
                (400, 404, 503),
            ),
        },
        "/v1/containers/{container_id}/ports/{port}": {
            "parameters": [_in_path("container_id"), _in_path("port")],
            "get": _operation(
                "getContainerPort",
                "A port that something listens on; with `Upgrade: limpet-tcp` a connection to it",
                _json("ContainerPort"),
                (400, 404, 503),
            ),
            "post": _operation(
                "createContainerPortLink",
                "A link that opens what is served on the port, for whoever has it, until it expires",
                _json("PortLink"),
                (400, 404, 413, 415, 503),
                body={JSON: {"schema": shape({}, {"expires_in_secs": seconds})}},
            ),
        },
    }


def _files() -> Json:
    seconds = {"type": "integer", "minimum": LEAST_SECONDS, "maximum": MOST_SECONDS}
    upload = shape(
        {"file": BYTES, "purpose": one_of(*PURPOSES)},
        {"expires_after[anchor]": const("created_at"), "expires_after[seconds]": seconds},
    )
    upload["dependentRequired"] = {
        "expires_after[anchor]": ["expires_after[seconds]"],
        "expires_after[seconds]": ["expires_after[anchor]"],
    }
    return {
        "/v1/files": {
            "post": _operation(
                "createFile", "Upload a file", _json("File"), (400, 413, 415), body={FORM: {"schema": upload}}
            ),
            "get": _operation(
                "listFiles",
                "The tenant's files",
                _json("FileList"),
                (400,),
                parameters=[*_page(most=LIST_LIMIT), _query("purpose", TEXT)],
            ),
        },
        "/v1/files/{file_id}": {
            "parameters": [_in_path("file_id")],
            "get": _operation("getFile", "What is known of a file", _json("File"), (404,)),
            "delete": _operation("deleteFile", "Remove a file", _json("DeletedFile"), (404,)),
        },
        "/v1/files/{file_id}/content": {
            "parameters": [_in_path("file_id")],
            "get": _download("getFileContent", (404,)),
        },
    }


def _skills() -> Json:
    zipped = {"application/zip": {"schema": BYTES}}
    choice = shape({"default_version": TEXT})
    return {
        "/v1/skills": {
            "post": _operation(
                "createSkill", "A new skill, with its first version", _json("Skill"), (400, 413, 415), body=_bundle()
            ),
            "get": _operation("listSkills", "The tenant's skills", _json("SkillList"), (400,), parameters=_page()),
        },
        "/v1/skills/{skill_id}": {
            "parameters": [_in_path("skill_id")],
            "get": _operation("getSkill", "A skill", _json("Skill"), (404,)),
            "post": _operation(
                "updateSkill",
                "Choose the version that a reference without one means",
                _json("Skill"),
                (400, 404, 413, 415),
                body={JSON: {"schema": choice}},
            ),
            "delete": _operation("deleteSkill", "Remove a skill", _json("DeletedSkill"), (404,)),
        },
        "/v1/skills/{skill_id}/content": {
            "parameters": [_in_path("skill_id")],
            "get": _operation("getSkillContent", "The default version, as a zip", zipped, (404,)),
        },
    }


def _versions() -> Json:
    zipped = {"application/zip": {"schema": BYTES}}
    return {
        "/v1/skills/{skill_id}/versions": {
            "parameters": [_in_path("skill_id")],
            "post": _operation(
                "createSkillVersion",
                "A new version",
                _json("SkillVersion"),
                (400, 404, 413, 415),
                body=_bundle(default=one_of("true", "false")),
            ),
            "get": _operation(
                "listSkillVersions", "The versions", _json("SkillVersionList"), (400, 404), parameters=_page()
            ),
        },
        "/v1/skills/{skill_id}/versions/{version}": {
            "parameters": [_in_path("skill_id"), _in_path("version")],
            "get": _operation("getSkillVersion", "A version", _json("SkillVersion"), (400, 404)),
            "delete": _operation(
                "deleteSkillVersion",
                "Remove a version that is not the default",
                _json("DeletedSkillVersion"),
                (400, 404, 409),
            ),
        },
        "/v1/skills/{skill_id}/versions/{version}/content": {
            "parameters": [_in_path("skill_id"), _in_path("version")],
            "get": _operation("getSkillVersionContent", "A version, as a zip", zipped, (400, 404)),
        },
    }


def _gateway() -> Json:
    health = _json("GatewayHealth")
    healthz = _operation("healthz", "Whether boxes can be had", health, (), is_open=True)
    healthz["responses"]["503"] = {"description": "No box can be had.", "content": health}
    document = {JSON: {"schema": {"type": "object"}}}
    return {
        "/v1/models": {"get": _operation("listModels", "The models that there are", _json("ModelList"), ())},
        "/v1/models/{model}": {
            "parameters": [_in_path("model")],
            "get": _operation("getModel", "A model", _json("Model"), (404,)),
        },
        "/livez": {"get": _operation("livez", "Whether the process answers", _json("Alive"), (), is_open=True)},
        "/healthz": {"get": healthz},
        "/metrics": {"get": _operation("metrics", "Counters for Prometheus", {"text/plain": {"schema": TEXT}}, ())},
        "/openapi.json": {"get": _operation("openapi", "This document", document, (), is_open=True)},
    }


def _operation(
    name: str,
    summary: str,
    content: Json,
    refusals: tuple[int, ...],
    *,
    parameters: list[Json] | None = None,
    body: Json | None = None,
    is_open: bool = False,
) -> Json:
    """What any address may also answer is added: 403 and 500."""
    answers: Json = {"200": {"description": "As asked.", "content": content}}
    for status in sorted({*refusals, 403, 500}):
        answers[str(status)] = {"description": DESCRIPTIONS[status], "content": _json("ErrorAnswer")}
    operation: Json = {"operationId": name, "summary": summary, "responses": answers}
    if parameters:
        operation["parameters"] = parameters
    if body:
        operation["requestBody"] = {"required": True, "content": body}
    return {**operation, "security": []} if is_open else operation


def _upgrade(name: str, summary: str) -> Json:
    operation = _operation(name, summary, {}, (400, 426, 503))
    operation["responses"]["101"] = {"description": "The connection speaks WebSocket from here on."}
    del operation["responses"]["200"]
    return operation


def _download(name: str, refusals: tuple[int, ...]) -> Json:
    bytes_of = {OCTETS: {"schema": BYTES}}
    operation = _operation(name, "Its bytes, whole or a range of them", bytes_of, (*refusals, 416))
    operation["parameters"] = [_header("Range"), _header("If-None-Match"), _header("If-Range")]
    operation["responses"]["206"] = {"description": "The range that was asked for.", "content": bytes_of}
    operation["responses"]["304"] = {"description": DESCRIPTIONS[304]}
    return operation


def _bundle(**fields: Json) -> Json:
    whole = {"description": "The skill as one zip.", **BYTES}
    parts = {"description": "Its files; their names are paths.", "type": "array", "items": BYTES}
    form = {
        "type": "object",
        "properties": {"files": whole, "files[]": parts, **fields},
        "oneOf": [{"required": ["files"]}, {"required": ["files[]"]}],
    }
    return {FORM: {"schema": form}}


def _json(name: str) -> Json:
    return {JSON: {"schema": ref(name)}}


def _page(*, most: int = 100) -> list[Json]:
    return [
        _query("limit", {"type": "integer", "minimum": 1, "maximum": most}),
        _query("after", TEXT, "The last id of the page before; it may have been deleted since."),
        _query("order", one_of("asc", "desc"), "By age; desc where it is not given."),
    ]


def _query(name: str, schema: Json, description: str = "") -> Json:
    said: dict[str, Any] = {"description": description} if description else {}
    return {"name": name, "in": "query", "schema": schema, **said}


def _header(name: str) -> Json:
    return {"name": name, "in": "header", "schema": TEXT}


def _in_path(name: str) -> Json:
    return {"name": name, "in": "path", "required": True, "schema": TEXT}
