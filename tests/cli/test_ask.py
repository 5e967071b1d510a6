import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from typing import Any

from limpet.cli.ask import Answer, Question
from limpet.cli.terminal import Screen, shown
from tests.cli.conftest import Limpet

Json = dict[str, Any]


@contextmanager
def gateway(events: list[Json], *, status: int = 200, body: bytes = b"") -> Iterator[tuple[str, list[Json]]]:
    """A server that answers every request with these events, or with a status and a body. Yields its address and what it was asked."""
    asked: list[Json] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)
            for event in events:
                self.wfile.write(f": keep-alive\n\nevent: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def ended(status: str, **more: Any) -> Json:
    return {"type": f"response.{status}", "response": {"id": "resp_1", "status": status, **more}}


def output(**delta: str) -> Json:
    place = {"output_index": 1, "command_index": 0, "item_id": "sho_1"}
    return {"type": "response.shell_call_output_content.delta", **place, "delta": delta}


def output_done(stdout: str, stderr: str, outcome: Json) -> Json:
    entry = {"stdout": stdout, "stderr": stderr, "outcome": outcome}
    place = {"output_index": 1, "command_index": 0, "item_id": "sho_1"}
    return {"type": "response.shell_call_output_content.done", **place, "output": [entry]}


EXIT_7 = {"type": "exit", "exit_code": 7}
CREATED = {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}}
TEXT = {"type": "response.output_text.delta", "delta": "It said hi."}


def test_output_and_text_go_to_their_streams_and_the_last_commands_code_comes_back(limpet: Limpet) -> None:
    events = [CREATED, output(stdout="hi\n"), output(stderr="oh"), output_done("hi\n", "oh", EXIT_7), TEXT]
    with gateway([*events, ended("completed")]) as (url, asked):
        done = limpet("ask", "do it", "--url", url)
    assert (done.returncode, done.stdout, done.stderr) == (7, "hi\nIt said hi.\n", "oh\n")
    assert asked == [{"model": "limpet/script", "input": "do it", "tools": [{"type": "shell"}], "stream": True}]


def test_output_that_was_not_streamed_is_shown_whole(limpet: Limpet) -> None:
    with gateway([CREATED, output_done("hi\n", "", {"type": "timeout"}), ended("completed")]) as (url, _):
        done = limpet("ask", "do it", LIMPET_URL=url)
    assert (done.returncode, done.stdout, done.stderr) == (124, "hi\n", "")


def test_prompt_container_and_response_go_into_the_request(limpet: Limpet) -> None:
    args = ("ask", "-", "--container", "cntr_1", "--previous", "resp_0", "--model", "m")
    with gateway([CREATED, ended("completed")]) as (url, asked):
        done = limpet(*args, "--url", url, stdin="from here")
    environment = {"type": "container_reference", "container_id": "cntr_1"}
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert asked == [
        {
            "model": "m",
            "input": "from here",
            "tools": [{"type": "shell", "environment": environment}],
            "stream": True,
            "previous_response_id": "resp_0",
        }
    ]


def test_a_failed_response_ends_with_1_and_its_reason(limpet: Limpet) -> None:
    with gateway([CREATED, TEXT, ended("failed", error={"code": "server_error", "message": "no more."})]) as (url, _):
        done = limpet("ask", "x", "--url", url)
    assert (done.returncode, done.stdout) == (1, "It said hi.\n")
    assert done.stderr == "limpet: The response failed: no more.\n"


def test_an_incomplete_response_ends_with_1_and_its_reason(limpet: Limpet) -> None:
    with gateway([CREATED, ended("incomplete", incomplete_details={"reason": "max_output_tokens"})]) as (url, _):
        done = limpet("ask", "x", "--url", url)
    assert (done.returncode, done.stderr) == (1, "limpet: The response ended early: max_output_tokens.\n")


def test_a_stream_that_breaks_off_ends_with_1_and_says_where_the_response_is(limpet: Limpet) -> None:
    with gateway([CREATED, TEXT]) as (url, _):
        done = limpet("ask", "x", "--url", url)
    assert (done.returncode, "GET /v1/responses/resp_1" in done.stderr) == (1, True)


def test_a_refusal_is_shown_in_the_gateways_words(limpet: Limpet) -> None:
    body = json.dumps({"error": {"message": "The model 'x' does not exist here.", "type": "t", "param": None}})
    with gateway([], status=404, body=body.encode()) as (url, _):
        done = limpet("ask", "x", "--url", url)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "limpet: The model 'x' does not exist here.\n")


def test_a_server_that_is_no_gateway_is_named_as_such(limpet: Limpet) -> None:
    with gateway([], status=500, body=b"<html>") as (url, _):
        done = limpet("ask", "x", "--url", url)
    assert (done.returncode, "not as a gateway of limpet does" in done.stderr) == (1, True)


def test_without_a_gateway_the_sentence_says_how_to_start_one(limpet: Limpet) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        done = limpet("ask", "x", "--url", f"http://127.0.0.1:{free.getsockname()[1]}")
    assert (done.returncode, done.stdout) == (1, "")
    assert "Start it with `./dev up`" in done.stderr


def test_an_address_that_is_none_is_refused(limpet: Limpet) -> None:
    done = limpet("ask", "x", "--url", "nonsense")
    assert (done.returncode, "Traceback" in done.stderr, "fault of limpet" in done.stderr) == (1, False, False)


class _Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_commands_are_shown_and_output_cannot_steer_it() -> None:
    out, err = _Terminal(), _Terminal()
    answer = Answer(Screen(out, err))
    answer.take(CREATED)
    answer.take({"type": "response.shell_call_command.done", "command": "ls \x1b]0;title\x07"})
    answer.take(output(stdout="\x1b[31mred\x1b[0m \x1b]52;c;AAAA\x07"))
    answer.take(ended("completed"))
    assert answer.finish() == 0
    assert err.getvalue().startswith("\x1b[2m$ ls \ufffd]0;title\ufffd\x1b[0m\n")
    assert out.getvalue() == "\x1b[31mred\x1b[0m \ufffd]52;c;AAAA\ufffd\n"


def test_tabs_colours_and_line_ends_may_pass() -> None:
    assert shown("a\tb\r\n\x1b[1;32mc\x1b[0m é") == "a\tb\r\n\x1b[1;32mc\x1b[0m é"


def test_a_question_without_extras_asks_for_the_shell_only() -> None:
    body = Question(prompt="p", model="m").body()
    assert body == {"model": "m", "input": "p", "tools": [{"type": "shell"}], "stream": True}
