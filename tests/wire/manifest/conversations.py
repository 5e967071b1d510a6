"""Conversations and the items of responses: OpenAI's API, which the seed does not speak of."""

from tests.wire.manifest.promise import Promise

CONVERSATIONS = (
    Promise(
        id="conversations-are-kept",
        owed_by="D",
        decided="OpenAI's Conversations API",
        says=(
            "`/v1/conversations` creates, reads, changes and deletes conversations of a tenant; they are kept until they are deleted."
        ),
    ),
    Promise(
        id="conversation-items-are-listed",
        owed_by="D",
        decided="OpenAI's Conversations API",
        says=(
            "The items of a conversation are added, listed in pages, read and deleted; what was deleted stays deleted, and a list "
            "goes on behind it."
        ),
    ),
    Promise(
        id="response-goes-on-from-its-conversation",
        owed_by="D",
        decided="OpenAI's Conversations API",
        says=(
            "A response with `conversation` is given the items of that conversation before its input, and runs its commands in the "
            "conversation's container; instructions of earlier responses are not carried over."
        ),
    ),
    Promise(
        id="response-adds-to-its-conversation",
        owed_by="D",
        decided="OpenAI's Conversations API",
        says=(
            "When a response of a conversation ends, its input and its output are added there, once and in the transaction of its "
            "end; one that failed before its first item adds nothing."
        ),
    ),
    Promise(
        id="one-response-at-a-time-in-a-conversation",
        owed_by="D",
        decided="OpenAI's Conversations API",
        says=(
            "While a response runs in a conversation, another one is refused with 400 `conversation_locked`, and leaves nothing behind."
        ),
    ),
    Promise(
        id="input-items-of-a-response-are-listed",
        owed_by="D",
        decided="OpenAI's Responses API",
        says=(
            "`GET /v1/responses/{id}/input_items` lists what a response was made of, in pages: the items of its conversation or chain, "
            "then those of its request."
        ),
    ),
    Promise(
        id="input-tokens-are-counted",
        owed_by="D",
        decided="OpenAI's Responses API",
        says=(
            "`POST /v1/responses/input_tokens` says how many tokens a request would have, by the provider's own count where it has one, "
            "and makes nothing."
        ),
    ),
    Promise(
        id="idempotency-key-makes-one-response",
        owed_by="D",
        decided="the same submission twice",
        says=(
            "Requests with the same `Idempotency-Key` are one response, sent at once or one after the other, and across a restart; the "
            "same key with another request is refused."
        ),
    ),
)
