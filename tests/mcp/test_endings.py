"""However a session ends, nothing of its box is left: the end of input, signals, a killed client, a killed server."""

import json
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from tests.mcp.conftest import http_program, over_http, program
from tests.support.host import eventually, processes_of

pytestmark = pytest.mark.anyio

HANDSHAKE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


def send(process: "subprocess.Popen[bytes]", **message: Any) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    process.stdin.flush()


def answer(process: "subprocess.Popen[bytes]", id: int) -> Any:
    """The result of that request; notifications before it are passed over."""
    assert process.stdout is not None
    while True:
        said = json.loads(process.stdout.readline())
        if said.get("id") == id:
            return said


def shake_hands(process: "subprocess.Popen[bytes]") -> None:
    send(process, id=1, method="initialize", params=HANDSHAKE)
    answer(process, 1)
    send(process, method="notifications/initialized")


def begin_something(process: "subprocess.Popen[bytes]", home: Path) -> None:
    """A command in front, which has begun, and a task behind it."""
    shake_hands(process)
    send(
        process,
        id=2,
        method="tools/call",
        params={"name": "Bash", "arguments": {"command": "sleep 4322", "run_in_background": True}},
    )
    answer(process, 2)
    params = {
        "name": "workspace__box__run",
        "arguments": {"command": "echo begun; sleep 4323; true"},
        "_meta": {"progressToken": 7},
    }
    send(process, id=3, method="tools/call", params=params)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["method"] == "notifications/progress"
    assert processes_of(str(home))


def nothing_is_left(home: Path) -> None:
    eventually(lambda: not processes_of(str(home)), within=10, says=f"something of {home} still runs")


def test_the_end_of_input_ends_it_with_success_while_commands_run(home: Path) -> None:
    with program(home) as process:
        begin_something(process, home)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=10) == 0
        process.stdin = None
        nothing_is_left(home)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_success_though_its_input_stays_open(home: Path, number: signal.Signals) -> None:
    with program(home) as process:
        begin_something(process, home)
        process.send_signal(number)
        assert process.wait(timeout=10) == 0
        nothing_is_left(home)


def test_a_signal_ends_it_though_the_client_reads_nothing(home: Path) -> None:
    with program(home) as process:
        shake_hands(process)
        arguments = {"command": "seq 1 300000; touch /mnt/data/printed; sleep 4328; true"}
        for id in range(3, 30):  # more than a pipe holds
            params = {"name": "Bash", "arguments": arguments, "_meta": {"progressToken": id}}
            send(process, id=id, method="tools/call", params=params)
        assert process.stdout is not None
        process.stdout.readline()
        eventually(lambda: is_writing(process.pid), within=20, says="it never waited for its reader")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0
        nothing_is_left(home)


def is_writing(pid: int) -> bool:
    """Whether a thread of it is blocked on a full pipe."""
    waits = (path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/wchan"))
    return any("pipe_write" in wait for wait in waits)


def test_a_killed_server_leaves_no_box(home: Path) -> None:
    with program(home) as process:
        begin_something(process, home)
        process.kill()
        process.wait(timeout=10)
        nothing_is_left(home)


CLIENT = """
import anyio, sys
from mcp import Client
from mcp.client.stdio import StdioServerParameters

async def main():
    server = StdioServerParameters(command=sys.argv[1], args=["mcp"], env={"LIMPET_HOME": sys.argv[2]})
    async with Client(server) as client:
        await client.call_tool("Bash", {"command": "sleep 4324", "run_in_background": True})
        print("begun", flush=True)
        await client.call_tool("Bash", {"command": "sleep 4325; true"})

anyio.run(main)
"""


def test_a_killed_client_leaves_no_box(home: Path) -> None:
    words = [sys.executable, "-c", CLIENT, str(Path(sys.executable).parent / "limpet"), str(home)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"begun\n"
        assert processes_of(str(home))
        client.kill()
    nothing_is_left(home)


async def test_two_sessions_have_two_boxes_that_cannot_see_each_other(home: Path) -> None:
    with http_program(home) as (url, process):
        async with over_http(url) as one, over_http(url) as other:
            await one.call_tool("Bash", {"command": "cd /tmp; echo mine > secret; echo mine > /mnt/data/secret"})
            started = await one.call_tool("Bash", {"command": "sleep 4326", "run_in_background": True})
            look = "cat /tmp/secret /mnt/data/secret; pgrep -f 'sleep 432[6]'; pwd"
            seen = await other.call_tool("Bash", {"command": look})
            asked = await other.call_tool("Bash", {"task_id": started.structured_content["task_id"], "kill": True})
            still = await one.call_tool("Bash", {"task_id": started.structured_content["task_id"]})
        assert (seen.structured_content["stdout"], seen.structured_content["stderr"].count("No such file")) == (
            "/mnt/data\n",
            2,
        )
        assert (asked.is_error, asked.structured_content["error"]["code"]) == (True, "unknown_task")
        assert still.structured_content["is_running"] is True
        # The clients' DELETE has ended both boxes, and the server goes on.
        eventually(lambda: not [pid for pid in processes_of(str(home)) if pid != process.pid], within=10)
        async with over_http(url) as third:
            again = await third.call_tool("Bash", {"command": "cat secret"})
        assert again.structured_content["exit_code"] == 1
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0
    nothing_is_left(home)


async def opened(client: httpx2.AsyncClient, url: str) -> dict[str, str]:
    """A session by hand: the headers of its requests."""
    headers = {"accept": "application/json, text/event-stream"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HANDSHAKE}
    done = await client.post(url, json=body, headers=headers)
    assert done.status_code == 200, done.text
    return {**headers, "mcp-session-id": done.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}


async def test_a_session_that_nobody_uses_ends_with_its_box(home: Path) -> None:
    with http_program(home, "--idle", "0.5") as (url, process):
        async with httpx2.AsyncClient(trust_env=False, timeout=20) as client:
            headers = await opened(client, url)
            eventually(lambda: not [pid for pid in processes_of(str(home)) if pid != process.pid], within=10)
            asked = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
            with anyio.fail_after(10):  # its processes have ended a moment before it has
                while "has ended" not in (late := await client.post(url, json=asked, headers=headers)).text:
                    await anyio.sleep(0.01)
        assert late.status_code == 404


async def test_no_more_boxes_than_sessions_are_allowed(home: Path) -> None:
    with http_program(home, "--sessions", "1") as (url, _):
        async with httpx2.AsyncClient(trust_env=False, timeout=20) as client:
            headers = await opened(client, url)
            body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HANDSHAKE}
            refused = await client.post(url, json=body, headers={"accept": headers["accept"]})
            assert (refused.status_code, "1 sessions are open" in refused.text) == (503, True)
            assert (await client.delete(url, headers=headers)).status_code == 200
            with anyio.fail_after(10):
                while (await client.post(url, json=body, headers={"accept": headers["accept"]})).status_code != 200:
                    pass


async def test_refused_handshakes_leave_no_session_and_no_box(home: Path) -> None:
    with http_program(home, "--sessions", "1") as (url, process):
        accepts = {"accept": "application/json, text/event-stream"}
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HANDSHAKE}
        bad: list[dict[str, Any]] = [
            {"content": json.dumps(body), "headers": {**accepts, "content-type": "text/plain"}},
            {"json": body, "headers": {"accept": "application/json"}},
            {"json": body, "headers": {"accept": "text/html"}},
            {"content": '{"method": "initialize"', "headers": {**accepts, "content-type": "application/json"}},
            {"json": {**body, "jsonrpc": "1.0"}, "headers": accepts},
            {"json": {**body, "id": None}, "headers": accepts},
            {"json": {"jsonrpc": "2.0", "method": "initialize", "params": HANDSHAKE}, "headers": accepts},
            {"json": {**body, "params": {}}, "headers": accepts},
            {"json": {**body, "params": {**HANDSHAKE, "protocolVersion": 7}}, "headers": accepts},
            {"json": [body, body], "headers": accepts},
            {"json": body, "headers": {**accepts, "mcp-protocol-version": "1999-01-01"}},
            {"content": b"{" + b" " * (2 << 20) + b"}", "headers": {**accepts, "content-type": "application/json"}},
        ]
        async with httpx2.AsyncClient(trust_env=False, timeout=20) as client:
            statuses = [(await client.post(url, **asked)).status_code for asked in bad]
            assert [status for status in statuses if status < 400] == []
            assert [pid for pid in processes_of(str(home)) if pid != process.pid] == []
            assert (await client.put(url, json=body, headers=accepts)).status_code == 400
            await opened(client, url)  # the one session that there may be


async def test_a_client_that_vanishes_after_its_handshake_keeps_no_place(home: Path) -> None:
    """The one place is taken by a session that was never used; after a while it makes room."""
    with http_program(home, "--sessions", "1") as (url, _):
        async with httpx2.AsyncClient(trust_env=False, timeout=20) as client:
            headers = await opened(client, url)
            body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HANDSHAKE}
            with anyio.fail_after(30):
                while (await client.post(url, json=body, headers={"accept": headers["accept"]})).status_code != 200:
                    await anyio.sleep(0.5)
            late = await client.post(url, json={"jsonrpc": "2.0", "id": 2, "method": "tools/list"}, headers=headers)
            assert late.status_code == 404


async def test_a_signal_ends_sessions_that_are_open_and_commands_that_run(home: Path) -> None:
    with http_program(home) as (url, process):
        begun = anyio.Event()

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            begun.set()

        async def call() -> None:
            with suppress(Exception):  # whatever the client makes of a server that goes
                async with over_http(url) as client:
                    await client.call_tool("Bash", {"command": "echo begun; sleep 4327; true"}, progress_callback=hear)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            with anyio.fail_after(20):
                await begun.wait()
            process.send_signal(signal.SIGTERM)
            assert await anyio.to_thread.run_sync(process.wait, 10) == 0
            tasks.cancel_scope.cancel()
    nothing_is_left(home)


async def test_a_connection_that_breaks_off_is_no_cancellation(home: Path) -> None:
    with http_program(home) as (url, _):
        async with httpx2.AsyncClient(trust_env=False, timeout=20) as client:
            headers = await opened(client, url)
            arguments = {"command": "echo begun; until [ -e go ]; do sleep 0.02; done; echo done > done"}
            params = {"name": "Bash", "arguments": arguments, "_meta": {"progressToken": 1}}
            asked = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
            async with client.stream("POST", url, json=asked, headers=headers) as stream:
                async for line in stream.aiter_lines():
                    if "begun" in line:
                        break
            look = {"command": "touch go; until [ -s done ]; do sleep 0.02; done; cat done"}
            asked = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "Bash", "arguments": look}}
            seen = await client.post(url, json=asked, headers=headers)
    assert '"stdout":"done\\n"' in seen.text


def test_what_is_no_message_gets_an_error_and_the_session_goes_on(home: Path) -> None:
    with program(home) as process:
        shake_hands(process)
        assert process.stdin is not None
        process.stdin.write(b"this is no JSON\n" + b"\xff\xfe\n" + b"[1,2]\n")
        send(
            process,
            id=5,
            method="tools/call",
            params={"name": "Bash", "arguments": {"command": "echo on; cat; echo stray >&2"}},
        )
        assert answer(process, 5)["result"]["structuredContent"]["stdout"] == "on\n"
