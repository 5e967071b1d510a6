"""A shell that the provider runs in containers of its own, and whose its containers are: all tenants share the provider's account."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from limpet.core.errors import NotFound
from limpet.core.ids import CONTAINER, is_id
from limpet.store.provider_containers import ProviderContainers

Json = dict[str, Any]
# Items that name the container in which they ran.
_CALLS = frozenset({"shell_call", "shell_call_output", "code_interpreter_call"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderShell:
    """`tool` as the provider is given it, None where the request has no shell that it runs. `owners` know which containers are the
    tenant's; None where there is one tenant only."""

    tool: Json | None
    tenant: str
    owners: ProviderContainers | None

    async def check(self, tools: Sequence[Json], items: Iterable[Mapping[str, Any]]) -> None:
        """Raises NotFound where a tool, of whatever kind, or an item of the input names a container that is not the tenant's."""
        if self.owners is None:
            return
        named = [*_named_by_tools(tools, "tools"), *_named_by_items(items)]
        own = await self.owners.owned(self.tenant, {container_id for container_id, _ in named}) if named else ()
        for container_id, place in named:
            if container_id not in own:
                raise NotFound(f"There is no container {container_id[:80]}.", param=place, code="container_not_found")

    async def note(self, item: object) -> None:
        """An item that the provider made is done: a container that it names is the tenant's from now on."""
        for container_id in _containers_in(item):
            if self.owners is not None:
                await self.owners.add(self.tenant, container_id)


def _containers_in(item: object) -> Iterator[str]:
    if not isinstance(item, Mapping) or item.get("type") not in _CALLS:
        return
    for holder in (item, item.get("environment")):
        if isinstance(holder, Mapping) and isinstance(holder.get("container_id"), str):
            yield holder["container_id"]


def _named_by_items(items: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Those of the input's items. Shell calls in the gateway's own containers never reach the provider (`upstreams/relay_request.py`)."""
    for item in items:
        is_shell = item.get("type") != "code_interpreter_call"
        named = _containers_in(item)
        yield from ((each, "input") for each in named if not (is_shell and is_id(each, prefix=CONTAINER)))
        yield from _named_by_tools(item.get("tools"), "input")


def _named_by_tools(tools: object, place: str) -> Iterator[tuple[str, str]]:
    """The containers and where each is named, in namespaces of any depth too."""
    waiting = [(tools, place)]
    while waiting:
        level, at = waiting.pop()
        for position, tool in enumerate(level if isinstance(level, list | tuple) else ()):
            if not isinstance(tool, Mapping):
                continue
            here = f"{at}[{position}]"
            if isinstance(tool.get("container"), str):
                yield tool["container"], f"{here}.container"
            for field in ("container", "environment"):
                holder = tool.get(field)
                if isinstance(holder, Mapping) and isinstance(holder.get("container_id"), str):
                    yield holder["container_id"], f"{here}.{field}.container_id"
            waiting.append((tool.get("tools"), f"{here}.tools"))
