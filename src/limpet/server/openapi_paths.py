"""Every address of the gateway: its methods, what they take and every status that they answer with. Data."""

from limpet.server.files import LEAST_SECONDS, LIST_LIMIT, MOST_SECONDS, PURPOSES
from limpet.server.openapi_items import item_paths
from limpet.server.openapi_operations import BYTES, FORM, JSON
from limpet.server.openapi_operations import download as _download
from limpet.server.openapi_operations import in_path as _in_path
from limpet.server.openapi_operations import json_of as _json
from limpet.server.openapi_operations import operation as _operation
from limpet.server.openapi_operations import page as _page
from limpet.server.openapi_operations import query as _query
from limpet.server.openapi_operations import upgrade as _upgrade
from limpet.server.openapi_schemas import TEXT, Json, const, one_of, ref, shape
from limpet.server.preview_links import LEAST_SECONDS as LEAST_LINK_SECONDS
from limpet.server.preview_links import MOST_SECONDS as MOST_LINK_SECONDS


def paths() -> Json:
    """By address, as OpenAPI writes them. Security is the document's."""
    return {
        **_responses(),
        **item_paths(),
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


def _bundle(**fields: Json) -> Json:
    whole = {"description": "The skill as one zip.", **BYTES}
    parts = {"description": "Its files; their names are paths.", "type": "array", "items": BYTES}
    form = {
        "type": "object",
        "properties": {"files": whole, "files[]": parts, **fields},
        "oneOf": [{"required": ["files"]}, {"required": ["files[]"]}],
    }
    return {FORM: {"schema": form}}
