"""Asks a person to approve a command, where a rule requires it, and remembers the answer. Makes no decision of its own.

An answer is bound to the session, to the digest of the exact command and to a time: it never serves another of them
(`tests/workspace/test_approvals.py` tries).
"""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio

from limpet.core.clock import MICROSECONDS, Clock, SystemClock
from limpet.core.errors import ApprovalMissing
from limpet.core.ids import new_id

EXPIRY = 300.0  # seconds that a question waits and an answer holds
REQUEST = "approval"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """What an approver is asked.

    All texts are screened; `stdin` is the beginning of the input that the command is given. `digest` is of the exact command,
    directory, variables and input. Times are microseconds UTC; after `expires_at` the question is over and the command is denied.
    """

    id: str
    workspace: str
    session: str
    command: str
    cwd: str | None
    description: str
    rule: str
    reason: str
    digest: str
    stdin: str = ""
    asked_at: int
    expires_at: int


@dataclass(frozen=True, slots=True)
class Approved:
    """It may run. For `lasts` seconds the same command in the same session is not asked about again; 0 is this run only."""

    lasts: float = EXPIRY


@dataclass(frozen=True, slots=True)
class Refused:
    """It must not run. `reason` is shown to the caller; for `lasts` seconds the same question gets this answer without asking."""

    reason: str = ""
    lasts: float = EXPIRY


Answer = Approved | Refused
Approver = Callable[[ApprovalRequest], Awaitable[bool | Answer] | bool | Answer]
"""Answers a request: a function of yours (True is Approved, False is Refused), an `ApprovalQueue`, or anything that is called so."""

_NOBODY = Refused(
    "There is no approver to ask: open the workspace with approver=, a function or an ApprovalQueue.", lasts=0.0
)


@dataclass(slots=True)
class _Question:
    """A question under way; callers with the same question wait for its answer."""

    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: Answer | None = None


class Approvals:
    """Asks an approver, once for each command and session, and remembers what was answered until that expires.

    Commands that are the same and wait at the same time are one question, unless the answer is for one run only; then, and where
    the caller that asks is cancelled, the next one asks anew.
    """

    def __init__(self, approver: Approver | None, *, clock: Clock, expiry: float = EXPIRY) -> None:
        self._approver = approver
        self._clock = clock
        self._expiry = expiry
        self._open: dict[tuple[str, str], _Question] = {}
        self._known: dict[tuple[str, str], tuple[Answer, int]] = {}

    def expires_at(self) -> int:
        """When a question that is asked now is over."""
        return self._clock.now() + round(self._expiry * MICROSECONDS)

    async def ask(self, request: ApprovalRequest) -> Answer:
        """The answer for exactly this command in this session. What the approver raises is raised."""
        if self._approver is None:
            return _NOBODY
        key = (request.session, request.digest)
        while True:
            known = self._remembered(key)
            if known is not None:
                return known
            question = self._open.get(key)
            if question is None:
                return await self._put(request, key, self._approver)
            await question.answered.wait()
            if isinstance(question.answer, Refused):
                return question.answer

    async def _put(self, request: ApprovalRequest, key: tuple[str, str], approver: Approver) -> Answer:
        question = self._open[key] = _Question()
        try:
            with anyio.move_on_after(self._expiry):
                answer = approver(request)
                question.answer = _as_answer(await answer if inspect.isawaitable(answer) else answer)
            if question.answer is None or self._clock.now() >= request.expires_at:
                question.answer = Refused(f"It was not answered within {self._expiry:g} s.", lasts=0.0)
            until = self._clock.now() + round(question.answer.lasts * MICROSECONDS)
            self._known[key] = (question.answer, until)
            return question.answer
        finally:
            del self._open[key]
            question.answered.set()

    def _remembered(self, key: tuple[str, str]) -> Answer | None:
        now = self._clock.now()
        self._known = {other: known for other, known in self._known.items() if known[1] > now}
        known = self._known.get(key)
        return None if known is None else known[0]


def _as_answer(given: object) -> Answer:
    match given:
        case Approved() | Refused():
            return given
        case True:
            return Approved()
        case _:
            return Refused()  # False, None, and whatever else is not a yes


class ApprovalQueue:
    """An approver for a person at another place: requests wait here until they are answered by id, or expire.

    Commands wait meanwhile, as long as their own caller does. One queue may serve several workspaces.
    """

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._waiting: dict[str, tuple[ApprovalRequest, _Question]] = {}
        self._changed = anyio.Event()

    async def __call__(self, request: ApprovalRequest) -> Answer:
        """Wait for the answer to this request; Refused when it expires."""
        question = _Question()
        self._waiting[request.id] = (request, question)
        self._tell()
        try:
            with anyio.move_on_after(max(0.0, (request.expires_at - self._clock.now()) / MICROSECONDS)):
                await question.answered.wait()
            return question.answer or Refused(
                "It was not answered in time. Ask again when a person can answer.", lasts=0.0
            )
        finally:
            self._waiting.pop(request.id, None)
            self._tell()

    def pending(self) -> list[ApprovalRequest]:
        """The requests that wait for an answer, the oldest first; none that has expired."""
        now = self._clock.now()
        waiting = self._waiting.values()
        return [request for request, question in waiting if question.answer is None and request.expires_at > now]

    async def changed(self) -> None:
        """Returns when a request was added or is gone."""
        await self._changed.wait()

    def approve(self, request_id: str, *, lasts: float = EXPIRY) -> None:
        """Let it run. Raises ApprovalMissing for a request that was answered, has expired, or never was."""
        self._answer(request_id, Approved(lasts))

    def deny(self, request_id: str, reason: str = "", *, lasts: float = EXPIRY) -> None:
        """Refuse it; the caller is given the reason. Raises ApprovalMissing as `approve` does."""
        self._answer(request_id, Refused(reason, lasts))

    def _answer(self, request_id: str, answer: Answer) -> None:
        request, question = self._waiting.get(request_id, (None, None))
        if request is None or question is None or question.answer or request.expires_at <= self._clock.now():
            raise ApprovalMissing(request_id)
        question.answer = answer
        question.answered.set()
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


def request_id() -> str:
    """A new id of a request."""
    return new_id(REQUEST)
