"""Every address of the gateway: its methods, what they take and every status that they answer with. Data only."""

from limpet.server.files import LEAST_SECONDS, LIST_LIMIT, MOST_SECONDS, PURPOSES
from limpet.server.openapi_accounts import account_paths
from limpet.server.openapi_events import EVENT
from limpet.server.openapi_items import include_query, item_paths
from limpet.server.openapi_operations import (
    BYTES,
    FORM,
    JSON,
    answer,
    bundle,
    download,
    in_path,
    operation,
    page_query,
    query,
    upgrade,
)
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
        **account_paths(),
    }


def _responses() -> Json:
    told = {**TEXT, "contentMediaType": JSON, "contentSchema": ref(EVENT)}
    data = {"anyOf": [{"const": "[DONE]"}, told], "description": "The event; `[DONE]` is the last."}
    event = shape({"data": data}, {"event": TEXT})
    streamed = {"text/event-stream": {"schema": event}}
    one = {JSON: {"schema": ref("Response")}, **streamed}
    refusals = (400, 404, 409, 413, 415, 422, 429, 502, 503)
    return {
        "/v1/responses": {
            "post": operation(
                "createResponse",
                "Ask a model, with a shell if the tools say so; `stream` answers with events",
                one,
                refusals,
                body={JSON: {"schema": ref("CreateRequest")}},
            ),
            "get": upgrade(
                "connectResponses", "A WebSocket: `response.create` and `response.steer` go in, events come out"
            ),
        },
        "/v1/responses/{response_id}": {
            "parameters": [in_path("response_id")],
            "get": operation(
                "getResponse",
                "A stored response; `stream=true` tells its events again, from behind `starting_after` on",
                one,
                (400, 404, 503),
                parameters=[
                    query("stream", one_of("true", "false")),
                    query("starting_after", {"type": "integer", "minimum": -1, "maximum": 2**63 - 1}),
                    query("include_obfuscation", one_of("true", "false")),
                    include_query(),
                ],
            ),
            "delete": operation("deleteResponse", "Forget a response", answer("DeletedResponse"), (404, 503)),
        },
        "/v1/responses/{response_id}/cancel": {
            "parameters": [in_path("response_id")],
            "post": operation("cancelResponse", "Stop a response and keep what there is", one, (404, 503)),
        },
    }


def _containers() -> Json:
    return {
        "/v1/containers": {
            "post": operation(
                "createContainer",
                "A new container; its box boots at its first command",
                answer("Container"),
                (400, 413, 415, 503),
                body={JSON: {"schema": ref("CreateContainer")}},
            ),
            "get": operation(
                "listContainers",
                "The tenant's containers",
                answer("ContainerList"),
                (400,),
                parameters=[*page_query(), query("name", TEXT)],
            ),
        },
        "/v1/containers/{container_id}": {
            "parameters": [in_path("container_id")],
            "get": operation("getContainer", "A container, running or expired", answer("Container"), (404, 503)),
            "post": operation(
                "changeContainer",
                "Change what a running container may reach, at once; an extension of this gateway",
                answer("Container"),
                (400, 404, 413, 415, 503),
                body={JSON: {"schema": ref("ChangeContainer")}},
            ),
            "delete": operation(
                "deleteContainer",
                "End a container with its processes and its files",
                answer("DeletedContainer"),
                (404, 503),
            ),
        },
    }


def _container_network() -> Json:
    return {
        "/v1/containers/{container_id}/network": {
            "parameters": [in_path("container_id")],
            "get": operation(
                "getContainerNetwork",
                "What a running container has used of its network since the gateway started; an extension of this gateway",
                answer("ContainerNetwork"),
                (400, 404, 503),
            ),
        },
    }


def _container_files() -> Json:
    by_id = shape({"file_id": {"type": "string", "description": "Of a file in /v1/files."}})
    upload = shape({"file": BYTES})
    return {
        "/v1/containers/{container_id}/files": {
            "parameters": [in_path("container_id")],
            "post": operation(
                "createContainerFile",
                "Put a file at /mnt/data/<name>; one of that name is replaced and keeps its id",
                answer("ContainerFile"),
                (400, 404, 413, 415, 503),
                body={FORM: {"schema": upload}, JSON: {"schema": by_id}},
            ),
            "get": operation(
                "listContainerFiles",
                "The files below /mnt/data",
                answer("ContainerFileList"),
                (400, 404, 503),
                parameters=page_query(),
            ),
        },
        "/v1/containers/{container_id}/files/{file_id}": {
            "parameters": [in_path("container_id"), in_path("file_id")],
            "get": operation("getContainerFile", "What is known of a file", answer("ContainerFile"), (404, 503)),
            "delete": operation(
                "deleteContainerFile",
                "Remove a file, from the box too",
                answer("DeletedContainerFile"),
                (400, 404, 503),
            ),
        },
        "/v1/containers/{container_id}/files/{file_id}/content": {
            "parameters": [in_path("container_id"), in_path("file_id")],
            "get": download("getContainerFileContent", (400, 404, 413, 503)),
        },
    }


def _ports() -> Json:
    """What lies below a port answers as the server in the container does, and is in no document."""
    seconds = {"type": "integer", "minimum": LEAST_LINK_SECONDS, "maximum": MOST_LINK_SECONDS}
    return {
        "/v1/containers/{container_id}/ports": {
            "parameters": [in_path("container_id")],
            "get": operation(
                "listContainerPorts",
                "The TCP ports on which commands of the container listen",
                answer("ContainerPortList"),
                (400, 404, 503),
            ),
        },
        "/v1/containers/{container_id}/ports/{port}": {
            "parameters": [in_path("container_id"), in_path("port")],
            "get": operation(
                "getContainerPort",
                "A port that something listens on; with `Upgrade: limpet-tcp` a connection to it",
                answer("ContainerPort"),
                (400, 404, 503),
            ),
            "post": operation(
                "createContainerPortLink",
                "A link that opens what is served on the port, for anyone who has it, until it expires",
                answer("PortLink"),
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
            "post": operation(
                "createFile", "Upload a file", answer("File"), (400, 413, 415), body={FORM: {"schema": upload}}
            ),
            "get": operation(
                "listFiles",
                "The tenant's files",
                answer("FileList"),
                (400,),
                parameters=[*page_query(most=LIST_LIMIT), query("purpose", TEXT)],
            ),
        },
        "/v1/files/{file_id}": {
            "parameters": [in_path("file_id")],
            "get": operation("getFile", "What is known of a file", answer("File"), (404,)),
            "delete": operation("deleteFile", "Remove a file", answer("DeletedFile"), (404,)),
        },
        "/v1/files/{file_id}/content": {
            "parameters": [in_path("file_id")],
            "get": download("getFileContent", (404,)),
        },
    }


def _skills() -> Json:
    zipped = {"application/zip": {"schema": BYTES}}
    choice = shape({"default_version": TEXT})
    return {
        "/v1/skills": {
            "post": operation(
                "createSkill", "A new skill, with its first version", answer("Skill"), (400, 413, 415), body=bundle()
            ),
            "get": operation("listSkills", "The tenant's skills", answer("SkillList"), (400,), parameters=page_query()),
        },
        "/v1/skills/{skill_id}": {
            "parameters": [in_path("skill_id")],
            "get": operation("getSkill", "A skill", answer("Skill"), (404,)),
            "post": operation(
                "updateSkill",
                "Choose the version that a reference without one means",
                answer("Skill"),
                (400, 404, 413, 415),
                body={JSON: {"schema": choice}},
            ),
            "delete": operation("deleteSkill", "Remove a skill", answer("DeletedSkill"), (404,)),
        },
        "/v1/skills/{skill_id}/content": {
            "parameters": [in_path("skill_id")],
            "get": operation("getSkillContent", "The default version, as a zip", zipped, (404,)),
        },
    }


def _versions() -> Json:
    zipped = {"application/zip": {"schema": BYTES}}
    return {
        "/v1/skills/{skill_id}/versions": {
            "parameters": [in_path("skill_id")],
            "post": operation(
                "createSkillVersion",
                "A new version",
                answer("SkillVersion"),
                (400, 404, 413, 415),
                body=bundle(default=one_of("true", "false")),
            ),
            "get": operation(
                "listSkillVersions", "The versions", answer("SkillVersionList"), (400, 404), parameters=page_query()
            ),
        },
        "/v1/skills/{skill_id}/versions/{version}": {
            "parameters": [in_path("skill_id"), in_path("version")],
            "get": operation("getSkillVersion", "A version", answer("SkillVersion"), (400, 404)),
            "delete": operation(
                "deleteSkillVersion",
                "Remove a version that is not the default",
                answer("DeletedSkillVersion"),
                (400, 404, 409),
            ),
        },
        "/v1/skills/{skill_id}/versions/{version}/content": {
            "parameters": [in_path("skill_id"), in_path("version")],
            "get": operation("getSkillVersionContent", "A version, as a zip", zipped, (400, 404)),
        },
    }


def _gateway() -> Json:
    health = answer("GatewayHealth")
    healthz = operation("healthz", "Whether boxes can be had", health, (), is_open=True)
    healthz["responses"]["503"] = {"description": "No box can be had.", "content": health}
    document = {JSON: {"schema": {"type": "object"}}}
    return {
        "/v1/models": {"get": operation("listModels", "The models that there are", answer("ModelList"), ())},
        "/v1/models/{model}": {
            "parameters": [in_path("model")],
            "get": operation("getModel", "A model", answer("Model"), (404,)),
        },
        "/livez": {"get": operation("livez", "Whether the process answers", answer("Alive"), (), is_open=True)},
        "/healthz": {"get": healthz},
        "/metrics": {"get": operation("metrics", "Counters for Prometheus", {"text/plain": {"schema": TEXT}}, ())},
        "/openapi.json": {"get": operation("openapi", "This document", document, (), is_open=True)},
    }
