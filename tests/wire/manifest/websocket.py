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
)
