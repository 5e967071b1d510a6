"""One shell call of a model, carried out in the response's container: its items, its output, its files.

The output item is announced before anything slow (a box may have to boot). A command that fails is a result; the failure of a
sandbox is reported to the model in the output, and the item is `incomplete`.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
from msgspec import UNSET, structs, to_builtins

from limpet.containers.captures import CaptureResult
from limpet.containers.lease import Lease
from limpet.core import events as ev
from limpet.core import exit_codes, ids
from limpet.core.command import START, Aborted, Command, Exited, Lost, Outcome, Position, Script
from limpet.core.errors import CommandRefused, FileError, LimpetError, RequestError, SandboxGone, StoreError
from limpet.core.ports import Process
from limpet.responses.command_output import CommandOutput
from limpet.responses.event_payloads import CommandResult
from limpet.responses.outcomes import UNKNOWN, is_without_result, stored_outcome
from limpet.responses.past_output import PastOutput, past_output
from limpet.responses.shell_audit import audit
from limpet.responses.shell_host import ShellHost
from limpet.responses.shell_items import CommandEntry, ShellCallOutputItem, output_file, wire_outcome
from limpet.responses.writer import Writer
from limpet.store.executions import Execution
from limpet.store.files import ContainerFileRecord
from limpet.upstreams.upstream import BadArguments, CallMade, ShellArguments
from limpet.workspace.audit import Call
from limpet.workspace.redacted_process import RedactedProcess

Json = dict[str, Any]
ACTION = "shell_call"
BOX_WAS_LOST = "The container's box was lost while the command ran; how far it came is not known."
ABORT_SECONDS = 5.0
RESPONSE_BYTES = 16 * 1024 * 1024  # command output in the items of one response


@dataclass(slots=True)
class _CallResult:
    """What has become of one call so far. `told` is what the journal has of the command that an earlier carrier of the run began."""

    entries: list[CommandEntry] = field(default_factory=list)
    files: list[ContainerFileRecord] = field(default_factory=list)
    more_files: int = 0
    complete: bool = True
    told: PastOutput | None = None


@dataclass(frozen=True, slots=True)
class _Ending:
    """How a command ended. `refusal` says why it was not even started; `process` still has its output."""

    outcome: Outcome
    refusal: CommandRefused | None = None
    process: Process | None = None


class ShellCalls:
    """Carries out the shell calls of one response, one after the other. `begun` are the commands of an earlier carrier of the run: none of
    them is started again. `newest` is the exec id of the newest, `files` are what calls wrote, by path."""

    def __init__(
        self,
        host: ShellHost,
        *,
        tenant: str,
        response_id: str,
        container_id: str,
        writer: Writer,
        begun: Sequence[Execution] = (),
    ) -> None:
        self._host = host
        self._tenant = tenant
        self._response_id = response_id
        self._container_id = container_id
        self._writer = writer
        self._made = 0
        self._begun = {execution.exec_id: execution for execution in begun}
        self.newest = begun[-1].exec_id if begun else ""
        self._bytes_left = RESPONSE_BYTES
        self._told: set[str] = set()
        self._to_forget: Process | None = None
        self.files: dict[str, ContainerFileRecord] = {}

    async def answer(self, call: CallMade) -> Json:
        """Run a call's commands and emit its output item. Returns the item."""
        arguments = call.arguments
        max_length = arguments.max_output_length if isinstance(arguments, ShellArguments) else None
        item = ShellCallOutputItem(
            id=ids.new_id(ids.SHELL_CALL_OUTPUT), call_id=call.call_id, max_output_length=max_length
        )
        index = self._writer.snapshot.next_index
        await self._writer.tell(ev.ITEM_ADDED, output_index=index, item=item)
        item = structs.replace(item, id=self._writer.snapshot.item(index)["id"])  # as it was told before, if it was
        told = past_output(self._writer, index)
        if told.item is not None:
            await self.recall(told.item)
            return told.item
        self._bytes_left -= sum(len(entry.stdout.encode()) + len(entry.stderr.encode()) for entry in told.entries)
        place = {"item_id": item.id, "output_index": index}
        answer = _CallResult(
            entries=list(told.entries), complete=not any(map(is_without_result, told.entries)), told=told
        )
        match arguments:
            case BadArguments(reason=reason):
                if not answer.entries:
                    await self._result(place, answer, "", f"{reason}\n", Exited(2))
            case ShellArguments():
                before = await self._captured_before(self._exec_id(len(arguments.commands) - 1))
                answer.files, answer.more_files = list(before.files), before.more
                await self._carry_out(call.call_id, arguments, place, answer)
        self._made += 1
        self.files |= {record.path: record for record in answer.files}
        done = structs.replace(
            item,
            status="completed" if answer.complete else "incomplete",
            output=answer.entries,
            output_files=[output_file(record) for record in answer.files],
            output_files_omitted=answer.more_files or UNSET,
        )
        await self._writer.tell(ev.ITEM_DONE, output_index=index, item=done)
        shown: Json = to_builtins(done)
        return shown

    async def recall(self, item: Json) -> None:
        """Count a call whose whole output an earlier carrier of the run has told."""
        self._made += 1
        for entry in item["output"]:
            self._bytes_left -= len(entry["stdout"].encode()) + len(entry["stderr"].encode())
        await self.recall_files(item)

    async def recall_files(self, item: Json) -> None:
        """The files that an output item lists are this response's."""
        for file in item.get("output_files", ()):
            with suppress(RequestError):  # it is gone by now, and not cited then
                found = await self._host.containers.files.get(self._tenant, self._container_id, file["file_id"])
                self.files[found.path] = found

    async def _captured_before(self, exec_id: str) -> CaptureResult:
        """What an earlier carrier of the run has captured after that command already."""
        if exec_id not in self._begun:
            return CaptureResult()
        return await self._host.containers.files.written(self._container_id, exec_id)

    async def _carry_out(self, call_id: str, arguments: ShellArguments, place: Json, answer: _CallResult) -> None:
        try:
            async with self._host.containers.lease(self._tenant, self._container_id, run=self._response_id) as lease:
                await self.look_before(lease)
                for number, text in list(enumerate(arguments.commands))[len(answer.entries) :]:
                    seconds = self._host.command_seconds(arguments.timeout_ms)
                    command = Command(what=Script(text), env=lease.env, timeout=seconds)
                    is_last = number == len(arguments.commands) - 1
                    await self._one(lease, command, call_id, number, place, answer, is_last=is_last)
        except SandboxGone as gone:
            reason = f"The container's box is gone: {gone.reason} The next call gets a new one."
            await self._failed(arguments.commands, place, answer, reason)
        except LimpetError as problem:
            await self._failed(arguments.commands, place, answer, problem.message)

    async def _failed(self, commands: Sequence[str], place: Json, answer: _CallResult, reason: str) -> None:
        """Every command that has no result gets the failure as one, so that the model can go on."""
        answer.complete = False
        while len(answer.entries) < len(commands):
            await self._result(place, answer, "", f"limpet: {reason}\n", Lost(reason))

    async def look_before(self, lease: Lease) -> None:
        """What was written before this response's first command is not this response's."""
        if not self.newest:
            with suppress(StoreError, FileError):  # the capture after the command meets the same, and tells it
                await lease.capture(None)

    async def _capture(self, lease: Lease, answer: _CallResult, printed: CommandOutput) -> None:
        """Record what the call wrote. Whatever comes of that, the command's own result stands; the model is told beside it."""
        try:
            captured = await lease.capture(self._response_id, printed.exec_id)
        except (StoreError, FileError) as problem:
            captured = CaptureResult(trouble=problem.message)
        newest = {record.path: record for record in (*answer.files, *captured.files)}
        answer.files = list(newest.values())
        self._host.metrics.files.inc(len(captured.files))
        answer.more_files += captured.more
        if captured.trouble is not None and captured.trouble not in self._told:
            self._told.add(captured.trouble)
            await printed.say("stderr", f"limpet: not all changed files could be recorded: {captured.trouble}\n")

    async def settle(self) -> None:
        """Before the answer ends: what detached processes have written since the last command is this response's too, and what is gone
        by now is not."""
        if not self.newest:
            return
        containers = self._host.containers
        try:
            before = await self._captured_before(self.newest)
            captured = await containers.capture(self._tenant, self._container_id, self._response_id, self.newest)
            self._host.metrics.files.inc(len(captured.files))
            written = self.files | {record.path: record for record in (*before.files, *captured.files)}
            there = await containers.files.recorded(self._container_id, written)
            self.files = {path: record for path, record in written.items() if path in there}
        except RequestError:
            self.files = {}  # the container ended, and all its files with it
        except (StoreError, FileError):
            pass  # the next look at the container's files sees it

    async def _one(
        self,
        lease: Lease,
        command: Command,
        call_id: str,
        number: int,
        place: Json,
        answer: _CallResult,
        *,
        is_last: bool,
    ) -> None:
        printed = self._printed(place, number)
        try:
            outcome = await self._outcome(lease, command, call_id, printed, answer)
        except anyio.get_cancelled_exc_class():
            if not self._host.keeps_commands():
                with anyio.CancelScope(shield=True):
                    await self._result(place, answer, *printed.texts(), Aborted())
            raise
        if not isinstance(outcome, Exited):
            answer.complete = False
        if isinstance(outcome, Lost):
            await printed.say("stderr", f"limpet: {outcome.reason}\n")
        if is_last:
            await self._capture(lease, answer, printed)
        self._bytes_left -= printed.size
        await self._result(place, answer, *printed.texts(), outcome)
        await self._forget_told()

    async def _forget_told(self) -> None:
        """The box's copy of the output goes once the result is in the journal."""
        if self._to_forget is not None:
            await self._writer.flush()
            process, self._to_forget = self._to_forget, None
            await process.forget()

    async def _outcome(
        self, lease: Lease, command: Command, call_id: str, printed: CommandOutput, answer: _CallResult
    ) -> Outcome:
        """Run it, or go on with it where an earlier carrier of the run has begun it."""
        told, answer.told = answer.told, None
        if told is not None:
            printed.resume(told)
        if (begun := self._begun.get(printed.exec_id)) is not None:
            return await self._go_on(lease, begun, command, printed, told or PastOutput(), call_id)
        # The turn that made this call is on disk before its command begins: asked again it could use this id for another one.
        await self._writer.flush()
        await self._intend(lease, printed.exec_id, call_id, len(answer.entries))
        if lease.note and not answer.entries:  # what the model should know before it reads this call's first output
            await printed.say("stderr", f"limpet: {lease.note}\n")
        return await self._run(lease, command, printed, call_id)

    async def _intend(self, lease: Lease, exec_id: str, call_id: str, number: int) -> None:
        self.newest = exec_id
        await self._host.executions.intend(
            Execution(
                exec_id=exec_id,
                tenant=self._tenant,
                response_id=self._response_id,
                container_id=self._container_id,
                boot_id=lease.boot_id,
                step=self._writer.step,
                call_id=call_id,
                command_index=number,
                started_at=self._host.clock.now(),
            )
        )

    async def _go_on(
        self, lease: Lease, begun: Execution, command: Command, printed: CommandOutput, told: PastOutput, call_id: str
    ) -> Outcome:
        """A command that an earlier carrier of the run was about to start, or had started: it is followed where it runs, and started only
        where it is certain that it never was."""
        if begun.outcome is not None:
            if (process := await lease.shell.find(begun.exec_id)) is not None:
                await self._follow(process, printed, told.since)
                await printed.end(process, lease.shell.files)
                self._to_forget = process
            return stored_outcome(begun.outcome)
        if begun.boot_id != lease.boot_id:
            lost = Lost(BOX_WAS_LOST)
            await self._note_end(begun.exec_id, _Ending(lost), 0.0)
            return lost
        return await self._run(lease, command, printed, call_id, since=told.since, is_known=True)

    def _exec_id(self, number: int) -> str:
        return f"{self._response_id}.{self._writer.step}.{self._made}.{number}"

    def _printed(self, place: Json, number: int) -> CommandOutput:
        exec_id = self._exec_id(number)
        limit = min(self._host.item_bytes, self._bytes_left // 2)
        return CommandOutput(self._writer, place, number, exec_id, limit=limit, streams=self._host.streams_output)

    async def _run(
        self,
        lease: Lease,
        command: Command,
        printed: CommandOutput,
        call_id: str,
        *,
        since: Position = START,
        is_known: bool = False,
    ) -> Outcome:
        ending: _Ending | None = None
        started = self._host.clock.monotonic()
        try:
            ending = await self._execute(lease, command, printed, call_id, since, is_known=is_known)
        except anyio.get_cancelled_exc_class():
            if not self._host.keeps_commands():
                ending = _Ending(Aborted())
            raise
        finally:
            is_noted = await self._note_end(printed.exec_id, ending, self._host.clock.monotonic() - started)
        if ending.process is not None and is_noted:  # else it might be started again
            if self._host.streams_output:
                await ending.process.forget()
            else:  # the box's copy is the only one until the result is told
                self._to_forget = ending.process
        return ending.outcome

    async def _execute(
        self,
        lease: Lease,
        command: Command,
        printed: CommandOutput,
        call_id: str,
        since: Position,
        *,
        is_known: bool,
    ) -> _Ending:
        try:
            # What runs already was admitted: it is not judged again.
            process = await lease.shell.find(printed.exec_id) if is_known else None
            call = Call(action=ACTION, call_id=call_id)
            process = process or await lease.shell.start(command, printed.exec_id, call=call)
        except CommandRefused as refusal:
            await printed.say("stderr", f"{refusal.message}\n")
            await self._writer.flush()
            return _Ending(Exited(exit_codes.CANNOT_RUN), refusal=refusal)
        outcome = await self._follow(process, printed, since)
        await printed.end(None if isinstance(outcome, Lost) else process, lease.shell.files)
        for note in process.notes():
            await printed.say("stderr", f"limpet: {note}\n")
        await self._writer.flush()
        # Where the sandbox is gone no output is left to read, and no process to tell to forget it.
        return _Ending(outcome, process=None if isinstance(outcome, Lost) else process)

    async def _note_end(self, exec_id: str, ending: _Ending | None, seconds: float) -> bool:
        """Write down how a command ended; None where that is not known. One that a closing gateway leaves alone has not ended. Whether
        it is written down."""
        goes_on = self._host.keeps_commands()
        outcome = ending.outcome if ending is not None else None if goes_on else Lost(UNKNOWN)
        audit(
            exec_id,
            tenant=self._tenant,
            container=self._container_id,
            response=self._response_id,
            seconds=seconds,
            outcome=outcome,
            refusal=None if ending is None else ending.refusal,
        )
        if outcome is None or (goes_on and isinstance(outcome, Lost)):
            return False
        self._host.metrics.commands.labels(type(outcome).__name__.lower()).inc()
        self._host.metrics.seconds.observe(seconds)
        with anyio.move_on_after(ABORT_SECONDS, shield=True) as waiting:
            await self._host.executions.finish(
                exec_id, outcome=to_builtins(wire_outcome(outcome)), at=self._host.clock.now()
            )
        return not waiting.cancelled_caught

    async def _follow(self, process: Process, printed: CommandOutput, since: Position) -> Outcome:
        if isinstance(process, RedactedProcess):
            process.resume_at(since)
        try:
            return await printed.follow(process, since)
        except anyio.get_cancelled_exc_class():
            if not self._host.keeps_commands():
                with anyio.move_on_after(ABORT_SECONDS, shield=True):
                    await process.abort()
            raise

    async def _result(self, place: Json, answer: _CallResult, stdout: str, stderr: str, outcome: Outcome) -> None:
        entry = CommandEntry(stdout=stdout, stderr=stderr, outcome=wire_outcome(outcome))
        done = CommandResult(**place, command_index=len(answer.entries), output=[entry])
        answer.entries.append(entry)
        await self._writer.tell(ev.OUTPUT_DONE, done)
