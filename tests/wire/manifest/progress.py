"""How far the work is: which promises are held, and which of them wait for their test.

A promise is *held* when its work is delivered or when it was kept early; every other one is *open*, and no test may carry it.
To deliver a work, add its letter to DELIVERED and the ids that have no test yet to NOT_YET_PROVED. To keep a promise of a later
work early, mark its test and add its id to EARLY.
"""

from tests.wire.manifest.promise import Promise, Work

DELIVERED: frozenset[Work] = frozenset({"A1", "A2", "B", "C"})
EARLY: frozenset[str] = frozenset(
    {
        "aborted-command-is-exit-130",
        "allowlist-of-the-tool-admits-exactly-its-hosts",
        "background-answers-at-once",
        "background-example-is-accepted",
        "background-response-is-streamed-later",
        "background-runs-as-foreground-does",
        "beta-parts-are-refused-by-name",
        "chains-pass-through-failed-and-cancelled-parents",
        "compaction-crosses-a-threshold",
        "compaction-example-is-accepted",
        "compaction-is-a-sealed-item",
        "compaction-on-demand",
        "compaction-strategy-falls-back-to-the-default",
        "compaction-threshold-has-a-default",
        "compaction-trigger-gives-one-item",
        "container-network-is-shown",
        "containers-post-example-is-accepted",
        "containers-post-secrets-live-sealed-until-expiry",
        "containers-post-takes-a-network-policy",
        "conversation-items-are-listed",
        "conversations-are-kept",
        "empty-operator-list-grants-nothing",
        "errors-have-the-new-shape",
        "foreign-compaction-is-refused",
        "gateway-compaction-is-opt-in",
        "gateway-compacts-for-every-other-provider",
        "hadrian-background-answers-200",
        "hadrian-background-run-survives-a-restart",
        "hadrian-background-with-stream-streams-at-once",
        "hadrian-cancel-stops-the-command",
        "hadrian-compaction-counts-shell-output",
        "hadrian-container-has-one-home",
        "hadrian-left-foreground-response-is-cancelled",
        "hadrian-policy-of-a-live-box-follows-the-request",
        "hadrian-secret-values-are-resolved-or-refused",
        "hadrian-secrets-are-sealed-and-never-echoed",
        "hadrian-secrets-last-as-long-as-their-request",
        "hadrian-shell-output-is-redacted",
        "hadrian-truncate-keeps-system-items-and-shows-its-marker",
        "hosted-tools-of-others-are-relayed-or-left-out",
        "idempotency-key-makes-one-response",
        "images-are-sent-to-the-provider",
        "inline-secret-travels-with-the-request",
        "input-items-of-a-response-are-listed",
        "input-tokens-are-counted",
        "llm-summarises-what-is-dropped",
        "model-is-told-hosts-and-secret-names",
        "native-compaction-is-forwarded",
        "newest-items-are-never-compacted",
        "one-response-at-a-time-in-a-conversation",
        "operator-secret-is-used-by-name",
        "parameters-reach-the-provider-that-knows-them",
        "provider-says-how-it-answered",
        "requested-hosts-are-a-subset-of-the-operators",
        "response-adds-to-its-conversation",
        "response-goes-on-from-its-conversation",
        "response-summarises-network-use",
        "secret-by-reference-keeps-its-value-in-the-gateway",
        "secret-domains-are-a-subset-of-the-operators",
        "secret-for-an-unlisted-host-opens-that-host",
        "shell-works-behind-bedrock-vertex-and-azure",
        "steering-ends-a-response-for-a-successor",
        "steering-says-why-it-failed",
        "steering-waits-for-the-clients-output",
        "toml-example-compaction-is-accepted",
        "tool-example-container-auto-is-accepted",
        "truncate-drops-the-oldest-items",
        "websocket-carries-responses",
        "websocket-chains-unstored-responses-on-one-connection",
        "websocket-errors-are-those-of-http",
        "websocket-failed-continuation-evicts-its-parent",
        "websocket-has-at-most-32-named-lanes",
        "websocket-is-bounded",
        "websocket-is-closed-for-a-restart",
        "websocket-lanes-are-fifo-and-interleave",
        "websocket-lives-for-an-hour",
        "websocket-names-of-lanes-are-checked",
        "websocket-prepares-without-generating",
        "websocket-runs-sixteen-responses-at-once",
        "websocket-unstored-response-ends-with-its-connection",
        "websocket-work-counts-for-its-key",
    }
)

# Held promises without a test. It only shrinks: an id that has a marked test fails here until it is taken out.
NOT_YET_PROVED: frozenset[str] = frozenset()


def is_held(promise: Promise) -> bool:
    """Whether a promise counts as kept; otherwise it is open."""
    return promise.owed_by in DELIVERED or promise.id in EARLY
