"""The WebSocket at `/v1/responses`: what OpenAI's guides on WebSocket mode and steering say, and the bounds of ours."""

from tests.wire.manifest.promise import Promise

_GUIDE = "WebSocket mode"
_STEERING = "mid-turn steering"

WEBSOCKET = (
    Promise(
        id="websocket-carries-responses",
        owed_by="D",
        decided=_GUIDE,
        says="Each `response.create` on a WebSocket at `/v1/responses` is a request, and its events are those of the HTTP stream.",
    ),
    Promise(
        id="websocket-lanes-are-fifo-and-interleave",
        owed_by="D",
        decided=_GUIDE,
        says="Requests with the same `stream_id` run one after the other, others beside them, and each event names its lane.",
    ),
    Promise(
        id="websocket-runs-sixteen-responses-at-once",
        owed_by="D",
        decided=_GUIDE,
        says="A connection runs 16 responses at once; further requests wait.",
    ),
    Promise(
        id="websocket-has-at-most-32-named-lanes",
        owed_by="D",
        decided=_GUIDE,
        says="A connection has at most 32 names of lanes, the default lane not counted; one more is refused and nothing else.",
    ),
    Promise(
        id="websocket-names-of-lanes-are-checked",
        owed_by="D",
        decided=_GUIDE,
        says="A `stream_id` has 1 to 256 letters, digits, underscores, hyphens and periods.",
    ),
    Promise(
        id="websocket-chains-unstored-responses-on-one-connection",
        owed_by="D",
        decided=_GUIDE,
        says="A response with `store: false` can be chained to on the connection that made it, from memory, and nowhere else.",
    ),
    Promise(
        id="websocket-failed-continuation-evicts-its-parent",
        owed_by="D",
        decided=_GUIDE,
        says="A continuation that fails evicts an unstored parent from its own lane; a fork on another lane that fails does not.",
    ),
    Promise(
        id="websocket-prepares-without-generating",
        owed_by="D",
        decided=_GUIDE,
        says="A request with `generate: false` makes a response without output, which can be chained to.",
    ),
    Promise(
        id="websocket-errors-are-those-of-http",
        owed_by="D",
        decided=_GUIDE,
        says="A request that is refused is an `error` event with the status and the error that HTTP would answer with.",
    ),
    Promise(
        id="beta-parts-are-refused-by-name",
        owed_by="D",
        decided="beta parts",
        says="Parts of the beta API that are not served are refused by their name.",
    ),
    Promise(
        id="websocket-is-closed-for-a-restart",
        owed_by="D",
        decided=_GUIDE,
        says="A gateway that stops closes WebSockets with 1012, so that clients come back, and stored responses go on.",
    ),
    Promise(
        id="websocket-unstored-response-ends-with-its-connection",
        owed_by="D",
        decided=_GUIDE,
        says="A response with `store: false` ends with its connection.",
    ),
    Promise(
        id="websocket-lives-for-an-hour",
        owed_by="D",
        decided=_GUIDE,
        says="A connection ends after 60 minutes, with the error `websocket_connection_limit_reached`.",
    ),
    Promise(
        id="websocket-is-bounded",
        owed_by="D",
        decided="bounds of the doors",
        says="Messages, waiting requests and what is kept are bounded as HTTP bodies are; passing a bound ends one connection only.",
    ),
    Promise(
        id="websocket-work-counts-for-its-key",
        owed_by="D",
        decided="bounds of the doors",
        says="Each response on a WebSocket counts for its key as a request does, and a revoked key makes no more.",
    ),
    Promise(
        id="steering-ends-a-response-for-a-successor",
        owed_by="D",
        decided=_STEERING,
        says="Accepted input ends a running response between two items, and a successor that continues it begins by itself.",
    ),
    Promise(
        id="steering-waits-for-the-clients-output",
        owed_by="D",
        decided=_STEERING,
        says="Where a response stops for calls of the client, accepted input waits for their outputs, which it names.",
    ),
    Promise(
        id="steering-says-why-it-failed",
        owed_by="D",
        decided=_STEERING,
        says="Input that cannot be applied is given back with one of the API's codes.",
    ),
)
