"""Whether the events of one whole stream come in an order that a client may rely on.

The order is the real service's (recordings in data/) as the design decided it: a shell call is done before its output
begins. Shapes are schema.py's business; this file reads only what order, numbers and identity need.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.wire.problems import demand

Event = Mapping[str, Any]

TERMINAL = {"response.completed": "completed", "response.failed": "failed", "response.incomplete": "incomplete"}
# lifecycle event -> those that may come right before it
FOLLOWS: dict[str, set[str | None]] = {
    "response.created": {None},
    "response.queued": {"response.created"},
    "response.in_progress": {"response.created", "response.queued"},
    "response.completed": {"response.in_progress"},
    "response.incomplete": {"response.in_progress"},
    "response.failed": {"response.created", "response.queued", "response.in_progress"},
}

# family of `.delta` and `.done` events: (key that counts inside the item, key of the whole in `.done`, type of the item)
TEXTS: dict[str, tuple[str | None, str, str]] = {
    "response.output_text": ("content_index", "text", "message"),
    "response.refusal": ("content_index", "refusal", "message"),
    "response.reasoning_text": ("content_index", "text", "reasoning"),
    "response.reasoning_summary_text": ("summary_index", "text", "reasoning"),
    "response.function_call_arguments": (None, "arguments", "function_call"),
    "response.custom_tool_call_input": (None, "input", "custom_tool_call"),
    "response.shell_call_command": ("command_index", "command", "shell_call"),
}
# families with an `.added` event, and the key that counts in them
PARTS = {
    "response.content_part": "content_index",
    "response.reasoning_summary_part": "summary_index",
    "response.shell_call_command": "command_index",
}
# family of texts -> family that must have been opened for it
OPENED_BY = {
    "response.output_text": "response.content_part",
    "response.refusal": "response.content_part",
    "response.reasoning_summary_text": "response.reasoning_summary_part",
    "response.shell_call_command": "response.shell_call_command",
}
ANNOTATION = "response.output_text.annotation.added"
OUTPUT = "response.shell_call_output_content"


def check_event_order(events: Iterable[Event], *, whole_output: bool = True) -> None:
    """Raises AssertionError that names every broken rule, with the sequence number of the event that broke it.

    `events` is a stream from its first event to its last. `whole_output=False` is for commands whose output was cut on the
    item: then the deltas of an output need not add up to what its `done` holds.
    """
    reader = _Reader(whole_output=whole_output)
    for position, event in enumerate(events):
        reader.read(position, event)
    reader.end()
    demand(reader.problems, "event order")


@dataclass(slots=True)
class _Item:
    """What is known of one output item while the stream is read."""

    added: Event
    done: Event | None = None
    texts: dict[tuple[str, int], str] = field(default_factory=dict)  # written so far
    wholes: dict[tuple[str, int], str] = field(default_factory=dict)  # as their `.done` says
    opened: set[tuple[str, int]] = field(default_factory=set)
    parts: dict[tuple[str, int], Event] = field(default_factory=dict)  # as their `.done` says
    annotations: dict[int, list[Any]] = field(default_factory=dict)
    outputs: dict[int, list[Any]] = field(default_factory=dict)
    streams: dict[int, dict[str, str]] = field(default_factory=dict)

    def unclosed(self) -> list[tuple[str, int]]:
        """Parts and texts that were begun and have no `.done` yet."""
        return sorted((self.opened | self.texts.keys()) - self.wholes.keys() - self.parts.keys())

    def built(self) -> dict[str, Any]:
        """What the events inside the item say that its `done` must hold, under the names of its fields."""
        said: dict[str, Any] = {}
        if content := [
            part for (family, _), part in sorted(self.parts.items(), key=_place) if family == "response.content_part"
        ]:
            said["content"] = content
        for (family, _), text in sorted(self.wholes.items(), key=_place):
            counted, whole, _ = TEXTS[family]
            if family == "response.shell_call_command":
                said.setdefault("commands", []).append(text)
            elif counted is None:
                said[whole] = text
        if self.outputs:
            said["output"] = [entry for _, entries in sorted(self.outputs.items()) for entry in entries]
        return said


@dataclass(slots=True)
class _Reader:
    whole_output: bool
    problems: list[str] = field(default_factory=list)
    items: dict[int, _Item] = field(default_factory=dict)
    begun: list[str] = field(default_factory=list)  # lifecycle events so far
    response: Event | None = None
    at: str = ""

    def read(self, position: int, event: Event) -> None:
        kind, number = event["type"], event.get("sequence_number")
        self.at = f"{number} {kind}"
        self.want(number == position, f"is number {number}, expected {position}")
        self.want(not (self.begun and self.begun[-1] in TERMINAL), "comes after the final event")
        if kind in FOLLOWS:
            self.read_lifecycle(kind, event["response"])
            return
        if kind == "error":
            return
        self.want("response.in_progress" in self.begun, "comes before response.in_progress")
        if kind == "response.output_item.added":
            self.read_added(event["output_index"], event["item"])
        elif "output_index" in event:
            item = self.open_item(event)
            if item is None:
                return
            if kind == "response.output_item.done":
                self.read_done(item, event["item"])
            else:
                self.read_inside(item, kind, event)

    def read_lifecycle(self, kind: str, response: Event) -> None:
        before = self.begun[-1] if self.begun else None
        self.want(before in FOLLOWS[kind], f"comes after {before or 'nothing'}")
        self.begun.append(kind)
        first = self.response or response
        for key in ("id", "created_at"):
            same = response.get(key) == first.get(key)
            self.want(same, f"response.{key} changed from {first.get(key)!r} to {response.get(key)!r}")
        self.response = response
        if kind in TERMINAL:
            self.read_terminal(kind, response)
        else:
            statuses = {"in_progress"} if kind == "response.in_progress" else {"queued", "in_progress"}
            self.want(response.get("status") in statuses, f"has status {response.get('status')!r}")

    def read_terminal(self, kind: str, response: Event) -> None:
        self.want(response.get("status") == TERMINAL[kind], f"has status {response.get('status')!r}")
        output = list(response.get("output") or ())
        unfinished = [index for index, item in self.items.items() if item.done is None]
        done = [item.done for _, item in sorted(self.items.items()) if item.done is not None]
        if kind == "response.failed" and unfinished:  # keeps what there was
            self.want(all(item in output for item in done), "its output lacks items that were done")
            return
        for index in unfinished:
            self.want(False, f"item {index} was added and never done")
        if output != done:
            kinds = [item.get("type") for item in output], [item.get("type") for item in done]
            self.want(False, f"its output {kinds[0]} is not the done items {kinds[1]}, or differs inside them")

    def read_added(self, index: int, item: Event) -> None:
        self.want(index == len(self.items), f"has output_index {index}, expected {len(self.items)}")
        others = [other.added for other in self.items.values()]
        self.want(all(other.get("id") != item.get("id") for other in others), f"id {item.get('id')!r} was used before")
        if item.get("type") == "shell_call":
            twin = any(other["type"] == "shell_call" and other["call_id"] == item["call_id"] for other in others)
            self.want(not twin, f"call_id {item['call_id']!r} was used before")
        if item.get("type") == "shell_call_output":
            calls = [
                other
                for other in self.items.values()
                if other.added["type"] == "shell_call" and other.added["call_id"] == item["call_id"]
            ]
            self.want(bool(calls), f"no shell_call with call_id {item['call_id']!r} came before")
            self.want(all(call.done is not None for call in calls), "its shell_call is not done yet")
        self.items.setdefault(index, _Item(added=item))

    def open_item(self, event: Event) -> _Item | None:
        item = self.items.get(event["output_index"])
        if item is None:
            self.want(False, f"item {event['output_index']} was not added")
            return None
        if item.done is not None:
            self.want(False, f"item {event['output_index']} is done already")
            return None
        if "item_id" in event:
            same = event["item_id"] == item.added.get("id")
            self.want(same, f"item_id {event['item_id']!r} is not the item's {item.added.get('id')!r}")
        return item

    def read_done(self, item: _Item, done: Event) -> None:
        for key in ("id", "type", "call_id"):
            same = item.added.get(key) == done.get(key)
            self.want(same, f"{key} changed from {item.added.get(key)!r} to {done.get(key)!r}")
        self.want(done.get("status") != "in_progress", "is still in_progress")
        item.done = done
        if done.get("status") == "incomplete":  # broke off: nothing more can be known of its insides
            return
        for family, index in item.unclosed():
            self.want(False, f"{family} {index} was begun and never done")
        for name, built in item.built().items():
            said = done["action"]["commands"] if name == "commands" else done.get(name)
            self.want(said == built, f"{name} is not what the events before it said")

    def read_inside(self, item: _Item, kind: str, event: Event) -> None:
        family, _, step = kind.rpartition(".")
        if family in PARTS and step == "added":
            self.read_opened(item, family, event)
        elif family in PARTS and family not in TEXTS:
            self.read_part_done(item, family, event)
        elif kind == ANNOTATION:
            listed = item.annotations.setdefault(event["content_index"], [])
            self.want(event["annotation_index"] == len(listed), f"annotation {event['annotation_index']} out of turn")
            listed.append(event["annotation"])
        elif family == OUTPUT:
            self.read_output(item, step, event)
        elif family in TEXTS and step in ("delta", "done"):
            self.read_text(item, family, step, event)

    def read_opened(self, item: _Item, family: str, event: Event) -> None:
        index = event[PARTS[family]]
        expected = sum(known == family for known, _ in item.opened)
        self.want(index == expected, f"has {PARTS[family]} {index}, expected {expected}")
        item.opened.add((family, index))
        if event.get("command"):  # a command may be announced with its beginning
            item.texts[family, index] = event["command"]

    def read_part_done(self, item: _Item, family: str, event: Event) -> None:
        index, part = event[PARTS[family]], event["part"]
        self.want((family, index) in item.opened, f"{PARTS[family]} {index} was not added")
        self.want((family, index) not in item.parts, f"{PARTS[family]} {index} is done already")
        for text in (text for text, opener in OPENED_BY.items() if opener == family and (text, index) in item.texts):
            same = item.wholes.get((text, index)) == part.get(TEXTS[text][1])
            self.want(same, f"{text}.done {index} did not come before it, or says something else")
        if part.get("type") == "output_text":
            announced = item.annotations.get(index, [])
            self.want(part.get("annotations") == announced, "its annotations are not those that were announced")
        item.parts[family, index] = part

    def read_text(self, item: _Item, family: str, step: str, event: Event) -> None:
        key, whole, owner = TEXTS[family]
        index = event[key] if key else 0
        here = (family, index)
        self.want(item.added.get("type") == owner, f"belongs to a {owner}, not to a {item.added.get('type')}")
        if family in OPENED_BY:
            opener = OPENED_BY[family]
            self.want((opener, index) in item.opened, f"{key} {index} was not announced by {opener}.added")
        self.want(here not in item.wholes, f"{key or 'it'} {index} is done already")
        if step == "delta":
            item.texts[here] = item.texts.get(here, "") + event["delta"]
            return
        said: str = event[whole]
        written = item.texts.get(here, said)
        self.want(said == written, f"{whole} {said[:60]!r} is not what the deltas wrote: {written[:60]!r}")
        item.wholes[here] = said

    def read_output(self, item: _Item, step: str, event: Event) -> None:
        index = event["command_index"]
        owner = item.added.get("type")
        self.want(owner == "shell_call_output", f"belongs to a shell_call_output, not to a {owner}")
        self.want(index == len(item.outputs), f"has command_index {index}, expected {len(item.outputs)}")
        if step == "delta":
            streams = item.streams.setdefault(index, {"stdout": "", "stderr": ""})
            for name, text in event["delta"].items():
                streams[name] = streams.get(name, "") + (text or "")
            return
        item.outputs[index] = event["output"]
        if self.whole_output and index in item.streams:
            for name, written in item.streams[index].items():
                said = "".join(entry.get(name, "") for entry in event["output"])
                self.want(said == written, f"{name} {said[-60:]!r} is not what the deltas wrote: {written[-60:]!r}")

    def end(self) -> None:
        self.at = "the stream"
        self.want(bool(self.begun) and self.begun[-1] in TERMINAL, "ends without a final event")

    def want(self, holds: bool, problem: str) -> None:
        if not holds:
            self.problems.append(f"{self.at}: {problem}")


def _place(known: tuple[tuple[str, int], Any]) -> tuple[str, int]:
    return known[0]
