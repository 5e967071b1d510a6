"""Where a response's shell calls run: in the container that the request names, in that of its conversation, or in a new one."""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from limpet.containers.container import ContainerSpec
from limpet.containers.manager import ContainerManager
from limpet.containers.messages import ContainerElsewhere
from limpet.containers.requested_secrets import GrantedSecret
from limpet.core.errors import RequestError, RequestInvalid
from limpet.responses.compaction.marker import is_marker
from limpet.responses.history import History
from limpet.responses.request import ParsedRequest
from limpet.responses.request_tools import ContainerAuto, ContainerReference, Local
from limpet.store.containers import ContainerRecord
from limpet.store.executions import Executions
from limpet.store.responses import ItemHolder
from limpet.upstreams.upstream import LEFT_OUT

Json = dict[str, Any]
MOST_LOOKED_AT = 16  # containers of one input

GONE = "The earlier container of this conversation has expired or was deleted. This one is new: its files are gone."
OLDER = (
    "The latest container of this conversation has expired or was deleted, with its files. Commands run in an earlier one that "
    "still has its own."
)
OTHER = "The earlier container of this conversation has other limits than this request asks for. This one is new: its files are not here."


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellTarget:
    """Where a response's shell calls are carried out. `note` tells the model what was lost on the way here; `given` is the container's
    `spec`, with the skills and files that it was given; `container` is there where the gateway carries them out, made for this response
    where it `is_new`; `secrets` are those of the request, for its own commands."""

    container_id: str | None = None
    environment: Json | None = None
    note: str | None = None
    given: Json = field(default_factory=dict)
    container: ContainerRecord | None = None
    is_new: bool = False
    secrets: tuple[GrantedSecret, ...] = ()


@dataclass(frozen=True, slots=True)
class Trace:
    """A container that an item of the input speaks of. `ran_there` says that the item is a command's or names a file, so that
    the model knows of it."""

    container_id: str
    ran_there: bool


class Placement:
    """Finds or makes the container of a response."""

    def __init__(self, containers: ContainerManager, executions: Executions) -> None:
        self._containers = containers
        self._executions = executions

    async def target(
        self,
        tenant: str,
        asked: ParsedRequest,
        *,
        before: History,
        holders: Mapping[str, ItemHolder],
        response_id: str,
    ) -> ShellTarget:
        """A chain or a conversation (`before`) keeps its container, also over turns without a shell. `holders` are the tenant's
        responses that items of the input came out of. Raises RequestError."""
        chained = before.container_id
        if asked.shell is None:
            return ShellTarget(container_id=chained)
        environment = asked.shell.environment
        if isinstance(environment, Local):
            return ShellTarget(container_id=chained, environment={"type": "local"})
        if isinstance(environment, ContainerReference):
            return await self._going_on(await self._containers.take_up(tenant, environment.container_id))
        spec = self._containers.narrow(_fields_of(environment), place=f"tools[{asked.shell_index}].environment")
        fields: AbstractSet[str] = frozenset() if environment is None else environment.model_fields_set
        note = None
        if chained is not None:
            if await self._is_usable(tenant, chained):
                return await self._going_on(await self._containers.adapt(tenant, chained, spec, fields=fields))
            note = None if await self._containers.unused.have_lost_nothing(tenant, chained) else GONE
        else:
            found, note = await self._from_history(
                tenant, spec, fields, traces_of([*before.items, *asked.input], holders)
            )
            if found is not None:
                return await self._going_on(found, note)
        container = await self._containers.create(tenant, name="", spec=spec, source_response_id=response_id)
        return replace(_hosted(container, note=note), is_new=True)

    async def _going_on(self, container: ContainerRecord, note: str | None = None) -> ShellTarget:
        """In a container that is there. The model is told before its first turn where its box is not."""
        told = [each for each in (note, await self._containers.lost.note(container)) if each is not None]
        return _hosted(container, note=" ".join(told) or None)

    def secrets(self, asked: ParsedRequest) -> tuple[GrantedSecret, ...]:
        """Those that the request asks for, for its own commands. Raises RequestInvalid."""
        environment = None if asked.shell is None else asked.shell.environment
        place = f"tools[{asked.shell_index}].environment"
        if isinstance(environment, ContainerReference) and (environment.model_extra or {}).get("network_policy"):
            raise RequestInvalid(
                "A container that is named has a network policy and secrets of its own: leave `network_policy` out, or change the "
                "container's at POST /v1/containers/{id}.",
                param=f"{place}.network_policy",
                code="container_network_policy_fixed",
            )
        if not isinstance(environment, ContainerAuto) or environment.network_policy is None:
            return ()
        return self._containers.narrow({"network_policy": environment.network_policy}, place=place).secrets

    async def given(
        self, tenant: str, asked: ParsedRequest, container_id: str | None, *, note: str | None
    ) -> ShellTarget:
        """The target that a request was given before. Its container may be gone by now: its calls meet that."""
        if asked.shell is None or container_id is None:
            return ShellTarget(container_id=container_id, note=note)
        if isinstance(asked.shell.environment, Local):
            return ShellTarget(container_id=container_id, environment={"type": "local"}, note=note)
        return _hosted(await self._containers.get(tenant, container_id), note=note)

    async def _from_history(
        self, tenant: str, spec: ContainerSpec, fields: AbstractSet[str], traces: Iterator[Trace]
    ) -> tuple[ContainerRecord | None, str | None]:
        """The active container of the newest item that has one, and what the model must be told. An id of another tenant is as good
        as one that never was."""
        note = None
        for trace in islice(traces, MOST_LOOKED_AT):
            if not await self._is_usable(tenant, trace.container_id):
                if note is None and (trace.ran_there or await self._executions.any_in(tenant, trace.container_id)):
                    note = GONE
                continue
            try:
                found = await self._containers.adapt(tenant, trace.container_id, spec, fields=fields)
            except RequestInvalid as problem:
                if problem.code not in FIXED:
                    raise
                return None, OTHER
            return found, OLDER if note else None
        return None, note

    async def _is_usable(self, tenant: str, container_id: str) -> bool:
        try:
            await self._containers.require_running(tenant, container_id)
        except ContainerElsewhere:
            raise  # it is as good as it was, for the gateway that has it
        except RequestError:
            return False
        return True


# What a living container cannot become: the history's is left alone then, and the request gets the one that it asks for.
FIXED = frozenset({"container_memory_limit_fixed", "container_network_policy_fixed"})


def traces_of(items: Sequence[Json], holders: Mapping[str, ItemHolder]) -> Iterator[Trace]:
    """The containers that the items speak of, the newest item's first, each once. Clients keep different parts of what they were
    sent: the shell's items, or citations of files, or only the id of a message."""
    seen: set[str] = set()
    for item in reversed(items):
        for trace in _traces_in(item, holders):
            if trace.container_id not in seen:
                seen.add(trace.container_id)
                yield trace


def _traces_in(item: Json, holders: Mapping[str, ItemHolder]) -> Iterator[Trace]:
    if item["type"] == "shell_call":
        environment = item.get("environment")
        if isinstance(environment, dict) and environment.get("type") == "container_reference":
            yield Trace(environment["container_id"], ran_there=True)
    if item["type"] == "compaction" or is_marker(item):
        known = item[LEFT_OUT].get("container_id") if is_marker(item) else item.get("container_id")
        if isinstance(known, str):
            yield Trace(known, ran_there=True)
    for named in _files_of(item):
        if isinstance(named, dict) and isinstance(named.get("container_id"), str):
            yield Trace(named["container_id"], ran_there=True)
    holder = holders.get(item.get("id") or "")
    if holder is not None and holder.container_id is not None:
        yield Trace(holder.container_id, ran_there=item["type"] in ("shell_call", "shell_call_output"))


def _files_of(item: Json) -> Iterator[object]:
    if item["type"] == "shell_call_output":
        files = item.get("output_files")
        yield from files if isinstance(files, list) else ()
    content = item.get("content")
    if item["type"] != "message" or item.get("role") != "assistant" or not isinstance(content, list):
        return
    for part in content:
        notes = part.get("annotations")
        for note in notes if isinstance(notes, list) else ():
            if isinstance(note, dict) and note.get("type") == "container_file_citation":
                yield note


def _hosted(container: ContainerRecord, *, note: str | None = None) -> ShellTarget:
    environment = {"type": "container_reference", "container_id": container.id}
    return ShellTarget(
        container_id=container.id, environment=environment, note=note, given=container.spec, container=container
    )


def _fields_of(environment: ContainerAuto | None) -> Json:
    return {} if environment is None else environment.model_dump(exclude_none=True, exclude={"type"})
