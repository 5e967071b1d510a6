"""The addresses of conversations and of the items of responses. Data."""

from limpet.responses.item_resources import INCLUDABLE
from limpet.server.openapi_operations import JSON, in_path, json_of, operation, page, query
from limpet.server.openapi_schemas import Json, one_of, ref


def item_paths() -> Json:
    """By address, as OpenAPI writes them."""
    return {
        "/v1/responses/{response_id}/input_items": {
            "parameters": [in_path("response_id")],
            "get": operation(
                "listInputItems",
                "What a response was made of: the items before its request and those of its request",
                json_of("ItemPage"),
                (400, 404),
                parameters=[*page(), _include()],
            ),
        },
        **_conversations(),
        **_conversation_items(),
    }


def _conversations() -> Json:
    return {
        "/v1/conversations": {
            "post": operation(
                "createConversation",
                "A new conversation, which responses are added to",
                json_of("Conversation"),
                (400, 413),
                body={JSON: {"schema": ref("CreateConversation")}},
            )
        },
        "/v1/conversations/{conversation_id}": {
            "parameters": [in_path("conversation_id")],
            "get": operation("getConversation", "A conversation", json_of("Conversation"), (404,)),
            "post": operation(
                "changeConversation",
                "Replace a conversation's metadata",
                json_of("Conversation"),
                (400, 404, 413),
                body={JSON: {"schema": ref("ChangeConversation")}},
            ),
            "delete": operation(
                "deleteConversation",
                "Remove a conversation with its items; its responses and its container stay",
                json_of("DeletedConversation"),
                (404,),
            ),
        },
    }


def _conversation_items() -> Json:
    return {
        "/v1/conversations/{conversation_id}/items": {
            "parameters": [in_path("conversation_id")],
            "post": operation(
                "addConversationItems",
                "Put items behind the last one",
                json_of("ItemPage"),
                (400, 404, 413),
                body={JSON: {"schema": ref("AddItems")}},
                parameters=[_include()],
            ),
            "get": operation(
                "listConversationItems",
                "The items of a conversation",
                json_of("ItemPage"),
                (400, 404),
                parameters=[*page(), _include()],
            ),
        },
        "/v1/conversations/{conversation_id}/items/{item_id}": {
            "parameters": [in_path("conversation_id"), in_path("item_id")],
            "get": operation("getConversationItem", "An item", json_of("Item"), (400, 404), parameters=[_include()]),
            "delete": operation(
                "deleteConversationItem", "The conversation without that item", json_of("Conversation"), (404,)
            ),
        },
    }


def _include() -> Json:
    return query("include", {"type": "array", "items": one_of(*INCLUDABLE)}, "What is left out of items otherwise.")
