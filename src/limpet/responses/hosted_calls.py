"""The calls of one response that the gateway carries out, each by its own kind, all in one container."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from limpet.responses.made_calls import HostedCall
from limpet.responses.patch_calls import PatchCalls
from limpet.responses.shell_call import ShellCalls
from limpet.store.files import ContainerFileRecord
from limpet.upstreams.upstream import CallMade

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedCalls:
    """`patches` None leaves those calls to the client."""

    shell: ShellCalls
    patches: PatchCalls | None = None

    @property
    def files(self) -> Mapping[str, ContainerFileRecord]:
        """What the calls wrote until now, by path."""
        return self.shell.files

    async def answer(self, call: HostedCall) -> Json:
        """Carry it out and tell its output item, which is returned."""
        if isinstance(call, CallMade):
            return await self.shell.answer(call)
        assert self.patches is not None, "the loop gives it no other calls"
        return await self.patches.answer(call.item)

    async def recall(self, item: Json) -> None:
        """Count an output that an earlier carrier of the run has told."""
        if item["type"] == "shell_call_output":
            await self.shell.recall(item)
        elif item["type"] == "apply_patch_call_output":
            await self.shell.recall_files(item)

    async def settle(self) -> None:
        """See `ShellCalls.settle`."""
        await self.shell.settle()
