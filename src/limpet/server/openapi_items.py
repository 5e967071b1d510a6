"""The addresses of conversations and of the items of responses. Data."""

from limpet.responses.item_resources import INCLUDABLE
from limpet.server.openapi_operations import JSON, answer, in_path, operation, page_query, query
from limpet.server.openapi_schemas import ANY_OBJECT, Json, one_of, ref


def item_paths() -> Json:
    """By address, as OpenAPI writes them."""
    return {
        "/v1/responses/{response_id}/input_items": {
            "parameters": [in_path("response_id")],
            "get": operation(
                "listInputItems",
                "What a response was made of: the items before its request and those of its request",
                answer("ItemPage"),
                (400, 404),
                parameters=[*page_query(), include_query()],
            ),
        },
        "/v1/responses/input_tokens": {
            "post": operation(
                "countInputTokens",
                "How many tokens a request would have; the provider counts where it can, else it is an estimate",
                answer("InputTokenCount"),
                (400, 404, 413, 422, 429, 502, 503),
                body={JSON: {"schema": ref("CreateRequest")}},
            )
        },
        "/v1/chat/completions": {
            "post": operation(
                "createChatCompletion",
                "A chat completion, whole or as chunks, with the models of responses and without a shell",
                {JSON: {"schema": ANY_OBJECT}, "text/event-stream": {"schema": ANY_OBJECT}},
                (400, 404, 413, 422, 429, 502, 503),
                body={JSON: {"schema": ref("ChatBody")}},
            )
        },
        "/v1/responses/compact": {
            "post": operation(
                "compactResponse",
                "A conversation as its user messages and one compaction that stands for the rest",
                answer("CompactedConversation"),
                (400, 404, 413, 422, 429, 502, 503),
                body={JSON: {"schema": ref("CreateRequest")}},
            )
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
                answer("Conversation"),
                (400, 413),
                body={JSON: {"schema": ref("CreateConversation")}},
            )
        },
        "/v1/conversations/{conversation_id}": {
            "parameters": [in_path("conversation_id")],
            "get": operation("getConversation", "A conversation", answer("Conversation"), (404,)),
            "post": operation(
                "changeConversation",
                "Replace a conversation's metadata",
                answer("Conversation"),
                (400, 404, 413),
                body={JSON: {"schema": ref("ChangeConversation")}},
            ),
            "delete": operation(
                "deleteConversation",
                "Remove a conversation with its items; its responses and its container stay",
                answer("DeletedConversation"),
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
                answer("ItemPage"),
                (400, 404, 413),
                body={JSON: {"schema": ref("AddItems")}},
                parameters=[include_query()],
            ),
            "get": operation(
                "listConversationItems",
                "The items of a conversation",
                answer("ItemPage"),
                (400, 404),
                parameters=[*page_query(), include_query()],
            ),
        },
        "/v1/conversations/{conversation_id}/items/{item_id}": {
            "parameters": [in_path("conversation_id"), in_path("item_id")],
            "get": operation(
                "getConversationItem", "An item", answer("Item"), (400, 404), parameters=[include_query()]
            ),
            "delete": operation(
                "deleteConversationItem", "The conversation without that item", answer("Conversation"), (404,)
            ),
        },
    }


def include_query() -> Json:
    return query("include", {"type": "array", "items": one_of(*INCLUDABLE)}, "What is left out of items otherwise.")
