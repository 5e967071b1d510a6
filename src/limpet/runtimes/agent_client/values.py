"""The values in an agent's frames, each checked for what it may be. BadFrame for anything else."""

from collections.abc import Mapping

from limpet.core.command import Aborted, Exited, Outcome, Position, TimedOut
from limpet.runtimes.agent import wire

LARGEST = 1 << 62  # bytes of output: with what may still come behind them they fit into 64 bits
_NOTES = 16  # of one process, and how many characters each may have
_NOTE = 500
_WORDS = 200
_PIDS = 1 << 22  # PID_MAX_LIMIT of 64-bit machines

Values = Mapping[str, object]


def process(values: Values) -> int:
    """A process's number, which fits into a frame."""
    found = values.get("process")
    if type(found) is not int or not 0 < found <= 0xFFFFFFFF:
        raise wire.BadFrame("a process without a number")
    return found


def pid(values: Values) -> int | None:
    """A process's pid inside the box, where the agent tells it."""
    found = values.get("pid")
    if found is None:
        return None
    if type(found) is not int or not 1 < found <= _PIDS:
        raise wire.BadFrame("a pid that cannot be")
    return found


def outcome(values: Values) -> Outcome:
    """How a process ended."""
    kind, code = values.get("outcome"), values.get("code")
    if kind == "timed_out":
        return TimedOut()
    if kind == "aborted":
        return Aborted()
    if kind == "exited" and type(code) is int and 0 <= code <= 255:
        return Exited(code)
    raise wire.BadFrame("an outcome that cannot be")


def notes(values: Values) -> tuple[str, ...]:
    """What an answer says about bounds that a process ran into; too many and too long ones are cut."""
    found = values.get("notes")
    if found is None:
        return ()
    if not isinstance(found, list) or not all(isinstance(note, str) for note in found):
        raise wire.BadFrame("notes that are no text")
    return tuple(note[:_NOTE] for note in found[:_NOTES])


def kept(values: Values) -> tuple[Position, Position]:
    """Where a process's output begins and ends."""
    match values.get("kept"):
        case [int(out), int(out_end), int(error), int(error_end)] if (
            0 <= out <= out_end <= LARGEST and 0 <= error <= error_end <= LARGEST
        ):
            return Position(stdout=out, stderr=error), Position(stdout=out_end, stderr=error_end)
        case _:
            raise wire.BadFrame("output that cannot be")


def words(values: Values, name: str) -> str:
    """A text of that name, cut; empty where there is none."""
    found = values.get(name, "")
    if not isinstance(found, str):
        raise wire.BadFrame(f"a refusal whose {name} is no text")
    return found[:_WORDS]
