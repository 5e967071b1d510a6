"""The message that stands for what a compaction left out: what a model is told of it, and what the gateway keeps with it. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from limpet.upstreams.upstream import LEFT_OUT

Json = dict[str, Any]
MOST_FILES_NAMED = 50
SHORTENED = 200  # characters of a message that was left out
MOST_SHORTENED = 20
SUMMARY_CHARACTERS = 40_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellFacts:
    """What holds of the conversation's shell, whatever was left out: where it works, and the files that are known there (of `more`
    others only that they are there)."""

    container_id: str | None = None
    directory: str = ""
    files: Sequence[str] = ()
    more: bool = False

    def sentences(self) -> list[str]:
        if self.container_id is None:
            return []
        where = f"The shell's container {self.container_id} is the same as before, with its files and its directory {self.directory}."
        if not self.files:
            return [where]
        rest = ", and others" if self.more else ""
        return [where, f"Files there: {', '.join(self.files)}{rest}."]


def is_marker(item: Mapping[str, Any]) -> bool:
    """Whether the item is one that `marker` made."""
    return isinstance(item.get(LEFT_OUT), dict)


def marker(
    dropped: Sequence[Json],
    *,
    summary: str | None,
    facts: ShellFacts,
    since_user: int,
    room: int,
) -> Json:
    """The message for `dropped`, markers among them counted with what they stood for. Without a summary the user's messages are told in
    short, in `room` characters. `since_user` shell outputs that came after the newest message of the user are gone."""
    count = sum(item[LEFT_OUT]["items"] if is_marker(item) else 1 for item in dropped)
    if summary is not None:
        parts = [f"[Summary of {count} earlier items of this conversation, which are left out to save room:]", summary]
        told: list[str] = []
    else:
        parts = [f"[{count} earlier items of this conversation are left out here to save room.]"]
        told = _told(dropped, room)
        if told:
            parts.append("\n".join(["What the user said in them, shortened:", *(f"- {text}" for text in told)]))
    content = "\n\n".join([*parts, *facts.sentences()])
    kept: Json = {"items": count, "outputs": since_user, "said": told, "container_id": facts.container_id}
    return {"type": "message", "role": "system", "content": content, LEFT_OUT: kept}


def opening() -> Json:
    """What stands behind a marker where an answer would come first, which some providers refuse; it is part of the marker."""
    kept: Json = {"items": 0, "outputs": 0, "said": [], "container_id": None}
    return {"type": "message", "role": "user", "content": "(My earlier messages are left out.)", LEFT_OUT: kept}


def text_of(item: Mapping[str, Any]) -> str:
    """The text of a message."""
    content = item.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text") or part.get("refusal") or "") for part in content).strip()


def _told(dropped: Sequence[Json], room: int) -> list[str]:
    """The user's messages, shortened; of too many the oldest, which say what it is about, and the newest."""
    texts = [text for item in dropped for text in _said(item) if text]
    if len(texts) > MOST_SHORTENED:
        texts = [*texts[: MOST_SHORTENED // 2], *texts[-(MOST_SHORTENED // 2) :]]
    each = min(SHORTENED, max(20, room // max(1, len(texts))))
    return [text if len(text) <= each else f"{text[: each - 1]}…" for text in texts]


def _said(item: Json) -> Iterable[str]:
    if is_marker(item):
        return [text for text in item[LEFT_OUT].get("said", ()) if isinstance(text, str)]
    if item.get("type") == "message" and item.get("role") == "user":
        return [" ".join(text_of(item).split())]
    return []
