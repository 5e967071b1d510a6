"""Codex CLI through a provider that speaks chat completions: its own tools, which come in several forms, work there."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.clients.caches import node_clients
from tests.clients.turns import SECONDS
from tests.support.gateway import Gateway
from tests.support.providers.turns import FunctionCall
from tests.wire.provider import Provider

MODEL = "chat-codex"
# A picture of one point.
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@pytest.fixture
def place() -> Iterator[Path]:
    """Codex puts no helpers of its sandbox below the system's directory for temporary files, so this is not there."""
    with TemporaryDirectory(prefix="codex-", dir=node_clients().parent, ignore_cleanup_errors=True) as directory:
        yield Path(directory)


def configured(place: Path, gateway: Gateway, *more: str) -> Path:
    """A CODEX_HOME that names the provider and nothing else; `more` says more of it."""
    home = place / "home"
    home.mkdir()
    lines = [
        f'model = "{MODEL}"',
        'model_provider = "limpet"',
        "[model_providers.limpet]",
        'name = "limpet"',
        f'base_url = "{gateway.url}/v1"',
        'wire_api = "responses"',
        *more,
    ]
    (home / "config.toml").write_text("\n".join(lines))
    return home


def asked(home: Path, work: Path, *arguments: str) -> list[dict[str, object]]:
    """The events of one `codex exec`."""
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "CODEX_HOME": str(home)}
    program = str(node_clients() / "node_modules/.bin/codex")
    command = [program, "exec", "--json", "--skip-git-repo-check", "--sandbox", "workspace-write", *arguments]
    done = subprocess.run(
        command,
        cwd=work,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.promise("hosted-tools-of-others-are-relayed-or-left-out", "namespaces-are-flattened-and-back")
def test_codex_completes_a_task_with_three_of_its_own_tools_and_resumes_it(
    gateway: Gateway, chat: Provider, place: Path
) -> None:
    if shutil.which("node") is None:
        pytest.skip("codex is started by node, which is not on the PATH")
    home, work = configured(place, gateway), place / "work"
    work.mkdir()
    chat.play(
        FunctionCall(
            "exec_command", {"cmd": f"echo {PICTURE} | base64 -d > a.png; echo one > notes.txt"}, call_id="c1"
        ),
        FunctionCall("view_image", {"path": str(work / "a.png")}, call_id="c2"),
        FunctionCall("multi_agent_v1__close_agent", {"target": "nobody"}, call_id="c3"),
        "The task is done.",
    )
    events = asked(home, work, "Draw and look.")
    turns = chat.asked
    chat.play(FunctionCall("exec_command", {"cmd": "cat notes.txt"}, call_id="c4"), "It says one.")
    again = asked(home, work, "resume", "--last", "And what do the notes say?")

    assert _said(events) == "The task is done."
    assert (work / "notes.txt").read_text() == "one\n"
    offered = [tool["function"]["name"] for tool in turns[0]["tools"]]
    assert {"exec_command", "view_image", "multi_agent_v1__close_agent"} <= set(offered)
    results = {m["tool_call_id"]: m["content"] for m in turns[3]["messages"] if m["role"] == "tool"}
    assert list(results) == ["c1", "c2", "c3"]
    assert "exited with code 0" in results["c1"]
    assert not any("unsupported call" in str(result) for result in results.values()), results
    assert "image_url" in json.dumps(turns[2]["messages"])
    # It asks for a web search in every request, which nobody here can do.
    assert "web_search" in gateway.log.read_text()
    assert _said(again) == "It says one."
    last = {m["tool_call_id"]: m["content"] for m in chat.asked[-1]["messages"] if m["role"] == "tool"}
    assert list(last) == ["c1", "c2", "c3", "c4"]
    assert "one" in last["c4"]


@pytest.mark.promise("websocket-carries-responses")
def test_codex_completes_a_task_over_websocket_and_resumes_it(gateway: Gateway, chat: Provider, place: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("codex is started by node, which is not on the PATH")
    home, work = configured(place, gateway, "supports_websockets = true"), place / "work"
    work.mkdir()
    before = len(gateway.log.read_text())
    chat.play(
        FunctionCall("exec_command", {"cmd": "echo one > notes.txt"}, call_id="c1"),
        FunctionCall("exec_command", {"cmd": "cat notes.txt"}, call_id="c2"),
        "The task is done.",
    )
    events = asked(home, work, "Write and read.")
    turns = chat.asked
    chat.play("It says one.")
    again = asked(home, work, "resume", "--last", "And what do the notes say?")

    assert _said(events) == "The task is done."
    assert _said(again) == "It says one."
    results = {m["tool_call_id"]: m["content"] for m in turns[2]["messages"] if m["role"] == "tool"}
    assert list(results) == ["c1", "c2"]
    assert "one" in results["c2"]
    lines = [line for line in gateway.log.read_text()[before:].splitlines() if "/v1/responses" in line]
    assert lines, "no request came"
    assert all("101" in line and "POST" not in line for line in lines), lines


def _said(events: list[dict[str, object]]) -> str:
    messages = [
        item["text"]
        for event in events
        if isinstance(item := event.get("item"), dict) and item.get("type") == "agent_message"
    ]
    return str(messages[-1])
