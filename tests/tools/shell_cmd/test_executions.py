"""The lifecycle of executions: the moves that are allowed, who sees which, and how a stop reaches them."""

import pytest

from limpet.core.events import IllegalMove
from limpet.tools.shell_cmd.executions import MOST_FINISHED, MOVES, Execution, Executions

STATES = ("queued", "starting", "running", "completed", "failed", "canceled", "timed_out")
ENDS = ("completed", "failed", "canceled", "timed_out")


def queued(executions: Executions, *, session: str = "s", chat: str | None = "c") -> Execution:
    return executions.queue(session=session, chat=chat, command="ls", directory="/mnt/data")


def test_the_table_holds_every_state_and_no_end_is_left() -> None:
    assert tuple(MOVES) == STATES
    assert all(MOVES[end] == frozenset() for end in ENDS)


def test_a_command_goes_its_way_and_its_record_says_when() -> None:
    executions = Executions()
    record = queued(executions)
    assert (record.status, record.started_at, record.has_ended) == ("queued", None, False)

    executions.advance(record.id, "starting")
    running = executions.advance(record.id, "running")
    assert running.started_at is not None

    ended = executions.finish(record.id, "completed", exit_code=0, stdout_bytes=3)
    assert (ended.status, ended.exit_code, ended.stdout_bytes, ended.has_ended) == ("completed", 0, 3, True)
    assert ended.finished_at is not None
    assert executions.get(record.id, session="s") == ended


@pytest.mark.parametrize("end, after", [(end, after) for end in ENDS for after in ENDS])
@pytest.mark.statement("s3-a-lifecycle-is-tracked")
def test_an_ended_execution_never_moves_again(end: str, after: str) -> None:
    executions = Executions()
    record = queued(executions)
    executions.advance(record.id, "running")
    executions.finish(record.id, end)  # type: ignore[arg-type]  # the four ends

    with pytest.raises(IllegalMove):
        executions.finish(record.id, after)  # type: ignore[arg-type]  # the four ends
    with pytest.raises(IllegalMove):
        executions.advance(record.id, "running")


def test_nothing_goes_back_and_nothing_completes_before_it_ran() -> None:
    executions = Executions()
    record = queued(executions)
    with pytest.raises(IllegalMove):
        executions.finish(record.id, "completed")
    executions.advance(record.id, "running")
    with pytest.raises(IllegalMove):
        executions.advance(record.id, "starting")


def test_a_session_sees_its_own_newest_first_and_nobody_elses() -> None:
    executions = Executions()
    first, second = queued(executions), queued(executions, chat="d")
    other = queued(executions, session="t")

    assert [one.id for one in executions.list(session="s")] == [second.id, first.id]
    assert [one.id for one in executions.list(session="s", chat="d")] == [second.id]
    assert [one.id for one in executions.list(session="s", limit=1)] == [second.id]
    assert executions.get(other.id, session="s") is None
    assert executions.cancel_one(other.id, session="s") == "not_found"


def test_a_list_shows_only_what_is_asked_for() -> None:
    executions = Executions()
    ended, running = queued(executions), queued(executions)
    executions.finish(ended.id, "failed")

    assert [one.id for one in executions.list(session="s", only_active=True)] == [running.id]
    assert [one.id for one in executions.list(session="s", statuses=["failed"])] == [ended.id]


@pytest.mark.statement("s3-a-session-or-a-chat-is-cancelled")
def test_a_stop_of_one_chat_leaves_the_others_running() -> None:
    executions = Executions()
    here, there, elsewhere = queued(executions), queued(executions, chat="d"), queued(executions, session="t")

    assert executions.cancel(session="s", chat="c") == 1
    assert executions.abort_event(here.id).is_set()
    assert not executions.abort_event(there.id).is_set()
    assert not executions.abort_event(elsewhere.id).is_set()

    assert executions.cancel(session="s") == 1
    assert executions.abort_event(there.id).is_set()
    assert not executions.abort_event(elsewhere.id).is_set()


def test_a_second_stop_is_quiet_and_an_ended_one_says_so() -> None:
    executions = Executions()
    record = queued(executions)

    assert executions.cancel_one(record.id, session="s") == "cancel_requested"
    assert executions.cancel(session="s") == 0
    executions.finish(record.id, "canceled")
    assert executions.cancel_one(record.id, session="s") == "already_finished"


def test_of_the_ended_only_the_newest_are_kept_and_what_runs_always() -> None:
    executions = Executions()
    running = queued(executions)
    first = queued(executions)
    executions.finish(first.id, "failed")
    for _ in range(MOST_FINISHED):
        executions.finish(queued(executions).id, "failed")

    assert executions.get(first.id, session="s") is None
    assert executions.get(running.id, session="s") == running
    assert len(executions.list(session="s", limit=10 * MOST_FINISHED)) == MOST_FINISHED + 1
