"""`limpet shell --container`: left and joined again, with a gateway and without one, driven through a pseudo-terminal."""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.cli.conftest import PROGRAM, environment
from tests.cli.terminals import BOOT, Typist, terminal
from tests.support.gateway import Gateway, lasting
from tests.support.host import eventually, rows, stored_ref
from tests.support.prepared import ran

PROMPT = b"$ "
LEAVE = b"\x1c\x1c"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    if shutil.which("bwrap") is None:
        pytest.skip("There is no bubblewrap on this machine, so there are no boxes to join.")
    with lasting(tmp_path_factory.mktemp("gateway")) as gateway:
        yield gateway


@pytest.fixture
def container(gateway: Gateway) -> str:
    """A container that has no box yet; its gateway runs."""
    if gateway.process is None:
        gateway.start()
    with gateway.http() as client:
        created: str = client.post("/v1/containers", json={"name": "mine"}).raise_for_status().json()["id"]
    return created


def joined(gateway: Gateway, container: str, *more: str) -> AbstractContextManager[Typist]:
    env = environment(gateway.home, TERM="xterm", NO_COLOR="1", LIMPET_URL=gateway.url)
    return terminal("shell", "--container", container, *more, env=env, prepared=True)


def left(typist: Typist) -> None:
    typist.type(LEAVE)
    assert typist.end() == 0
    assert b"Join it again with: limpet shell --container cntr_" in typist.all


def refused(gateway: Gateway, *args: str, **env: str) -> tuple[int, str]:
    done = ran(["shell", *args], env=environment(gateway.home, **env), timeout=60)
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)
    return done.returncode, done.stderr


@pytest.mark.promise("hadrian-operator-can-enter-a-box")
def test_a_shell_is_left_and_joined_again_with_what_it_knows(gateway: Gateway, container: str) -> None:
    with joined(gateway, container) as typist:
        before = typist.attributes()
        assert b"Ctrl-\\ Ctrl-\\ leaves it running" in typist.until(PROMPT, within=BOOT)
        typist.type("a=41; echo remembered\r")
        typist.until(b"\rremembered\r\n")
        typist.until(PROMPT)
        left(typist)
        assert typist.attributes() == before
        assert b"\x1b[?2004l\x1b[0m" in typist.all

    with joined(gateway, container) as typist:
        assert b"remembered" in typist.until(b"remembered\r\n", within=BOOT)
        typist.type("echo $((a + 1)); exit 6\r")
        typist.until(b"\r42\r\n")
        assert typist.end() == 6


def left_waiting(typist: Typist, gateway: Gateway, container: str, *, then: str) -> None:
    """Leave the shell while a command waits, and let that go on to what is then to be done."""
    typist.until(PROMPT, within=BOOT)
    typist.type(f"while [ ! -e go ]; do sleep 0.02; done; {then}\r")
    typist.until(f"{then}\r\n".encode())
    left(typist)
    with gateway.http() as client:
        client.post(f"/v1/containers/{container}/files", files={"file": ("go", b"")}).raise_for_status()


def test_a_command_goes_on_while_nobody_is_there(gateway: Gateway, container: str) -> None:
    with joined(gateway, container) as typist:
        left_waiting(typist, gateway, container, then="echo it went on")

    with joined(gateway, container) as typist:
        typist.until(b"\rit went on\r\n", within=BOOT)


def test_the_terminal_may_go_away_and_the_size_of_the_next_one_counts(gateway: Gateway, container: str) -> None:
    with joined(gateway, container) as typist:
        typist.until(PROMPT, within=BOOT)
        typist.type("b=7\r")
        typist.until(PROMPT)
        typist.process.send_signal(signal.SIGHUP)
        assert typist.end() == 128 + signal.SIGHUP

    with joined(gateway, container) as typist:
        typist.until(b"b=7\r\n", within=BOOT)
        typist.resize(90, 20)
        # The new size is a message of its own, and may come after what is typed.
        typist.type("until [ \"$(stty size)\" = '20 90' ]; do sleep 0.02; done; echo $b; stty size\r")
        typist.until(b"\r7\r\n20 90\r\n")


def test_the_end_of_long_output_is_shown_again(gateway: Gateway, container: str) -> None:
    with joined(gateway, container) as typist:
        typist.until(PROMPT, within=BOOT)
        typist.type("seq 100000; printf 'where\\033[6n am I\\n'\r")
        typist.until(b"am I\r\n")
        typist.until(PROMPT)
        left(typist)

    with joined(gateway, container) as typist:
        shown = typist.until(b"where am I\r\n", within=BOOT)  # without the question, whose answer would be typed
    assert shown.endswith(b"\n99999\r\n100000\r\nwhere am I\r\n")
    assert 30_000 < len(shown) <= (64 << 10) + 200


def test_a_shell_that_ended_meanwhile_says_so_and_a_new_one_begins(gateway: Gateway, container: str) -> None:
    with joined(gateway, container) as typist:
        left_waiting(typist, gateway, container, then="echo last words; exit 3")
    done = piped(gateway, container, "while pgrep -x bash | grep -qvw $$; do sleep 0.02; done; echo gone")
    assert done.stdout == "gone\n"

    with joined(gateway, container) as typist:
        typist.until(b"\rlast words\r\n", within=BOOT)
        typist.until(b"That shell has ended since it was left; here is a new one.")
        typist.until(PROMPT)
        typist.type("echo $((20 + 3))\r")
        typist.until(b"\r23\r\n")


def piped(gateway: Gateway, container: str, commands: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*PROGRAM, "shell", "--container", container],
        input=commands,
        capture_output=True,
        text=True,
        env=environment(gateway.home, LIMPET_URL=gateway.url),
        timeout=60,
        check=False,
    )


def test_a_container_has_as_many_shells_as_one_wants(gateway: Gateway, container: str) -> None:
    with joined(gateway, container) as one, joined(gateway, container, "--number", "2") as two:
        one.until(PROMPT, within=BOOT)
        two.until(PROMPT, within=BOOT)
        one.type("n=one; echo $n $n > f; cat f\r")
        one.until(b"\rone one\r\n")
        two.type("cat f; echo n is [$n]\r")
        two.until(b"\rone one\r\nn is []\r\n")


def test_who_joins_a_shell_where_somebody_is_sees_the_same(gateway: Gateway, container: str) -> None:
    with joined(gateway, container) as one:
        one.until(PROMPT, within=BOOT)
        with joined(gateway, container) as other:
            other.until(PROMPT, within=BOOT)
            one.type("echo $((30 + 3))\r")
            other.until(b"\r33\r\n")
            other.type("exit 4\r")
            assert (one.end(), other.end()) == (4, 4)


def test_pasted_bytes_never_leave(gateway: Gateway, container: str) -> None:
    pasted = b"a" + LEAVE + b"b" + LEAVE
    with joined(gateway, container) as typist:
        typist.until(PROMPT, within=BOOT)
        typist.type(f"stty raw -echo; echo go; head -c {len(pasted)} | od -An -c; stty sane\r")
        typist.until(b"\rgo\n")
        typist.type(pasted)
        typist.until(b"a 034 034   b 034 034\n")
        typist.until(PROMPT)


def test_without_a_terminal_commands_run_in_the_container(gateway: Gateway, container: str) -> None:
    first = piped(gateway, container, "echo kept > f; echo err >&2; exit 3\n")
    second = piped(gateway, container, "cat f\n")

    assert (first.returncode, first.stdout, first.stderr) == (3, "", "err\n")
    assert (second.returncode, second.stdout, second.stderr) == (0, "kept\n", "")


def test_joining_is_activity(gateway: Gateway, container: str) -> None:
    query = "SELECT last_active_at FROM containers WHERE id = ?"
    piped(gateway, container, "true")
    (before,) = rows(gateway.home / "limpet.db", query, container)
    with joined(gateway, container):
        eventually(lambda: rows(gateway.home / "limpet.db", query, container) != [before], within=BOOT)


def test_without_a_gateway_a_box_is_joined_or_booted_and_the_next_gateway_finds_it(
    gateway: Gateway, container: str
) -> None:
    with joined(gateway, container) as typist:
        typist.until(PROMPT, within=BOOT)
        typist.type("c=5; echo kept > f\r")
        typist.until(PROMPT)
        left(typist)
    with gateway.http() as client:
        unbooted = client.post("/v1/containers", json={"name": "other"}).raise_for_status().json()["id"]
    gateway.stop()

    assert piped(gateway, unbooted, "echo hello > g; cat g").stdout == "hello\n"
    with joined(gateway, container) as typist:
        typist.until(b"> f\r\n", within=BOOT)
        typist.type("echo $c | tee -a f; cat f\r")
        typist.until(b"\r5\r\nkept\r\n5\r\n")
        gateway.start()
        typist.type("echo still here\r")
        typist.until(b"\rstill here\r\n")
        with gateway.http() as client:
            listed = client.get(f"/v1/containers/{unbooted}/files").raise_for_status().json()["data"]
        assert [file["path"] for file in listed] == ["/mnt/data/g"]


def test_a_box_that_dies_ends_with_125_and_the_next_shell_has_its_files(gateway: Gateway, container: str) -> None:
    with joined(gateway, container) as typist:
        typist.until(PROMPT, within=BOOT)
        typist.type("echo kept > f\r")
        typist.until(PROMPT)
        stored = stored_ref(gateway.home / "limpet.db", container)
        assert stored is not None
        os.kill(stored["facts"]["pid"], signal.SIGKILL)

        assert typist.end() == 125
        assert re.search(rb"limpet: The sandbox is gone[^\n]* boots it anew\.\r\n", bytes(typist.all))
    assert piped(gateway, container, "cat f").stdout == "kept\n"


def test_a_container_that_is_deleted_meanwhile_is_named(gateway: Gateway, container: str) -> None:
    with joined(gateway, container) as typist:
        typist.until(PROMPT, within=BOOT)
        with gateway.http() as client:
            client.delete(f"/v1/containers/{container}").raise_for_status()

        assert typist.end() == 125
        assert f"limpet: The container {container} was deleted, and its box has ended.\r\n".encode() in typist.all
    assert refused(gateway, "--container", container) == (
        1,
        f"limpet: There is no container {container} in {gateway.home}. Set LIMPET_HOME if it is elsewhere.\n",
    )


def test_a_gateway_that_cannot_be_had_is_one_sentence(gateway: Gateway, container: str) -> None:
    code, said = refused(gateway, "--container", container, "--url", "http://127.0.0.1:9")

    assert code == 1
    assert "No gateway answers at http://127.0.0.1:9. Name that gateway with --url or LIMPET_URL" in said


def test_a_home_without_containers_is_one_sentence_and_stays_as_it_was(gateway: Gateway, tmp_path: Path) -> None:
    code, said = refused(gateway, "--container", "cntr_1", LIMPET_HOME=str(tmp_path / "none"))

    assert (code, said.startswith(f"limpet: There are no containers in {tmp_path}/none.")) == (1, True)
    assert not (tmp_path / "none").exists()


def test_a_container_brings_its_own_runtime(gateway: Gateway) -> None:
    code, said = refused(gateway, "--container", "cntr_1", "--runtime", "local")

    assert (code, "a container has its own" in said) == (2, True)
