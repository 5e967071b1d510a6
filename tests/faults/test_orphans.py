"""However something ends, what it had goes with it: processes, cgroups, mounts, sockets, descriptors, temporary files.

Counted before and after. The traces of a box that rests are its own and stay: they count as before, not as nothing.
"""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from limpet.runtimes.bubblewrap.limits.groups import find_groups
from limpet.runtimes.bubblewrap.settings import BoxPaths
from tests.support.gateway import LIMPET, Gateway, lasting
from tests.support.homes import home_apart
from tests.support.host import eventually, processes_of, processes_with
from tests.support.users import again_as_an_ordinary_user
from tests.wire.asking import SHELL, container_of, entries, referring_to, run, shell_blocks
from tests.wire.streams import asking

# Its own in each process: the same tests may run beside these, as another user.
_MARK = f"741.{os.getpid()}"
_WAITS = b"kill -9 $$ #"  # what the shell that waits for the next command has in its arguments until then
_BOTH = f"echo begun; setsid sleep {_MARK} & sleep {_MARK}"
_HASTY = "[features.server_tools.shell_limits]\ncommand_timeout_secs = 1\n"
_EXPIRING = "[features.containers]\ndefault_idle_ttl_secs = 1\n"
_REAPED_WITHIN = 1 + 5 + 4


@dataclass(frozen=True, kw_only=True)
class Traces:
    """What this host has of a gateway and its boxes. Shells that wait for the next command don't count: they come and go by
    themselves. `descriptors` are the gateway's, those of its pool of database connections once."""

    processes: int
    groups: tuple[str, ...]
    mounts: int
    run: tuple[str, ...]
    boxes: tuple[str, ...]
    temporary: tuple[str, ...]
    descriptors: tuple[str, ...]


def traces(gateway: Gateway) -> Traces:
    home = str(gateway.home)
    groups = find_groups()
    running = [] if gateway.process is None else [gateway.process.pid]
    return Traces(
        processes=len([pid for pid in processes_of(home) if pid not in running and not _waits(pid)]),
        groups=tuple(sorted(groups.all(BoxPaths(gateway.home, "").group))) if groups else (),
        mounts=Path("/proc/self/mountinfo").read_text().count(home),
        run=_names(gateway.home / "run"),
        boxes=_names(gateway.home / "boxes"),
        temporary=_names(gateway.directory / "tmp"),
        descriptors=tuple(kind for pid in running for kind in _descriptors(pid)),
    )


def settled(gateway: Gateway) -> Traces:
    """The traces once they stay as they are for three looks."""
    seen = [traces(gateway)]
    until = time.monotonic() + 5.0
    while len(seen) < 3 or seen[-3:] != [seen[-1]] * 3:
        assert time.monotonic() < until, f"it does not rest: {seen[-3:]}"
        time.sleep(0.1)
        seen.append(traces(gateway))
    return seen[-1]


def _waits(pid: int) -> bool:
    try:
        return _WAITS in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _names(directory: Path) -> tuple[str, ...]:
    return tuple(sorted(path.name for path in directory.iterdir())) if directory.is_dir() else ()


def _descriptors(pid: int) -> list[str]:
    """What each of them is, without its number."""
    found: list[str] = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            what = re.sub(r"\d+", "", os.readlink(link))
        except FileNotFoundError:
            continue
        if "limpet.db" not in what or what not in found:
            found.append(what)
    return sorted(found)


def becomes(gateway: Gateway, before: Traces, why: str, *, within: float = 5.0) -> None:
    """The traces are what they were, in the end."""
    until = time.monotonic() + within
    while (now := traces(gateway)) != before:
        assert time.monotonic() < until, f"{why}:\n before {before}\n now    {now}"
        time.sleep(0.05)


@contextmanager
def gateway_with(directory: Path, config: str) -> Iterator[Gateway]:
    (directory / "tmp").mkdir()
    with lasting(directory, config=config, env={"TMPDIR": str(directory / "tmp")}) as gateway:
        yield gateway


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with gateway_with(tmp_path, _HASTY) as gateway:
        yield gateway


def _ends_by_itself(gateway: Gateway, container: str) -> None:
    with gateway.client() as client:
        run(client, "seq 100000; echo x > f", container=container)


def _runs_out_of_time(gateway: Gateway, container: str) -> None:
    with gateway.client() as client:
        (entry,) = entries(run(client, _BOTH, container=container))
    assert entry.outcome.type == "timeout"


def _is_deleted(gateway: Gateway, container: str) -> None:
    body = {"model": "limpet/script", "input": shell_blocks(_BOTH), "tools": referring_to(container)}
    with asking(gateway, **body) as stream:
        response = stream.until("response.created")["response"]["id"]
        stream.until_printed("begun")
        with gateway.http() as http:
            assert http.delete(f"/v1/responses/{response}").status_code == 200


def _loses_its_client(gateway: Gateway, container: str) -> None:
    body = {"model": "limpet/script", "input": shell_blocks(_BOTH), "tools": referring_to(container), "store": False}
    with asking(gateway, **body) as stream:
        stream.until_printed("begun")


def _prints_much_into_a_file(gateway: Gateway, container: str) -> None:
    with gateway.client() as client:
        run(client, "head -c 3000000 /dev/zero | tr '\\0' x; rm -rf limpet-output", container=container)


_ENDINGS: tuple[Callable[[Gateway, str], None], ...] = (
    _ends_by_itself,
    _runs_out_of_time,
    _is_deleted,
    _loses_its_client,
    _prints_much_into_a_file,
)


def test_however_a_command_ends_nothing_of_it_is_left(gateway: Gateway) -> None:
    with gateway.client() as client:
        container = container_of(run(client, "true"))
    for ending in _ENDINGS:
        ending(gateway, container)  # once before it counts: pools of threads and connections fill up
    eventually(lambda: processes_with(_MARK) == [])
    _ends_by_itself(gateway, container)
    before = settled(gateway)

    for ending in _ENDINGS:
        ending(gateway, container)
        eventually(lambda: processes_with(_MARK) == [], says=ending.__name__)
        _ends_by_itself(gateway, container)  # so that the box rests as before
        becomes(gateway, before, ending.__name__)


def test_a_deleted_container_leaves_nothing(gateway: Gateway) -> None:
    def live_and_die() -> None:
        with gateway.client() as client:
            container = container_of(run(client, f"setsid -f sleep {_MARK}; echo x > f"))
            assert len(processes_with(_MARK)) == 1
            client.containers.delete(container)

    live_and_die()
    before = settled(gateway)
    live_and_die()

    assert (before.processes, before.groups, before.run, before.boxes, before.mounts) == (0, (), (), (), 0)
    becomes(gateway, before, "deleted")


def test_an_expired_container_leaves_nothing(tmp_path: Path) -> None:
    with gateway_with(tmp_path, _EXPIRING) as gateway:

        def live_and_die() -> None:
            with gateway.client() as client:
                run(client, f"setsid -f sleep {_MARK}; echo x > f")
            eventually(lambda: traces(gateway).boxes == (), within=_REAPED_WITHIN, says="it does not expire")

        live_and_die()
        before = settled(gateway)
        live_and_die()

        assert before.processes == 0
        becomes(gateway, before, "expired")


@pytest.mark.parametrize("end", [Gateway.stop, Gateway.kill], ids=["SIGTERM", "SIGKILL"])
def test_a_gateway_that_ends_leaves_its_boxes_and_the_next_one_can_clear_them(
    gateway: Gateway, end: Callable[[Gateway], int]
) -> None:
    with gateway.client() as client:
        nothing = replace(settled(gateway), descriptors=())
        container = container_of(run(client, f"setsid -f sleep {_MARK}"))
    lives = replace(settled(gateway), descriptors=())

    end(gateway)
    becomes(gateway, lives, "after its end")
    gateway.start()
    with gateway.client() as client:
        becomes(gateway, replace(lives, descriptors=settled(gateway).descriptors), "after the start")
        client.containers.delete(container)

    assert processes_with(_MARK) == []
    becomes(gateway, replace(nothing, descriptors=settled(gateway).descriptors), "after the deletion")


def test_a_gateway_killed_in_mid_command_leaves_only_what_its_container_holds(gateway: Gateway) -> None:
    with gateway.client() as client:
        client.containers.create(name="warms up the pools")
        nothing = replace(settled(gateway), descriptors=())
    body = {"model": "limpet/script", "input": shell_blocks(f"echo begun; sleep {_MARK}"), "tools": SHELL}
    with asking(gateway, **body) as stream:
        container = stream.until("response.created")["response"]["container_id"]
        stream.until_printed("begun")
        gateway.kill()

    gateway.start()
    with gateway.client() as client:
        client.containers.delete(container)

    assert processes_with(_MARK) == []
    becomes(gateway, replace(nothing, descriptors=settled(gateway).descriptors), "after the deletion")


def test_a_killed_library_process_leaves_no_process_and_the_rest_goes_with_check_clean(tmp_path: Path) -> None:
    with home_apart() as home:
        gateway = Gateway(tmp_path, home=home)
        environment = {"PATH": os.environ["PATH"], "LIMPET_HOME": str(home), "TMPDIR": str(tmp_path / "tmp")}
        (tmp_path / "tmp").mkdir()

        def limpet(*words: str) -> str:
            done = subprocess.run(
                [LIMPET, *words], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=True
            )
            return done.stdout

        assert limpet("run", "--", "true") == ""
        nothing = traces(gateway)
        program = subprocess.Popen([LIMPET, "run", "--", f"setsid sleep {_MARK} & sleep {_MARK}"], env=environment)
        eventually(lambda: len(processes_with(_MARK)) == 2, within=30)  # an interpreter and a box start first
        assert "Nothing is left" in limpet("check", "--clean")
        program.send_signal(signal.SIGKILL)
        program.wait()
        eventually(lambda: traces(gateway).processes == 0, says="the box lives on")

        left = traces(gateway)
        shown = limpet("check", "--clean", "--dry-run")
        assert traces(gateway) == left != nothing
        cleared = limpet("check", "--clean")

        assert traces(gateway) == nothing
        (short,) = left.boxes
        assert shown.startswith(f"The sandbox {short} has ended; of it there is: {home}/run/{short}.sock")
        assert cleared == shown.replace("has ended; of it there is:", "had ended; removed:")


@pytest.mark.timeout(240)
def test_the_same_holds_for_an_ordinary_user() -> None:
    again_as_an_ordinary_user("-k", "however or deleted or library or SIGKILL", __file__)
