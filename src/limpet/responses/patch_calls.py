"""A model's `apply_patch` calls, carried out on the files of the response's container.

What is about to be written is on disk, by its digest, before it is written: a run that is taken up again knows whether it was, and no
diff is applied twice. A diff that does not fit, and a path that may not be changed, are failed outputs that the model can act on.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import Any, Literal

import msgspec
from anyio import to_thread
from msgspec import UNSET

from limpet.containers.captures import CaptureResult
from limpet.containers.lease import Lease
from limpet.core import events as ev
from limpet.core import ids
from limpet.core.command import Exited
from limpet.core.errors import FileDenied, FileError, LimpetError, SandboxGone, StoreError
from limpet.responses.past_output import past_output
from limpet.responses.patch_items import PatchCallOutputItem
from limpet.responses.shell_audit import audit
from limpet.responses.shell_call import ShellCalls
from limpet.responses.shell_host import ShellHost
from limpet.responses.shell_items import output_file
from limpet.responses.writer import Writer
from limpet.store.executions import Execution
from limpet.upstreams.patch_function import OPERATIONS
from limpet.workspace.v4a import DiffFailed, created, updated
from limpet.workspace.workspace import Workspace

Json = dict[str, Any]
MOST_SAID = 4_000  # characters of an output
UNREADABLE = "The call could not be read. Send `type` (create_file, update_file or delete_file), `path`, and but for delete_file `diff`."
CHANGED = (
    "The gateway was interrupted while it applied this, and the file has changed since then. Look at the file, and send what is "
    "missing of the change."
)
CHANGED_PERHAPS = (
    "The gateway was interrupted while it applied this. Look at the file, and send what is missing of the change."
)


class PatchFailed(Exception):
    """The sentence is the call's output. `rule` is the setting of the policy that forbids it, where one does."""

    def __init__(self, sentence: str, rule: str | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.rule = rule


@dataclass(frozen=True, slots=True)
class PatchResult:
    """What came of a call."""

    status: Literal["completed", "failed"]
    output: str
    rule: str | None = None


class PatchCalls:
    """Carries out the calls of one response beside those of its `shell`, in the same container. `begun` are the calls and commands of an
    earlier carrier of the run."""

    def __init__(
        self,
        host: ShellHost,
        shell: ShellCalls,
        *,
        tenant: str,
        response_id: str,
        container_id: str,
        writer: Writer,
        begun: Sequence[Execution] = (),
    ) -> None:
        self._host = host
        self.threads = host.patch_threads
        self._shell = shell
        self._tenant = tenant
        self._response_id = response_id
        self._container_id = container_id
        self._writer = writer
        self._begun = {execution.exec_id: execution for execution in begun}

    async def answer(self, item: Mapping[str, Any]) -> Json:
        """Apply one `apply_patch_call` and tell its output item, which is returned."""
        index = self._writer.snapshot.next_index
        if (told := past_output(self._writer, index).item) is not None:
            await self._shell.recall_files(told)
            return told
        call_id = str(item["call_id"])
        exec_id = f"{self._response_id}.{self._writer.step}.0.0"
        started = self._host.clock.monotonic()
        result, captured = await self._carried_out(item.get("operation"), exec_id, call_id)
        audit(
            exec_id,
            tenant=self._tenant,
            container=self._container_id,
            response=self._response_id,
            seconds=self._host.clock.monotonic() - started,
            outcome=Exited(0 if result.status == "completed" else 1),
            rule=result.rule,
        )
        self._shell.files |= {record.path: record for record in captured.files}
        self._host.metrics.files.inc(len(captured.files))
        before = self._writer.snapshot.next_index > index  # its beginning was told by an earlier carrier of the run
        id = self._writer.snapshot.item(index)["id"] if before else ids.new_id(ids.PATCH_CALL_OUTPUT)
        done = PatchCallOutputItem(id=id, call_id=call_id, status=result.status, output=result.output)
        if not before:
            await self._writer.tell(ev.ITEM_ADDED, output_index=index, item=done)
        done = msgspec.structs.replace(
            done,
            output_files=[output_file(record) for record in captured.files],
            output_files_omitted=captured.more or UNSET,
        )
        await self._writer.tell(ev.ITEM_DONE, output_index=index, item=done)
        shown: Json = msgspec.to_builtins(done)
        return shown

    async def _carried_out(self, operation: object, exec_id: str, call_id: str) -> tuple[PatchResult, CaptureResult]:
        begun = self._begun.get(exec_id)
        before = CaptureResult()  # what an earlier carrier of the run has recorded already
        if begun is not None:
            before = await self._host.containers.files.written(self._container_id, exec_id)
        if begun is not None and begun.finished_at is not None:
            return PatchResult(**(begun.outcome or {})), before
        result: PatchResult | None = None
        problem = ""
        captured = CaptureResult()
        try:
            # The turn that made this call is on disk before anything is written.
            await self._writer.flush()
            async with self._host.containers.lease(self._tenant, self._container_id, run=self._response_id) as lease:
                await self._shell.look_before(lease)
                self._shell.newest = exec_id  # what is written from now on is this response's
                result = await self._applied(lease, operation, exec_id, call_id, begun)
                captured = await self._captured(lease, exec_id)
        except SandboxGone as gone:
            problem = f"The container's box is gone: {gone.reason} The next call gets a new one."
        except LimpetError as error:
            problem = error.message
        if result is None:
            return PatchResult("failed", problem), CaptureResult()
        files = {record.path: record for record in (*before.files, *captured.files)}
        return result, CaptureResult(files=tuple(files.values()), more=before.more + captured.more)

    async def _captured(self, lease: Lease, exec_id: str) -> CaptureResult:
        with suppress(StoreError, FileError):  # the next capture sees it
            return await lease.capture(self._response_id, exec_id)
        return CaptureResult()

    async def _applied(
        self, lease: Lease, operation: object, exec_id: str, call_id: str, begun: Execution | None
    ) -> PatchResult:
        path = operation.get("path") if isinstance(operation, Mapping) else None
        try:
            if not isinstance(operation, Mapping) or not _is_readable(operation):
                raise PatchFailed(UNREADABLE)
            if begun is not None and not begun.outcome:
                raise PatchFailed(CHANGED_PERHAPS)
            change = _Change(self, lease, operation, exec_id, call_id, begun)
            await lease.shell.files.rewrite(str(path), change.made)
            result = PatchResult("completed", change.said)
        except PatchFailed as problem:
            result = PatchResult("failed", problem.sentence, problem.rule)
        except FileDenied as denied:
            result = PatchResult("failed", denied.message, denied.rule)
        except FileError as problem:
            result = PatchResult("failed", problem.message)
        result = PatchResult(result.status, _screened(lease, result.output), result.rule)
        # What was written stays written: the digests of the intent tell it to a later carrier of the run as well.
        with suppress(StoreError):
            await self._finish(lease, exec_id, call_id, result)
        return result

    async def _finish(self, lease: Lease, exec_id: str, call_id: str, result: PatchResult) -> None:
        """Write down the result. A call that failed before its intent has one row, which is finished: an intent always has digests."""
        outcome = {"status": result.status, "output": result.output}
        if exec_id in self._begun:
            await self._host.executions.finish(exec_id, outcome=outcome, at=self._host.clock.now())
            return
        failed = self._execution(lease, exec_id, call_id, outcome)
        await self._host.executions.intend(replace(failed, finished_at=failed.started_at))

    async def intend(self, lease: Lease, exec_id: str, call_id: str, digests: Json) -> None:
        """Write down what is about to be written."""
        execution = self._execution(lease, exec_id, call_id, digests)
        await self._host.executions.intend(execution)
        self._begun[exec_id] = execution

    def _execution(self, lease: Lease, exec_id: str, call_id: str, outcome: Json) -> Execution:
        return Execution(
            exec_id=exec_id,
            tenant=self._tenant,
            response_id=self._response_id,
            container_id=self._container_id,
            boot_id=lease.boot_id,
            step=self._writer.step,
            call_id=call_id,
            command_index=0,
            started_at=self._host.clock.now(),
            outcome=outcome,
        )


@dataclass(slots=True)
class _Change:
    """One operation: `made` is given what the file holds and gives what it shall hold; `said` is what the model is told then."""

    calls: PatchCalls
    lease: Lease
    operation: Mapping[str, Any]
    exec_id: str
    call_id: str
    begun: Execution | None
    said: str = ""

    async def made(self, before: bytes | None) -> bytes | None:
        """Raises PatchFailed."""
        kind, path = self.operation["type"], self.operation["path"]
        done = {"create_file": "Created", "update_file": "Updated", "delete_file": "Deleted"}[kind]
        self.said = f"{done} {path}"
        intended = self.begun.outcome if self.begun is not None else None
        # What takes time in proportion to the file does not hold up the others.
        work = partial(_decided, kind, path, self.operation.get("diff"), before, intended)
        after, digests = await to_thread.run_sync(work, limiter=self.calls.threads)
        if self.begun is None:
            await self.calls.intend(self.lease, self.exec_id, self.call_id, digests)
        return after


def _decided(
    kind: str, path: str, diff: object, before: bytes | None, intended: Json | None
) -> tuple[bytes | None, Json]:
    """What the file shall hold, and the digests of that and of what it holds. Raises PatchFailed."""
    found = _digest(before)
    if intended is not None and found == intended["after"]:
        return before, intended  # it was written before the gateway was interrupted
    if intended is not None and found != intended["before"]:
        raise PatchFailed(CHANGED)
    after = _changed(kind, path, diff, before)
    return after, {"before": found, "after": _digest(after)}


def _changed(kind: str, path: str, diff: object, before: bytes | None) -> bytes | None:
    """Raises PatchFailed."""
    if kind == "create_file" and before is not None:
        raise PatchFailed(f"{path} exists already. Change it with update_file, or delete it first.")
    if kind != "create_file" and before is None:
        raise PatchFailed(f"{path} does not exist. Make it with create_file, or look for the right path.")
    if kind == "delete_file":
        return None
    try:
        text = (before or b"").decode(errors="surrogateescape")
        after = created(str(diff)) if before is None else updated(text, str(diff))
        return after.encode(errors="surrogateescape")
    except DiffFailed as problem:
        raise PatchFailed(f"{path} was not changed. {problem}") from problem
    except UnicodeEncodeError as problem:
        raise PatchFailed(f"{path} was not changed. The diff has half of a surrogate pair.") from problem


def _is_readable(operation: Mapping[str, Any]) -> bool:
    kind, path, diff = operation.get("type"), operation.get("path"), operation.get("diff")
    return (
        kind in OPERATIONS
        and isinstance(path, str)
        and bool(path.strip())
        and "\0" not in path
        and (kind == "delete_file" or isinstance(diff, str))
    )


def _screened(lease: Lease, text: str) -> str:
    """The text without what the operator's redaction and the container's secrets hide in output."""
    shell = lease.shell
    if isinstance(shell, Workspace) and shell.screens:
        text = shell.redactor.text(text)
    return text if len(text) <= MOST_SAID else f"{text[:MOST_SAID]}…"


def _digest(data: bytes | None) -> str:
    return "" if data is None else sha256(data).hexdigest()
