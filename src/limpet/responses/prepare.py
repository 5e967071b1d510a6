"""From a checked request to a run: the provider, the history, the container. What a client did wrong is found here."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import anyio
import structlog
from anyio import CapacityLimiter

from limpet.containers.manager import ContainerManager
from limpet.core import ids
from limpet.core.clock import Clock
from limpet.core.errors import LimpetError
from limpet.responses.checkpoint import Checkpoint
from limpet.responses.compaction.expansion import check_triggers
from limpet.responses.context_compaction import ContextCompaction
from limpet.responses.conversation_items import AS_IT_IS, ConversationItems
from limpet.responses.earlier_items import EarlierItems
from limpet.responses.history import History, check_outputs, completed, trimmed
from limpet.responses.hosted_tools import HostedTools
from limpet.responses.inputs import InputFiles, ResolvedFile, as_placed, marked, unmarked
from limpet.responses.loop import LoopBounds, Run
from limpet.responses.metrics import Metrics
from limpet.responses.placement import Placement, ShellTarget
from limpet.responses.prepared_run import PreparedRun, RunParts
from limpet.responses.provider_parameters import check_parameters
from limpet.responses.request import CONVERSATION_END, ParsedRequest, restored
from limpet.responses.request_tools import Local
from limpet.responses.resource import resolved_tools
from limpet.responses.run_meter import RunMeter, Spendings
from limpet.responses.run_options import log_left_out, provider_options, with_note
from limpet.responses.run_secrets import RunSecrets
from limpet.responses.settings import ServerToolSettings
from limpet.responses.shell_host import ShellHost
from limpet.responses.tool_credentials import credentials_of
from limpet.responses.tool_selection import ToolSelection, selected
from limpet.responses.writer import Writer
from limpet.store.containers import ContainerRecord
from limpet.store.executions import Execution, Executions
from limpet.store.idempotency import IdempotencyKey
from limpet.store.journal import Journal
from limpet.store.responses import ResponseRecord, Responses
from limpet.upstreams.routing import Router
from limpet.upstreams.upstream import Turn, Upstream

log = structlog.get_logger()
Json = dict[str, Any]
PATCH_THREADS = 4  # diffs that are applied at once; the threads of everything else stay free
CLEARING = 15.0  # seconds for deleting a container that was made for a request which then failed


class Preparer:
    """Knows everything that a run needs."""

    def __init__(
        self,
        *,
        responses: Responses,
        executions: Executions,
        journal: Journal,
        router: Router,
        containers: ContainerManager,
        clock: Clock,
        settings: ServerToolSettings,
        streams_output: bool,
        owner: str,
        data: str,
        hosted: HostedTools,
        metrics: Metrics,
        files: InputFiles,
        conversations: ConversationItems,
        spendings: Spendings,
        context: ContextCompaction,
    ) -> None:
        self._responses = responses
        self._executions = executions
        self._router = router
        self._containers = containers
        self._clock = clock
        self._settings = settings
        self._limits = settings.shell_limits
        self._streams_output = streams_output
        self._owner = owner
        self._data = data
        self._hosted = hosted
        self._metrics = metrics
        self._patch_threads = CapacityLimiter(PATCH_THREADS)
        self._files = files
        self.spendings = spendings
        self.context = context
        self._placement = Placement(containers, executions)
        self._earlier = EarlierItems(responses, journal, conversations, characters=self._limits.max_output_chars)

    async def prepare(self, tenant: str, asked: ParsedRequest, *, keeps_commands: Callable[[], bool]) -> PreparedRun:
        """Raises RequestError. The container's row is made last, when nothing else can be wrong any more."""
        chosen = self._router.find(asked.body.model)
        asked = await self._hosted.delegated(tenant, asked, chosen.upstream)
        selection = self._selected(asked, chosen.upstream)
        check_parameters(asked, chosen.upstream)
        check_triggers(asked.input)
        before = await self._before(tenant, asked, chosen.upstream)
        asked, holders = await self._earlier.resolved(tenant, asked, before, provider=chosen.upstream.name)
        opened = await self._opened(tenant, asked, before, chosen.upstream)
        await self._files.check_images(tenant, asked.input)
        response_id = ids.new_id(ids.RESPONSE)
        await self.spendings.look(tenant)
        meter = RunMeter(self.spendings.budget(tenant, response_id, asked, conversation=before.spent))
        asked = replace(asked, input=unmarked(asked.input))

        async def find() -> ShellTarget:
            traced = replace(before, items=[*before.items, *opened])
            return await self._placement.target(tenant, asked, before=traced, holders=holders, response_id=response_id)

        asked, target = await self._settle(tenant, asked, find, upstream=chosen.upstream)
        transcript = await self._transcript(tenant, asked.input, before, chosen.upstream)
        notes = [*selection.notes(chosen.upstream.name), *self.context.notes(asked, chosen.upstream)]
        record = self._record(tenant, asked, target, response_id, provider=chosen.upstream.name, notes=notes)
        if asked.conversation_id is not None:
            record.request[CONVERSATION_END] = before.end
        parts = RunParts(
            chosen=chosen, selection=selection, target=target, transcript=transcript, record=record, meter=meter
        )
        make_run = self._run_maker(asked, parts, self._host(keeps_commands, meter))
        log_left_out(record, selection)
        return PreparedRun(
            record=record,
            is_stored=asked.is_stored,
            left_out=selection.left_out,
            make_run=make_run,
            meter=meter,
            made_container=target.is_new,
            checkpoint=Checkpoint(note=target.note).encoded(),
            network=self._containers.networks.usage_from_now(target.container_id),
            secrets=self._secrets(asked, target, record),
            revision=before.revision,
        )

    async def first_turn(self, tenant: str, asked: ParsedRequest) -> tuple[Upstream, Turn]:
        """What the provider would be asked first. Nothing is made. Raises RequestError."""
        chosen = self._router.find(asked.body.model)
        asked = await self._hosted.delegated(tenant, asked, chosen.upstream)
        selection = self._selected(asked, chosen.upstream)
        before = await self._before(tenant, asked, chosen.upstream, end=AS_IT_IS)
        asked, _ = await self._earlier.resolved(tenant, asked, before, provider=chosen.upstream.name)
        await self._opened(tenant, asked, before, chosen.upstream)
        is_local = asked.shell is not None and isinstance(asked.shell.environment, Local)
        items = unmarked(asked.input) if asked.shell is None or is_local else as_placed(asked.input)
        return chosen.upstream, Turn(
            model=chosen.model,
            input=await self._transcript(tenant, items, before, chosen.upstream),
            instructions=asked.body.instructions,
            tools=selection.tools,
            shell=self._hosted.shell(asked, ShellTarget(environment={"type": "local"} if is_local else None)),
            provider_shell=asked.provider_shell,
            options=provider_options(asked, selection, chosen.upstream),
        )

    async def record(self, prepared: PreparedRun, key: IdempotencyKey | None = None) -> None:
        """Store the row of what was prepared. Raises RequestInvalid (conversation_locked) and IdempotencyKeyTaken; then nothing of it is
        left."""
        try:
            await self._responses.insert(
                prepared.record,
                checkpoint=prepared.checkpoint,
                sealed=prepared.secrets.sealed(),
                revision=prepared.revision,
                key=key,
            )
        except BaseException:
            if prepared.made_container:
                with anyio.move_on_after(CLEARING, shield=True):
                    await self.end_unused(prepared.record)
            raise

    async def restore(
        self,
        record: ResponseRecord,
        progress: Checkpoint,
        *,
        begun: Sequence[Execution],
        sealed: bytes | None,
        keeps_commands: Callable[[], bool],
    ) -> PreparedRun:
        """The run of a stored request, in the container that it was given; `begun` are its commands, `sealed` its secrets. Raises
        RequestError where it cannot be made any more, as when the response that it was chained to is deleted."""
        secrets = RunSecrets.unsealed(record, sealed, containers=self._containers)
        chosen = self._router.find(record.model)
        asked = restored(secrets.request(), record.input)
        asked = await self._hosted.delegated(record.tenant, asked, chosen.upstream)
        selection = self._selected(asked, chosen.upstream)
        end = record.request.get(CONVERSATION_END)
        before = await self._before(record.tenant, asked, chosen.upstream, end=end)
        await self.spendings.look(record.tenant)
        meter = RunMeter(self.spendings.budget(record.tenant, record.id, asked, conversation=before.spent))
        parts = RunParts(
            meter=meter,
            chosen=chosen,
            selection=selection,
            target=replace(
                await self._placement.given(record.tenant, asked, record.container_id, note=progress.note),
                secrets=tuple(secrets.given),
            ),
            transcript=await self._transcript(record.tenant, asked.input, before, chosen.upstream),
            record=record,
            begun=begun,
        )
        make_run = self._run_maker(asked, parts, self._host(keeps_commands, meter))
        network = self._containers.networks.usage_from_now(record.container_id)
        return PreparedRun(
            record=record,
            is_stored=True,
            make_run=make_run,
            meter=meter,
            made_container=True,
            network=network,
            secrets=secrets,
        )

    def _secrets(self, asked: ParsedRequest, target: ShellTarget, record: ResponseRecord) -> RunSecrets:
        tools = credentials_of(asked.body.tools or [], shells=asked.provider_shell is not None)
        return RunSecrets(containers=self._containers, record=record, given=target.secrets, tools=tools)

    def _run_maker(self, asked: ParsedRequest, parts: RunParts, host: ShellHost) -> Callable[[Writer], Run]:
        shell = self._hosted.shell(asked, parts.target)
        compactor = self.context.compactor(
            asked,
            chosen=parts.chosen,
            target=parts.target,
            shell=shell,
            tenant=parts.record.tenant,
            response_id=parts.record.id,
        )

        def make_run(writer: Writer) -> Run:
            return Run(
                upstream=parts.chosen.upstream,
                model=parts.chosen.model,
                instructions=with_note(asked.body.instructions, parts.target.note),
                transcript=parts.transcript,
                tools=parts.selection.tools,
                options=provider_options(asked, parts.selection, parts.chosen.upstream),
                shell=shell,
                provider_shell=self._hosted.provided(parts.record.tenant, asked),
                environment=parts.target.environment or {},
                calls=self._hosted.calls(asked, parts, host, writer),
                bounds=LoopBounds(
                    turns=max(2, self._settings.max_iterations),
                    calls=asked.body.max_tool_calls,
                    model_characters=self._limits.max_output_chars,
                ),
                writer=writer,
                response_id=parts.record.id,
                streams_shell=self._streams_output,
                is_prewarm=asked.is_prewarm,
                compactor=compactor,
                meter=parts.meter,
            )

        return make_run

    def _selected(self, asked: ParsedRequest, upstream: Upstream) -> ToolSelection:
        return selected(
            asked.other_tools,
            asked.options().get("tool_choice"),
            upstream=upstream,
            has_shell=asked.shell is not None,
            unsupported=self._settings.unsupported,
        )

    async def end_unused(self, record: ResponseRecord) -> None:
        """End the container that was made for a response, if it never used it. Where that fails, it expires by its time to live."""
        if record.container_id is None:
            return
        try:
            await self._containers.unused.end(record.container_id, response_id=record.id)
        except (LimpetError, OSError) as problem:
            log.warning("container_not_ended", container_id=record.container_id, reason=str(problem))

    def _host(self, keeps_commands: Callable[[], bool], meter: RunMeter) -> ShellHost:
        return ShellHost(
            containers=self._containers,
            executions=self._executions,
            clock=self._clock,
            limits=self._limits,
            item_bytes=self._limits.max_item_output_bytes,
            streams_output=self._streams_output,
            metrics=self._metrics,
            patch_threads=self._patch_threads,
            keeps_commands=keeps_commands,
            meter=meter,
        )

    async def _settle(
        self, tenant: str, asked: ParsedRequest, find: Callable[[], Awaitable[ShellTarget]], *, upstream: Upstream
    ) -> tuple[ParsedRequest, ShellTarget]:
        """The target that `find` gives, and the response's input with what is to be stored of the files in it: they are there now."""
        if asked.shell is None or isinstance(asked.shell.environment, Local):
            await self._files.check_shown(tenant, asked.input, provider=upstream.name, type=upstream.type)
            return asked, await find()
        async with self._files.gathered(tenant, asked.input) as gathered:
            secrets = self._placement.secrets(asked)
            target = replace(await find(), secrets=secrets)
            assert target.container is not None, "a hosted shell has a container"
            return replace(
                asked, input=await self._bring(target.container, asked, gathered, is_new=target.is_new)
            ), target

    async def _bring(
        self, container: ContainerRecord, asked: ParsedRequest, gathered: Sequence[ResolvedFile], *, is_new: bool
    ) -> list[Json]:
        try:
            rows = await self._containers.files.bring(container, [each.file for each in gathered])
        except BaseException:
            if is_new:
                with anyio.move_on_after(CLEARING, shield=True):
                    await self._containers.delete(container.tenant, container.id)
            raise
        return marked(asked.input, gathered, rows)

    async def _before(
        self, tenant: str, asked: ParsedRequest, upstream: Upstream, *, end: int | None = None
    ) -> History:
        before = await self._earlier.before(tenant, asked, provider=upstream.name, end=end)
        return await self.context.chained(tenant, before, upstream)

    async def _opened(self, tenant: str, asked: ParsedRequest, before: History, upstream: Upstream) -> Sequence[Json]:
        """What compactions of the input stand for; all calls that its outputs answer are there."""
        opened = (await self.context.expanded(tenant, asked.input, earlier=before.items, upstream=upstream)).opened
        check_outputs([*before.items, *opened], asked.input)
        return opened

    async def _transcript(self, tenant: str, items: Sequence[Json], before: History, upstream: Upstream) -> list[Json]:
        """All that the model is told of the conversation, `items` last."""
        given = trimmed(items, earlier=before.items, characters=self._limits.max_output_chars)
        whole = await self.context.expanded(tenant, given, earlier=before.items, upstream=upstream)
        return await self._told(tenant, completed(whole.items))

    async def _told(self, tenant: str, items: list[Json]) -> list[Json]:
        directory = self._data if self._data.startswith("/") else "$LIMPET_DATA"
        return await self._files.told(tenant, items, directory=directory)

    def _record(
        self,
        tenant: str,
        asked: ParsedRequest,
        target: ShellTarget,
        response_id: str,
        *,
        provider: str,
        notes: list[str],
    ) -> ResponseRecord:
        request = asked.body.model_dump(exclude={"input"}, exclude_none=True)
        request["notes"] = notes
        request["tools"] = resolved_tools(asked.body.tools or [], target.environment)
        return ResponseRecord(
            id=response_id,
            tenant=tenant,
            status="in_progress",
            model=asked.body.model,
            provider=provider,
            container_id=target.container_id,
            previous_response_id=asked.body.previous_response_id,
            conversation_id=asked.conversation_id,
            background=asked.is_background,
            created_at=self._clock.now(),
            completed_at=None,
            owner=self._owner,
            request=request,
            input=asked.input,
            usage=None,
            error=None,
        )
