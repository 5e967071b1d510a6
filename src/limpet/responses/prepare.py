"""From a checked request to a run: the provider, the history, the container. What a client did wrong is found here."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import anyio

from limpet.containers.container import ShellLimits
from limpet.containers.manager import ContainerManager
from limpet.core import ids
from limpet.core.clock import Clock
from limpet.core.errors import RequestError
from limpet.responses.describe import shell_description
from limpet.responses.history import History, check_outputs, completed, history, trimmed
from limpet.responses.inputs import Gathered, InputFiles, marked, unmarked
from limpet.responses.loop import Bounds, Run
from limpet.responses.metrics import Metrics
from limpet.responses.request import Asked, ContainerAuto, ContainerReference, Local
from limpet.responses.shapes import resolved_tools
from limpet.responses.shell_call import ShellCalls, ShellHost
from limpet.responses.writer import Writer
from limpet.store.containers import ContainerRecord
from limpet.store.executions import Executions
from limpet.store.journal import Journal
from limpet.store.responses import ResponseRecord, Responses
from limpet.upstreams.routing import Router
from limpet.upstreams.upstream import ShellOffer, Upstream

Json = dict[str, Any]
CLEARING = 15.0  # seconds for taking back a container that nobody gets


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings:
    """How far a response may go.

    `max_iterations` bounds its model turns; `max_item_output_bytes` is what its items hold of one stream of one command;
    `stream_output = False` leaves the shell's deltas out, for clients that break on them.
    """

    max_iterations: int = 50
    max_item_output_bytes: int = 1024 * 1024
    stream_output: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where a response's shell calls are carried out. `note` tells the model what was lost on the way here; `given` is the container's
    `spec`, with the skills and files that it was given; `container` is there where the gateway carries them out, made for this response
    where it `is_new`."""

    container_id: str | None = None
    environment: Json | None = None
    note: str | None = None
    given: Json = field(default_factory=dict)
    container: ContainerRecord | None = None
    is_new: bool = False


@dataclass(slots=True, kw_only=True)
class Prepared:
    """A run that can begin. `run` is made once, with the writer of its journal."""

    record: ResponseRecord
    is_stored: bool
    make_run: Callable[[Writer], Run]
    _run: Run | None = field(default=None, init=False)
    _writer: Writer | None = field(default=None, init=False)

    @property
    def writer(self) -> Writer:
        assert self._writer is not None, "a run has a writer before it starts"
        return self._writer

    @writer.setter
    def writer(self, writer: Writer) -> None:
        self._writer = writer

    def run(self) -> Run:
        self._run = self._run or self.make_run(self.writer)
        return self._run

    def usage(self) -> Json | None:
        return self._run.usage if self._run is not None else None


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
        limits: ShellLimits,
        settings: LoopSettings,
        has_network: bool,
        owner: str,
        data: str,
        metrics: Metrics,
        files: InputFiles,
    ) -> None:
        self._responses = responses
        self._executions = executions
        self._journal = journal
        self._router = router
        self._containers = containers
        self._clock = clock
        self._limits = limits
        self._settings = settings
        self._has_network = has_network
        self._owner = owner
        self._data = data
        self._metrics = metrics
        self._files = files

    async def prepare(self, tenant: str, asked: Asked, *, keeps_commands: Callable[[], bool]) -> Prepared:
        """Raises RequestError. The container's row is made last, when nothing else can be wrong any more."""
        chosen = self._router.find(asked.body.model)
        before = await self._history(tenant, asked, provider=chosen.upstream.name)
        check_outputs(before.items, asked.input)
        response_id = ids.new_id(ids.RESPONSE)
        asked = replace(asked, input=unmarked(asked.input))
        asked, place = await self._settle(tenant, asked, before, response_id, upstream=chosen.upstream)
        given = trimmed(asked.input, earlier=before.items, characters=self._limits.max_output_chars)
        transcript = await self._told(tenant, completed([*before.items, *given]))
        record = self._record(tenant, asked, place, response_id, provider=chosen.upstream.name)
        host = ShellHost(
            containers=self._containers,
            executions=self._executions,
            clock=self._clock,
            limits=self._limits,
            item_bytes=self._settings.max_item_output_bytes,
            streams_output=self._settings.stream_output,
            metrics=self._metrics,
            keeps_commands=keeps_commands,
        )

        def make_run(writer: Writer) -> Run:
            return Run(
                upstream=chosen.upstream,
                model=chosen.model,
                instructions=asked.body.instructions,
                transcript=transcript,
                tools=asked.other_tools,
                options=asked.options(),
                shell=self._shell(asked, place),
                environment=place.environment or {},
                calls=self._calls(asked, place, host, record, writer),
                bounds=Bounds(
                    turns=max(2, self._settings.max_iterations),
                    calls=asked.body.max_tool_calls,
                    model_characters=self._limits.max_output_chars,
                ),
                writer=writer,
                response_id=response_id,
                streams_shell=self._settings.stream_output,
            )

        return Prepared(record=record, is_stored=asked.is_stored, make_run=make_run)

    async def _history(self, tenant: str, asked: Asked, *, provider: str) -> History:
        if asked.body.previous_response_id is None:
            return History()
        return await history(
            self._responses,
            self._journal,
            tenant=tenant,
            previous=asked.body.previous_response_id,
            provider=provider,
            characters=self._limits.max_output_chars,
        )

    async def _settle(
        self, tenant: str, asked: Asked, before: History, response_id: str, *, upstream: Upstream
    ) -> tuple[Asked, _Place]:
        """The response's place, and its input with what is to be stored of the files in it: they are there now."""
        if asked.shell is None or isinstance(asked.shell.environment, Local):
            await self._files.check_shown(tenant, asked.input, provider=upstream.name, type=upstream.type)
            return asked, await self._place(tenant, asked, before, response_id)
        async with self._files.gathered(tenant, asked.input) as gathered:
            place = await self._place(tenant, asked, before, response_id)
            assert place.container is not None, "a hosted shell has a container"
            return replace(asked, input=await self._bring(place.container, asked, gathered, is_new=place.is_new)), place

    async def _bring(
        self, container: ContainerRecord, asked: Asked, gathered: Sequence[Gathered], *, is_new: bool
    ) -> list[Json]:
        try:
            rows = await self._containers.files.bring(container, [each.file for each in gathered])
        except BaseException:
            if is_new:
                with anyio.move_on_after(CLEARING, shield=True):
                    await self._containers.delete(container.tenant, container.id)
            raise
        return marked(asked.input, gathered, rows)

    async def _told(self, tenant: str, items: list[Json]) -> list[Json]:
        directory = self._data if self._data.startswith("/") else "$LIMPET_DATA"
        return await self._files.told(tenant, items, directory=directory)

    async def _place(self, tenant: str, asked: Asked, before: History, response_id: str) -> _Place:
        """The response's container. A chain keeps its own, also over turns without a shell (DECISIONS, seed 04)."""
        if asked.shell is None:
            return _Place(container_id=before.container_id)
        environment = asked.shell.environment
        if isinstance(environment, Local):
            return _Place(container_id=before.container_id, environment={"type": "local"})
        if isinstance(environment, ContainerReference):
            return _hosted(await self._containers.require_running(tenant, environment.container_id))
        spec = self._containers.narrow(_asked_of(environment), place=f"tools[{asked.shell_index}].environment")
        if before.container_id is not None and await self._is_usable(tenant, before.container_id):
            fields = frozenset() if environment is None else environment.model_fields_set
            return _hosted(await self._containers.adapt(tenant, before.container_id, spec, fields=fields))
        container = await self._containers.create(tenant, name="", spec=spec, source_response_id=response_id)
        note = None
        if before.container_id is not None:
            note = "the earlier container of this conversation has expired or was deleted; this one is new, its files are gone."
        return replace(_hosted(container, note=note), is_new=True)

    async def _is_usable(self, tenant: str, container_id: str) -> bool:
        try:
            await self._containers.require_running(tenant, container_id)
        except RequestError:
            return False
        return True

    def _record(self, tenant: str, asked: Asked, place: _Place, response_id: str, *, provider: str) -> ResponseRecord:
        request = asked.body.model_dump(exclude={"input"}, exclude_none=True)
        request["tools"] = resolved_tools(asked.body.tools or [], place.environment)
        return ResponseRecord(
            id=response_id,
            tenant=tenant,
            status="in_progress",
            model=asked.body.model,
            provider=provider,
            container_id=place.container_id,
            previous_response_id=asked.body.previous_response_id,
            background=False,
            created_at=self._clock.now(),
            completed_at=None,
            owner=self._owner,
            request=request,
            input=asked.input,
            usage=None,
            error=None,
        )

    def _shell(self, asked: Asked, place: _Place) -> ShellOffer | None:
        if asked.shell is None:
            return None
        is_local = place.environment == {"type": "local"}
        return ShellOffer(
            description=shell_description(
                is_local=is_local,
                seconds=self._limits.command_timeout_secs,
                characters=self._limits.max_output_chars,
                has_network=self._has_network,
                data=self._data,
                skills=place.given.get("skills", ()),
                files=place.given.get("files", ()),
            )
        )

    def _calls(
        self, asked: Asked, place: _Place, host: ShellHost, record: ResponseRecord, writer: Writer
    ) -> ShellCalls | None:
        if asked.shell is None or place.container_id is None or place.environment == {"type": "local"}:
            return None
        return ShellCalls(
            host,
            tenant=record.tenant,
            response_id=record.id,
            container_id=place.container_id,
            writer=writer,
            note=place.note,
        )


def _hosted(container: ContainerRecord, *, note: str | None = None) -> _Place:
    environment = {"type": "container_reference", "container_id": container.id}
    return _Place(
        container_id=container.id, environment=environment, note=note, given=container.spec, container=container
    )


def _asked_of(environment: ContainerAuto | None) -> Json:
    return {} if environment is None else environment.model_dump(exclude_none=True, exclude={"type"})
