"""Passes one model turn on to the client: items get their place in the response, the end of a message waits for its citations.

A turn counts its items from 0 and knows nothing of shell outputs, which take a place each; so every item is given the next free
place when it is announced. The last part of a message is held back until it is known whether the response ends with it.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec import structs, to_builtins

from limpet.core import events as ev
from limpet.core import ids
from limpet.core.errors import UpstreamBroken
from limpet.responses.event_payloads import CommandDelta, WholeCommand
from limpet.responses.event_validator import EventValidator
from limpet.responses.json_copy import json_copy
from limpet.responses.shell_items import ShellAction, ShellCallItem, citation
from limpet.responses.writer import Writer
from limpet.store.files import ContainerFileRecord
from limpet.upstreams.upstream import BadArguments, CallBegun, CallMade, CommandText, Emit, TurnEvent

Json = dict[str, Any]


class TurnForwarder:
    """`environment` stands on every shell call: where it is (or, for a client's own shell, will be) carried out.

    `items` are the items that are done, as the model made them, without our citations. Without `streams_commands` a command is
    told once, whole, when it is done. `places` and `held` are those of a forwarder that has taken a part of the turn: the output index
    of each item by its index in the turn, and the end of a message that was held back.

    `take` raises UpstreamBroken, with the name `provider`, for an event that cannot be told on.
    """

    def __init__(
        self,
        writer: Writer,
        environment: Json,
        *,
        provider: str,
        streams_commands: bool = True,
        places: Mapping[int, int] | None = None,
        held: Sequence[Emit] = (),
    ) -> None:
        self._writer = writer
        self._provider = provider
        self._validator = EventValidator()
        self._environment = environment
        self._streams_commands = streams_commands
        self.places: dict[int, int] = dict(places or {})
        self.held: list[Emit] = list(held)
        self._begun: dict[int, ShellCallItem] = {}
        self._told: dict[int, list[str]] = {}
        self.items: list[Json] = []

    async def take(self, event: TurnEvent) -> None:
        """Pass one event on, or hold it back."""
        if self.held and not self._ends_same_item(event):
            await self.release(())
        match event:
            case Emit(type, data):
                await self._emit(type, data)
            case CallBegun():
                await self._begin(event)
            case CommandText():
                await self._command_text(event)
            case CallMade():
                await self._make(event)

    def adopt(self, index: int, place: int, item: Json) -> None:
        """An item of the turn was told before: `item`, at that output index."""
        self.places[index] = place
        self.items.append(item)

    async def release(self, cited: Collection[ContainerFileRecord]) -> None:
        """Let the held end of a message go, with an annotation for each of these files."""
        if not self.held:
            return
        held, self.held = self.held, []
        part_done = held[0].data
        part = json_copy(part_done["part"])
        for record in cited:
            placed = to_builtins(citation(record, part.get("text") or ""))
            await self._pass_on(
                ev.ANNOTATION_ADDED,
                {
                    "item_id": part_done["item_id"],
                    "output_index": part_done["output_index"],
                    "content_index": part_done["content_index"],
                    "annotation_index": len(part.get("annotations") or []),
                    "annotation": placed,
                },
            )
            part["annotations"] = [*(part.get("annotations") or []), placed]
        await self._pass_on(held[0].type, {**part_done, "part": part})
        for event in held[1:]:
            item = json_copy(event.data["item"])
            if cited and part_done["content_index"] < len(item.get("content") or []):
                item["content"][part_done["content_index"]] = part
            self.items.append(event.data["item"])
            await self._pass_on(event.type, {**event.data, "item": item})

    def _ends_same_item(self, event: TurnEvent) -> bool:
        return (
            isinstance(event, Emit)
            and event.type == ev.ITEM_DONE
            and (event.data.get("output_index") == self.held[0].data["output_index"])
        )

    async def _emit(self, type: str, data: Json) -> None:
        if (problem := self._validator.problem(type, data)) is not None:
            raise UpstreamBroken(self._provider, f"{problem}.")
        if type == ev.PART_DONE and data.get("part", {}).get("type") == "output_text":
            self.held = [Emit(type, data)]
            return
        if type == ev.ITEM_DONE and self.held:
            self.held.append(Emit(type, data))
            return
        if type == ev.ITEM_DONE:
            self.items.append(data["item"])
        await self._pass_on(type, data)

    async def _pass_on(self, type: str, data: Json) -> None:
        index = data.get("output_index")
        if index is not None and (place := self._place(index)) != index:
            data = {**data, "output_index": place}
        await self._writer.pass_on(type, data)

    def _place(self, index: int) -> int:
        if index not in self.places:
            self.places[index] = self._writer.snapshot.next_index
        return self.places[index]

    async def _begin(self, event: CallBegun) -> None:
        item = ShellCallItem(
            id=ids.new_id(ids.SHELL_CALL), call_id=event.call_id, action=ShellAction(), environment=self._environment
        )
        await self._writer.tell(ev.ITEM_ADDED, output_index=self._place(event.index), item=item)
        told = self._writer.snapshot.item(self._place(event.index))  # with the id of before, where it was told before
        self._begun[event.index] = structs.replace(item, id=told["id"])
        self._told[event.index] = []

    async def _command_text(self, event: CommandText) -> None:
        """Commands come in order; a piece of the next one closes nothing, `CallMade` does."""
        told = self._told[event.index]
        place = self._place(event.index)
        while len(told) <= event.command_index:
            told.append("")
            begun = WholeCommand(output_index=place, command_index=len(told) - 1, command="")
            await self._writer.tell(ev.COMMAND_ADDED, begun)
        told[event.command_index] += event.text
        if event.text and self._streams_commands:
            piece = CommandDelta(output_index=place, command_index=event.command_index, delta=event.text)
            await self._writer.tell(ev.COMMAND_DELTA, piece)

    async def _make(self, event: CallMade) -> None:
        if event.index not in self._begun:
            await self._begin(CallBegun(index=event.index, call_id=event.call_id))
        item, told = self._begun[event.index], self._told[event.index]
        asked = None if isinstance(event.arguments, BadArguments) else event.arguments
        commands = tuple(told) if asked is None else asked.commands
        for number, command in enumerate(commands):
            missing = (
                command[len(told[number]) :] if number < len(told) and command.startswith(told[number]) else command
            )
            await self._command_text(CommandText(index=event.index, command_index=number, text=missing))
            whole = WholeCommand(output_index=self._place(event.index), command_index=number, command=command)
            await self._writer.tell(ev.COMMAND_DONE, whole)
        action = ShellAction(
            commands=list(commands),
            timeout_ms=None if asked is None else asked.timeout_ms,
            max_output_length=None if asked is None else asked.max_output_length,
        )
        done = structs.replace(item, action=action, status="incomplete" if asked is None else "completed")
        self.items.append(to_builtins(done))
        await self._writer.tell(ev.ITEM_DONE, output_index=self._place(event.index), item=done)
