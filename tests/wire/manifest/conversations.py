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
    Promise(
        id="parameters-reach-the-provider-that-knows-them",
        owed_by="D",
        decided="OpenAI's Responses API",
        says=(
            "Parameters that only a provider knows reach it as they were given; where it cannot follow one that would change the answer, "
            "the request is refused with 400."
        ),
    ),
    Promise(
        id="provider-says-how-it-answered",
        owed_by="D",
        decided="OpenAI's Responses API",
        says=(
            "What only the provider can say of an answer (service tier, moderation, cache, tool usage) is shown on the response."
        ),
    ),
    Promise(
        id="errors-have-the-new-shape",
        owed_by="D",
        decided="OpenAI's Responses API",
        says=("A provider's error is shown with its type, its parameter and what it says of misalignment."),
    ),
    Promise(
        id="images-are-sent-to-the-provider",
        owed_by="D",
        decided="OpenAI's Responses API",
        says=(
            "An image that is named by the id of an upload is sent to the provider with its bytes, in later turns of a chain too."
        ),
    ),
    Promise(
        id="chains-pass-through-failed-and-cancelled-parents",
        owed_by="D",
        decided="OpenAI's Responses API",
        says=("A chain goes on from what a failed or cancelled response had, in its container."),
    ),
)
