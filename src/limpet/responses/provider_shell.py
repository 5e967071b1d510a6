"""A shell that the provider runs in containers of its own: what it is sent, and whose its containers are."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from limpet.core.errors import NotFound
from limpet.store.provider_containers import ProviderContainers

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderShell:
    """`tool` as the provider is given it. `owners` know which containers are the tenant's; None where there is one tenant only."""

    tool: Json
    tenant: str
    owners: ProviderContainers | None

    async def check(self, param: str) -> None:
        """Raises NotFound where the tool names a container that is not the tenant's."""
        environment = self.tool["environment"]
        if self.owners is None or environment.get("type") != "container_reference":
            return
        named = environment["container_id"]
        if named not in await self.owners.owned(self.tenant, [named]):
            raise NotFound(
                f"There is no container {named[:80]}.", param=f"{param}.container_id", code="container_not_found"
            )

    async def note(self, item: object) -> None:
        """An item that the provider made is done: a container that it names is the tenant's from now on."""
        for container_id in _containers_in(item):
            if self.owners is not None:
                await self.owners.add(self.tenant, container_id)


def _containers_in(item: object) -> Iterator[str]:
    if not isinstance(item, dict) or item.get("type") not in ("shell_call", "code_interpreter_call"):
        return
    environment = item.get("environment")
    for holder in (item, environment):
        if isinstance(holder, dict) and isinstance(holder.get("container_id"), str):
            yield holder["container_id"]
