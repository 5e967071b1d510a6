"""The addresses of what a tenant has used up, and of where it is told of events."""

from limpet.server.openapi_operations import JSON, answer, in_path, operation, query
from limpet.server.openapi_schemas import TEXT, Json, one_of, ref


def account_paths() -> Json:
    """By address, as OpenAPI writes them."""
    return {
        **_webhooks(),
        **_webhook_actions(),
        "/v1/usage": {
            "get": operation(
                "getUsage",
                "What the tenant has used up, as OpenAI's organization usage",
                answer("UsagePage"),
                (400,),
                parameters=[
                    *(query(name, {"type": "integer", "minimum": 0}) for name in ("start_time", "end_time", "page")),
                    query("bucket_width", one_of("1h", "1d")),
                    query("group_by", one_of("model")),
                    query("limit", {"type": "integer", "minimum": 1, "maximum": 168}),
                ],
            )
        },
    }


def _webhooks() -> Json:
    one = [in_path("webhook_endpoint_id")]
    endpoint = answer("WebhookEndpoint")
    paging = [query("limit", {"type": "integer", "minimum": 1, "maximum": 100}), query("after", TEXT)]
    return {
        "/v1/webhook_endpoints": {
            "post": operation(
                "createWebhookEndpoint",
                "Tell an address of responses that ended; the answer has its secret",
                endpoint,
                (400, 413, 415),
                body={JSON: {"schema": ref("CreateWebhookEndpoint")}},
            ),
            "get": operation(
                "listWebhookEndpoints", "The endpoints", answer("WebhookEndpointList"), (400,), parameters=paging
            ),
        },
        "/v1/webhook_endpoints/{webhook_endpoint_id}": {
            "parameters": one,
            "get": operation("getWebhookEndpoint", "An endpoint", endpoint, (404,)),
            "post": operation(
                "changeWebhookEndpoint",
                "Change what is given",
                endpoint,
                (400, 404, 413, 415),
                body={JSON: {"schema": ref("ChangeWebhookEndpoint")}},
            ),
            "delete": operation(
                "deleteWebhookEndpoint", "Forget an endpoint", answer("DeletedWebhookEndpoint"), (404,)
            ),
        },
    }


def _webhook_actions() -> Json:
    one = [in_path("webhook_endpoint_id")]
    return {
        "/v1/webhook_endpoints/{webhook_endpoint_id}/rotate_secret": {
            "parameters": one,
            "post": operation(
                "rotateWebhookSecret",
                "A new secret; the old one may go on for a day",
                answer("WebhookEndpoint"),
                (400, 404, 413, 415),
                body={JSON: {"schema": ref("RotateWebhookSecret")}},
            ),
        },
        "/v1/webhook_endpoints/{webhook_endpoint_id}/test": {
            "parameters": one,
            "post": operation(
                "testWebhookEndpoint",
                "Deliver a sample once, now",
                answer("WebhookTestResult"),
                (400, 404, 413, 415),
                body={JSON: {"schema": ref("TestWebhookEndpoint")}},
            ),
        },
        "/v1/webhook_event_types": {
            "get": operation("listWebhookEventTypes", "What there is to be told of", answer("WebhookEventTypes"), ())
        },
    }
