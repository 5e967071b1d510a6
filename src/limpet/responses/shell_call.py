"""One shell call of a model, carried out in the response's container: its items, its output, its files.

The output item is announced before anything slow (a box may have to boot). A command that fails is a result; a sandbox that
fails is told to the model in the output, and the item is `incomplete` (DESIGN section 7).
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import anyio

from limpet.containers.captures import Captured
from limpet.containers.container import ShellLimits
from limpet.containers.lease import Lease
from limpet.containers.manager import ContainerManager
from limpet.containers.shapes import shown
from limpet.core import events as ev
from limpet.core import ids
from limpet.core.clock import Clock
from limpet.core.command import START, Aborted, Command, Exited, Lost, Outcome, Script, Stream, TimedOut
from limpet.core.errors import CommandRefused, FileError, LimpetError, RequestError, SandboxGone, StoreError
from limpet.core.events import Event
from limpet.core.ports import Process
from limpet.guard.output import Clip, Decoder, trim_pair
from limpet.responses.metrics import Metrics
from limpet.responses.writer import Writer
from limpet.store.executions import Execution, Executions
from limpet.store.files import ContainerFileRecord
from limpet.upstreams.upstream import BadArguments, CallMade, ShellArguments

Json = dict[str, Any]
ABORT_SECONDS = 5.0
RESPONSE_BYTES = 16 * 1024 * 1024  # command output in the items of one response


def wire_outcome(outcome: Outcome) -> Json:
    """What strict clients know: `exit` and `timeout` only."""
    match outcome:
        case Exited(code):
            return {"type": "exit", "exit_code": code}
        case TimedOut():
            return {"type": "timeout"}
        case Aborted():
            return {"type": "exit", "exit_code": 130}
        case Lost():
            return {"type": "exit", "exit_code": 125}


def model_copy(item: Json, limit: int) -> Json:
    """The item as the model gets it back: each command's streams cut to head and tail, to `limit` or the call's own."""
    allowed = item.get("max_output_length") or limit
    entries = []
    for entry in item.get("output", []):
        stdout, stderr = trim_pair(entry.get("stdout", ""), entry.get("stderr", ""), allowed)
        entries.append({**entry, "stdout": stdout, "stderr": stderr})
    return {**item, "output": entries}


@dataclass(slots=True)
class _Answer:
    """What has become of one call so far."""

    entries: list[Json] = field(default_factory=list)
    files: list[ContainerFileRecord] = field(default_factory=list)
    complete: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellHost:
    """What a call needs of the gateway.

    `item_bytes` is what an item holds of one stream of one command. `keeps_commands` says that the gateway is closing: its boxes
    and their commands live on.
    """

    containers: ContainerManager
    executions: Executions
    clock: Clock
    limits: ShellLimits
    item_bytes: int
    metrics: Metrics
    streams_output: bool = True
    keeps_commands: Callable[[], bool] = lambda: False


class ShellCalls:
    """Carries out the shell calls of one response, one after the other."""

    def __init__(
        self,
        host: ShellHost,
        *,
        tenant: str,
        response_id: str,
        container_id: str,
        writer: Writer,
        note: str | None = None,
    ) -> None:
        self._host = host
        self._tenant = tenant
        self._response_id = response_id
        self._container_id = container_id
        self._writer = writer
        self._note = note
        self._made = 0
        self._has_run = False
        self._bytes_left = RESPONSE_BYTES
        self.files: dict[str, ContainerFileRecord] = {}

    async def answer(self, call: CallMade) -> Json:
        """Run a call's commands and emit its output item. Returns the item."""
        arguments = call.arguments
        max_length = arguments.max_output_length if isinstance(arguments, ShellArguments) else None
        item: Json = {
            "id": ids.new_id(ids.SHELL_CALL_OUTPUT),
            "type": "shell_call_output",
            "call_id": call.call_id,
            "status": "in_progress",
            "max_output_length": max_length,
            "output": [],
        }
        index = self._writer.snapshot.next_index
        await self._writer.tell(ev.ITEM_ADDED, output_index=index, item=item)
        place = {"item_id": item["id"], "output_index": index}
        match arguments:
            case BadArguments(reason=reason):
                answer = _Answer()
                await self._result(place, answer, "", f"{reason}\n", Exited(2))
            case ShellArguments():
                answer = await self._carry_out(call.call_id, arguments, place)
        self._made += 1
        self.files |= {record.path: record for record in answer.files}
        done = {
            **item,
            "status": "completed" if answer.complete else "incomplete",
            "output": answer.entries,
            "output_files": [output_file(record) for record in answer.files],
        }
        await self._writer.tell(ev.ITEM_DONE, output_index=index, item=done)
        return done

    async def _carry_out(self, call_id: str, arguments: ShellArguments, place: Json) -> _Answer:
        answer = _Answer()
        try:
            async with self._host.containers.lease(self._tenant, self._container_id) as lease:
                await self._look_before(lease)
                for number, text in enumerate(arguments.commands):
                    command = Command(what=Script(text), timeout=self._timeout(arguments))
                    is_last = number == len(arguments.commands) - 1
                    await self._one(lease, command, call_id, number, place, answer, is_last=is_last)
        except SandboxGone as gone:
            reason = f"The container's box is gone: {gone.reason} The next call gets a new one."
            await self._failed(arguments.commands, place, answer, reason)
        except LimpetError as problem:
            await self._failed(arguments.commands, place, answer, problem.message)
        return answer

    def _notes(self, lease: Lease, answer: _Answer) -> list[str]:
        """What the model should know before it reads this call's first output; each is said once."""
        if answer.entries:
            return []
        notes = [note for note in (self._note, lease.note) if note]
        self._note = None
        return notes

    def _timeout(self, arguments: ShellArguments) -> float:
        cap = float(self._host.limits.command_timeout_secs)
        asked = arguments.timeout_ms
        return min(cap, asked / 1000) if asked is not None and asked > 0 else cap

    async def _failed(self, commands: Sequence[str], place: Json, answer: _Answer, reason: str) -> None:
        """Every command that has no result gets the failure as one, so that the model can go on."""
        answer.complete = False
        while len(answer.entries) < len(commands):
            await self._result(place, answer, "", f"limpet: {reason}\n", Lost(reason))

    async def _look_before(self, lease: Lease) -> None:
        """What was written before this response's first command is not this response's."""
        if not self._has_run:
            self._has_run = True
            with suppress(StoreError, FileError):  # the capture after the command meets the same, and tells it
                await lease.capture(None)

    async def _capture(self, lease: Lease, answer: _Answer, printed: "_Printed") -> None:
        """Record what the call wrote. Whatever comes of that, the command's own result stands; the model is told beside it."""
        try:
            captured = await lease.capture(self._response_id)
        except (StoreError, FileError) as problem:
            captured = Captured(trouble=problem.message)
        answer.files += captured.files
        self._host.metrics.files.inc(len(captured.files))
        if captured.trouble is not None:
            await printed.say("stderr", f"limpet: not all changed files could be recorded: {captured.trouble}\n")
        elif captured.left:
            await printed.say(
                "stderr", f"limpet: {captured.left} more changed files will be recorded with the next command.\n"
            )

    async def settle(self) -> None:
        """Before the answer ends: what detached processes have written since the last command is this response's too."""
        if not self._has_run:
            return
        with suppress(StoreError, FileError, RequestError):  # the next look at the container's files sees it
            captured = await self._host.containers.capture(self._tenant, self._container_id, self._response_id)
            self.files |= {record.path: record for record in captured.files}
            self._host.metrics.files.inc(len(captured.files))

    async def _one(
        self,
        lease: Lease,
        command: Command,
        call_id: str,
        number: int,
        place: Json,
        answer: _Answer,
        *,
        is_last: bool,
    ) -> None:
        exec_id = f"{self._response_id}.{self._writer.step}.{self._made}.{number}"
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
        printed = self._printed(place, number, exec_id)
        for note in self._notes(lease, answer):
            await printed.say("stderr", f"limpet: {note}\n")
        outcome: Outcome = Lost("It is not known how the command ended.")
        started = self._host.clock.monotonic()
        try:
            outcome = await self._execute(lease, command, exec_id, printed)
        finally:
            if not self._host.keeps_commands():
                with anyio.move_on_after(ABORT_SECONDS, shield=True):
                    await self._note_end(exec_id, outcome, self._host.clock.monotonic() - started)
        if not isinstance(outcome, Exited):
            answer.complete = False
        if isinstance(outcome, Lost):
            await printed.say("stderr", f"limpet: {outcome.reason}\n")
        if is_last:
            await self._capture(lease, answer, printed)
        self._bytes_left -= printed.size
        await self._result(place, answer, *printed.texts(), outcome)

    def _printed(self, place: Json, number: int, exec_id: str) -> "_Printed":
        limit = min(self._host.item_bytes, self._bytes_left // 2)
        return _Printed(self._writer, place, number, exec_id, limit=limit, streams=self._host.streams_output)

    async def _execute(self, lease: Lease, command: Command, exec_id: str, printed: "_Printed") -> Outcome:
        try:
            process = await lease.workspace.start(command, exec_id)
        except CommandRefused as refusal:
            await printed.say("stderr", f"{refusal.message}\n")
            return Exited(126)
        outcome = await self._follow(process, printed)
        for note in process.notes():
            await printed.say("stderr", f"limpet: {note}\n")
        if isinstance(outcome, Lost):
            return outcome  # There is nothing left to read from, and nobody to tell.
        if printed.is_clipped:
            await printed.keep_whole(process, lease)
        await self._writer.flush()
        await process.forget()
        return outcome

    async def _note_end(self, exec_id: str, outcome: Outcome, seconds: float) -> None:
        self._host.metrics.commands.labels(type(outcome).__name__.lower()).inc()
        self._host.metrics.seconds.observe(seconds)
        await self._host.executions.finish(exec_id, outcome=wire_outcome(outcome), at=self._host.clock.now())

    async def _follow(self, process: Process, printed: "_Printed") -> Outcome:
        try:
            with suppress(SandboxGone):  # `wait` says the same as an outcome, and what was printed before stays.
                async for chunk in process.output():
                    await printed.take(chunk.stream, chunk.data)
            await printed.end()
            return await process.wait()
        except anyio.get_cancelled_exc_class():
            if not self._host.keeps_commands():
                with anyio.move_on_after(ABORT_SECONDS, shield=True):
                    await process.abort()
            raise

    async def _result(self, place: Json, answer: _Answer, stdout: str, stderr: str, outcome: Outcome) -> None:
        entry = {"stdout": stdout, "stderr": stderr, "outcome": wire_outcome(outcome)}
        data = {**place, "command_index": len(answer.entries), "output": [entry]}
        answer.entries.append(entry)
        await self._writer.tell(ev.OUTPUT_DONE, **data)


class _Printed:
    """The text of one command as it goes to the client, clipped per stream."""

    def __init__(self, writer: Writer, place: Json, number: int, exec_id: str, *, limit: int, streams: bool) -> None:
        self._writer = writer
        self._place = {**place, "command_index": number}
        self._exec_id = exec_id
        self._streams = streams
        self.size = 0
        self._decoders: dict[Stream, Decoder] = {"stdout": Decoder(), "stderr": Decoder()}
        self._clips: dict[Stream, Clip] = {stream: Clip(limit) for stream in self._decoders}
        self._texts: dict[Stream, list[str]] = {"stdout": [], "stderr": []}

    @property
    def is_clipped(self) -> bool:
        return any(clip.dropped for clip in self._clips.values())

    def texts(self) -> tuple[str, str]:
        return "".join(self._texts["stdout"]), "".join(self._texts["stderr"])

    async def take(self, stream: Stream, data: bytes) -> None:
        decoded = self._decoders[stream].feed(data)
        await self._pass(stream, self._clips[stream].admit(decoded.text), decoded.raw_offset)

    async def end(self) -> None:
        """What the decoders still held: a broken character at the very end."""
        for stream, decoder in self._decoders.items():
            rest = decoder.end()
            await self._pass(stream, self._clips[stream].admit(rest.text), rest.raw_offset)

    async def say(self, stream: Stream, text: str) -> None:
        """Words of ours among the output; they are never clipped."""
        await self._pass(stream, text, None)

    async def keep_whole(self, process: Process, lease: Lease) -> None:
        """Put the whole of each clipped stream in a file of the container, and name it where the text was cut."""
        for stream, clip in self._clips.items():
            if not clip.dropped:
                continue
            path = f"/mnt/data/limpet-output/{self._exec_id}.{stream}"
            try:
                stat = await lease.workspace.files.write(path, _bytes_of(process, stream))
                where = f"the whole {stream}, {stat.size} bytes, is in {path}"
            except FileError as problem:
                where = f"the whole {stream} could not be kept: {problem.message}"
            except SandboxGone as problem:  # also where it was more than a runtime keeps to be read again
                where = f"the whole {stream} could not be kept: {problem.reason}"
            await self.say(stream, f"\n... [{clip.dropped} bytes left out; {where}] ...\n")

    async def _pass(self, stream: Stream, text: str, raw_offset: int | None) -> None:
        if not text:
            return
        self._texts[stream].append(text)
        self.size += len(text.encode(errors="replace"))
        if self._streams:
            await self._writer.emit(
                Event(
                    type=ev.OUTPUT_DELTA,
                    data={**self._place, "delta": {stream: text}},
                    exec_id=self._exec_id,
                    stream=stream,
                    raw_offset=raw_offset,
                )
            )


async def _bytes_of(process: Process, stream: Stream) -> AsyncIterator[bytes]:
    async for chunk in process.output(START):
        if chunk.stream == stream:
            yield chunk.data


def output_file(record: ContainerFileRecord) -> Json:
    """One entry of `output_files` (seed 04, the output item)."""
    path = shown(record.path)
    shape: Json = {
        "container_id": record.container_id,
        "file_id": record.id,
        "filename": path.rsplit("/", 1)[-1],
        "path": path,
        "bytes": record.bytes,
        "content_type": record.content_type,
        "source": record.source,
    }
    if record.too_large:
        shape["too_large"] = True
    return shape
