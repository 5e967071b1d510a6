"""The caller of a request: its tenant and scopes. The authentication middleware sets it, the routes read it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from starlette.requests import HTTPConnection
from starlette.responses import Response

from limpet.core.errors import Forbidden
from limpet.store.keys import SCOPES, Scope

_CALLER = "limpet.caller"
_WORK = "limpet.work_admission"
_SCOPES: Mapping[str, Scope] = {
    "/v1/responses": "responses",
    "/v1/chat": "responses",
    "/v1/conversations": "responses",
    "/v1/containers": "containers",
    "/v1/files": "files",
    "/v1/skills": "skills",
    "/v1/usage": "responses",
    "/v1/webhook_endpoints": "responses",
    "/v1/webhook_event_types": "responses",
    "/metrics": "admin",
}
# Paths that need no key: they show no tenant's data, and load balancers and supervisors read them.
OPEN = frozenset({"/livez", "/healthz", "/openapi.json"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Everything that a request does it does for `tenant`. `key_id` is None where no keys are asked for."""

    tenant: str
    scopes: frozenset[Scope]
    key_id: str | None = None

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes


class WorkAdmission(Protocol):
    """Lets pieces of work in on a connection that outlives its request, each as a request of its own would be."""

    async def begin(self) -> Response | None:
        """Count a piece of work in, or the answer that says why not. What was counted in is counted out by `end`."""

    def end(self) -> None: ...


class UnlimitedAdmission:
    """Where no keys are asked for."""

    async def begin(self) -> Response | None:
        return None

    def end(self) -> None:
        return None


# Where `auth.mode` is none there is one tenant, and every caller on this machine is the operator.
LOCAL_OPERATOR = Caller(tenant="default", scopes=frozenset(SCOPES))
# A caller without a key: it reaches only OPEN.
STRANGER = Caller(tenant="", scopes=frozenset())


def admit(scope: Any, caller: Caller, *, work: WorkAdmission | None = None) -> None:
    """Store the caller in the ASGI scope."""
    scope[_CALLER] = caller
    scope[_WORK] = work or UnlimitedAdmission()


def work_admission_of(request: HTTPConnection) -> WorkAdmission:
    """How more work than the request itself is let in."""
    work: WorkAdmission = request.scope[_WORK]
    return work


def caller_of(request: HTTPConnection) -> Caller:
    """The caller, as the authentication stored it."""
    caller: Caller = request.scope[_CALLER]
    return caller


def tenant_in(scope: Any) -> str:
    """Whose request an ASGI scope is; empty where no door has let it in."""
    caller: Caller | None = scope.get(_CALLER)
    return caller.tenant if caller is not None else ""


def tenant_of(request: HTTPConnection) -> str:
    """Whose data it is that this request may see."""
    return caller_of(request).tenant


def needed(path: str) -> Scope | None:
    """The scope that a path asks for; None where any key will do."""
    return next((scope for root, scope in _SCOPES.items() if path == root or path.startswith(f"{root}/")), None)


def refused(caller: Caller, path: str) -> Forbidden | None:
    """Why this caller may not go there."""
    scope = needed(path)
    if scope is None or caller.may(scope):
        return None
    return Forbidden(
        f"This key does not have the scope {scope!r}. Ask the operator for one that has: limpet keys create NAME --scope {scope}",
        code="insufficient_scope",
    )
