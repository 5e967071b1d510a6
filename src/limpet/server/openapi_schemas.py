"""What requests and answers look like, as JSON Schema: from what checks requests, and from the structs that answers are made of.

Answers may have more keys than are named; keys that OpenAI's API does not have are marked `x-limpet-extension`.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from limpet.containers.attachments import MARKDOWN, ZIP
from limpet.containers.network_objects import ContainerNetwork
from limpet.containers.requested_secrets import MOST_SECRETS
from limpet.containers.requested_spec import LEAST_MEMORY, MAX_NAME_BYTES, MOST_FILES, MOST_INLINE, MOST_SKILLS
from limpet.containers.wire_objects import (
    Container,
    ContainerFile,
    ContainerPort,
    DeletedContainer,
    DeletedContainerFile,
    PortLink,
)
from limpet.core.resources import Resource, ResourcePage, WireObject
from limpet.egress.secrets import MOST_VALUE
from limpet.responses.chat.request import ChatBody
from limpet.responses.compact_endpoint import CompactedConversation
from limpet.responses.conversations import (
    MOST_ITEMS_AT_ONCE,
    AddItems,
    ChangeConversation,
    Conversation,
    CreateConversation,
    DeletedConversation,
)
from limpet.responses.input_tokens import InputTokenCount
from limpet.responses.item_resources import ItemPage
from limpet.responses.items import KINDS
from limpet.responses.request import CreateRequest
from limpet.responses.request_tools import FunctionTool, ShellTool
from limpet.responses.resource import Response
from limpet.responses.shell_items import ShellCallItem, ShellCallOutputItem
from limpet.responses.webhook_endpoints import (
    ChangeWebhookEndpoint,
    CreateWebhookEndpoint,
    RotateWebhookSecret,
    TestWebhookEndpoint,
    WebhookEndpoint,
    WebhookEventTypes,
    WebhookTestResult,
)
from limpet.server.errors import ErrorAnswer
from limpet.server.files import DeletedFile, File
from limpet.server.health import Alive, GatewayHealth, Model, ModelList
from limpet.server.openapi_events import event_schemas
from limpet.server.responses import DeletedResponse
from limpet.server.skills import DeletedSkill, DeletedSkillVersion, Skill, SkillVersion
from limpet.server.usage import UsagePage
from limpet.server.webhooks import DeletedWebhookEndpoint

Json = dict[str, Any]
REFERENCE = "#/components/schemas/{name}"
LISTED: tuple[type[Resource], ...] = (
    Container,
    ContainerFile,
    ContainerPort,
    File,
    Skill,
    SkillVersion,
    WebhookEndpoint,
)
ANSWERED: tuple[type[WireObject], ...] = (
    *LISTED,
    *(
        ContainerNetwork,
        PortLink,
        Response,
        ShellCallItem,
        ShellCallOutputItem,
        Model,
        ModelList,
        Alive,
        GatewayHealth,
        ErrorAnswer,
        UsagePage,
    ),
    *(DeletedWebhookEndpoint, WebhookTestResult, WebhookEventTypes),
    *(Conversation, ItemPage, DeletedConversation, InputTokenCount, CompactedConversation),
    *(DeletedResponse, DeletedContainer, DeletedContainerFile, DeletedFile, DeletedSkill, DeletedSkillVersion),
)

TEXT: Json = {"type": "string"}
ANY_OBJECT: Json = {"type": "object"}
MEMORY: Json = {
    "anyOf": [
        {"type": "string", "pattern": "^[0-9]{1,15}[kmgt]?$", "examples": ["1g", "512m"]},
        {"type": "integer", "minimum": LEAST_MEMORY},
    ]
}


def ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def nullable(schema: Json) -> Json:
    return {"anyOf": [schema, {"type": "null"}]}


def const(value: object) -> Json:
    return {"const": value}


def one_of(*values: str) -> Json:
    return {"type": "string", "enum": list(values)}


def shape(required: Mapping[str, Json], optional: Mapping[str, Json] | None = None) -> Json:
    """An object with these keys."""
    return {"type": "object", "properties": {**required, **(optional or {})}, "required": list(required)}


def schemas() -> Json:
    """Every schema that the document's addresses refer to, by name."""
    return {
        **_requests(),
        **_asked_of_containers(),
        **event_schemas(REFERENCE),
        **_answers(),
    }


def _requests() -> Json:
    inputs: dict[str, type[BaseModel]] = {f"Input_{kind}": model for kind, model in KINDS.items()}
    about_conversations: list[type[BaseModel]] = [CreateConversation, ChangeConversation, AddItems]
    every: list[type[BaseModel]] = [
        CreateRequest,
        CreateWebhookEndpoint,
        ChangeWebhookEndpoint,
        RotateWebhookSecret,
        TestWebhookEndpoint,
        ChatBody,
        ShellTool,
        FunctionTool,
        *about_conversations,
        *inputs.values(),
    ]
    named, found = models_json_schema(
        [(model, "validation") for model in every], ref_template=REFERENCE.replace("name", "model")
    )
    definitions: Json = found["$defs"]
    for definition in definitions.values():
        definition.pop("description", None)  # a word to the reader of the source
    aliases = {name: named[model, "validation"] for name, model in inputs.items()}
    create = definitions["CreateRequest"]["properties"]
    create["tools"] = nullable({"type": "array", "items": ref("Tool")})
    create["input"] = {"anyOf": [TEXT, {"type": "array", "items": ref("InputItem")}]}
    create["model"]["examples"] = ["limpet/script"]
    definitions["CreateRequest"]["required"] = ["model"]
    some = {"type": "array", "items": ref("InputItem"), "maxItems": MOST_ITEMS_AT_ONCE}
    definitions["CreateConversation"]["properties"]["items"] = nullable(some)
    definitions["AddItems"]["properties"]["items"] = {**some, "minItems": 1}
    return {
        **definitions,
        **aliases,
        "Tool": {"anyOf": [ref("ShellTool"), ref("FunctionTool"), ref("OtherTool")]},
        "Item": shape({"id": TEXT, "type": TEXT}),
        "OtherTool": shape({"type": {"type": "string", "not": {"enum": ["shell", "function"]}, "minLength": 1}}),
        "InputItem": {
            "anyOf": [
                *({"allOf": [ref(f"Input_{kind}"), _kind(kind)]} for kind in KINDS),
                shape({"type": {"type": "string", "minLength": 1, "not": {"enum": list(KINDS)}}}),
            ]
        },
    }


def _asked_of_containers() -> Json:
    return {
        "CreateContainer": shape(
            {"name": {"type": "string", "minLength": 1, "maxLength": MAX_NAME_BYTES}},
            {
                "memory_limit": nullable(MEMORY),
                "expires_after": nullable(ref("AskedExpiry")),
                "network_policy": nullable(ref("NetworkPolicy")),
                "file_ids": nullable({"type": "array", "items": TEXT, "maxItems": MOST_FILES}),
                "skills": nullable({"type": "array", "items": ref("AskedSkill"), "maxItems": MOST_SKILLS}),
            },
        ),
        "ChangeContainer": shape({"network_policy": ref("NetworkPolicy")}),
        "AskedExpiry": shape({"minutes": {"type": "integer", "minimum": 1}}, {"anchor": const("last_active_at")}),
        "NetworkPolicy": {"oneOf": [shape({"type": const("disabled")}), ref("Allowlist")]},
        "Allowlist": shape(
            {"type": const("allowlist")},
            {
                "allowed_domains": {"type": "array", "items": TEXT},
                "domain_secrets": {"type": "array", "items": ref("AskedSecret"), "maxItems": MOST_SECRETS},
            },
        ),
        **_asked_secrets(),
        "AskedSkill": {"oneOf": [ref("SkillReference"), ref("InlineSkill")]},
        "SkillReference": shape(
            {"type": const("skill_reference"), "skill_id": {"type": "string", "minLength": 1, "maxLength": 64}},
            {"version": nullable(TEXT)},
        ),
        "InlineSkill": shape(
            {"type": const("inline"), "name": TEXT, "description": TEXT, "source": ref("InlineSource")}
        ),
        "InlineSource": shape(
            {
                "media_type": one_of(ZIP, MARKDOWN),
                "data": {"type": "string", "contentEncoding": "base64", "minLength": 1, "maxLength": MOST_INLINE},
            },
            {"type": const("base64")},
        ),
    }


def _asked_secrets() -> Json:
    return {
        "AskedSecret": {"anyOf": [ref("InlineSecret"), ref("SecretReference")]},
        "InlineSecret": shape(
            {"domain": TEXT, "name": TEXT, "value": {"type": "string", "minLength": 1, "maxLength": MOST_VALUE}},
            {"in_query": {"type": "boolean"}, "in_body": {"type": "boolean"}},
        ),
        "SecretReference": shape(
            {"placeholder": TEXT}, {"allowed_domains": nullable({"type": "array", "items": TEXT})}
        ),
    }


def _kind(kind: str) -> Json:
    """The item's `type`, which a message may leave out."""
    named = {"properties": {"type": const(kind)}}
    return named if kind == "message" else {**named, "required": ["type"]}


def _answers() -> Json:
    """Every resource, and what else is answered with, from the structs that answers are made of."""
    pages = {f"{kind.__name__}List": ResourcePage[kind] for kind in LISTED}  # type: ignore[valid-type]  # a class as a value
    references, found = msgspec.json.schema_components([*ANSWERED, *pages.values()], ref_template=REFERENCE)
    for definition in found.values():
        _answered(definition)
    for name, reference in zip(pages, references[len(ANSWERED) :], strict=True):
        found[name] = found.pop(reference["$ref"].rpartition("/")[2])
    return found


def _answered(definition: Json) -> None:
    """What has a default is always answered with: absent keys are UNSET, which is no default."""
    definition.pop("title")
    keys = definition["properties"]
    definition["required"] = [key for key in keys if key in definition["required"] or "default" in keys[key]]
    for key in keys.values():
        key.pop("default", None)
