"""The call that a task works for: where its output goes, and who can be asked to approve its command."""

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.types import ClientCapabilities, ElicitRequest, ElicitRequestFormParams, ElicitResult

from limpet.mcp.progress import Progress
from limpet.tools.events import ToolEvent
from limpet.workspace.approvals import Answer, ApprovalRequest, Approved, Refused

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"run": {"type": "boolean", "title": "Run it", "description": "Whether this command may run."}},
    "required": ["run"],
}
_NOBODY = Refused(
    "It needs a person's approval, and this MCP client offers no way to ask one (the capability elicitation).",
    lasts=0.0,
)
_WAITING = Refused("A person is being asked.", lasts=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveCall:
    """`answers` are what the client brought with the call, by the question's key; `asked` what it is to ask before it calls again
    (protocol 2026-07-28, where a server asks nothing by itself)."""

    context: ServerRequestContext[Any, Any]
    progress: Progress | None = None
    answers: Mapping[str, Any] = field(default_factory=dict)
    asked: dict[str, ElicitRequest] = field(default_factory=dict)


CURRENT: ContextVar[ActiveCall | None] = ContextVar("limpet.mcp.call", default=None)


async def tell(event: ToolEvent) -> None:
    """A listener for tools: their output is the progress of the current call."""
    call = CURRENT.get()
    if call is not None and call.progress is not None:
        call.progress.take(event.data.get("text") or event.data.get("content") or "")


async def approve(request: ApprovalRequest) -> Answer:
    """An approver: the client's user is asked. Refused where the client cannot ask; nothing is ever approved by default."""
    call = CURRENT.get()
    if call is None or not _can_ask(call.context.session.client_capabilities):
        return _NOBODY
    session = call.context.session
    if session.can_send_request:
        given = await session.elicit_form(_question(request), SCHEMA, related_request_id=call.context.request_id)
        return _answer(given)
    key = f"approval-{request.digest}"
    if key in call.answers:
        return _answer(call.answers[key])
    params = ElicitRequestFormParams(message=_question(request), requested_schema=SCHEMA)
    call.asked[key] = ElicitRequest(params=params)
    return _WAITING


def _can_ask(capabilities: ClientCapabilities | None) -> bool:
    if capabilities is None or capabilities.elicitation is None:
        return False
    return capabilities.elicitation.form is not None or capabilities.elicitation.url is None


def _question(request: ApprovalRequest) -> str:
    where = f" in {request.cwd}" if request.cwd else ""
    label = f"\n\nIt is described as: {request.description}" if request.description else ""
    stdin = f"\n\nIts input begins:\n{request.stdin}" if request.stdin else ""
    return f"{request.reason} May it run{where}?\n\n{request.command}{label}{stdin}"


def _answer(given: Any) -> Answer:
    if isinstance(given, ElicitResult) and given.action == "accept" and (given.content or {}).get("run") is True:
        return Approved()
    return Refused("The user did not approve it.")
