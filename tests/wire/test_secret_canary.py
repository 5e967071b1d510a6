"""Canaries: secrets of every kind are used by every kind of work while their hosts send them back in every encoding; the gateway is killed;
then no file of its home, no log, event, answer, row, and no memory of a box holds one in any form."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from limpet.egress.secrets import encodings
from tests.support.doors import Upstream, upstream
from tests.support.gateway import Gateway, lasting
from tests.support.homes import short_home
from tests.support.host import eventually, processes_of
from tests.support.local_names import LocalNames
from tests.support.memory import found_in_process
from tests.support.users import closed_way, user_of_this_worker
from tests.wire.asking import container_of, output_files, referring_to, run, shell_blocks
from tests.wire.conftest import RUNTIME
from tests.wire.sockets import connected
from tests.wire.streams import Stream
from tests.wire.test_webhooks import Receiver, receiver

pytestmark = pytest.mark.skipif(
    RUNTIME not in ("bubblewrap", "docker"),
    reason="of the runtimes that are built only bubblewrap and docker can hold a network",
)
VALUES = {
    "INLINE": "canary-inline+/Zq8.*(x)",
    "LASTING": 'canary-lasting "Wv7"\\é',
    "FROM_VARIABLE": "canary-variable-Kp3/=",
    "FROM_FILE": "canary-file-Tn5&<b>",
    "FROM_COMMAND": "canary-command-Hc9%41",
}
HOSTS = {name: f"{name.lower().replace('_', '-')}.good.example" for name in VALUES}
NEEDLES = frozenset[bytes]().union(*(encodings(value.encode()) for value in VALUES.values()))
PLACEHOLDER = b"LIMPETSECRET"


@dataclass
class Yard:
    """A gateway, and for each secret a host that sends its value back in every encoding. `seen` is all that clients were sent."""

    gateway: Gateway
    hosts: dict[str, Upstream]
    hook: Receiver
    seen: list[str] = field(default_factory=list)

    def use(self, *names: str) -> str:
        """A command that sends each to its host, and keeps what comes back wherever a command can keep it."""
        return "; ".join(
            f'curl -sSv --max-time 20 -H "X-Key: ${name}" -u "user:${name}" https://{HOSTS[name]}:{self.hosts[name].port}/ 2>&1 '
            f"| tee -a trace.txt; curl -sS https://wrong.example/${name}; echo ${name} > {name}.txt; false ${name}"
            for name in names
        )

    def told(self, answer: Any) -> Any:
        self.seen.append(
            answer.text if isinstance(answer, httpx2.Response) else json.dumps(answer.model_dump(mode="json"))
        )
        return answer


def inline(name: str, **more: Any) -> dict[str, Any]:
    return {"domain": HOSTS[name], "name": name, "value": VALUES[name], **more}


OPERATORS = [{"placeholder": name} for name in ("FROM_VARIABLE", "FROM_FILE", "FROM_COMMAND")]


def asking(*secrets: dict[str, Any]) -> list[Any]:
    policy = {"type": "allowlist", "allowed_domains": ["api.good.example"], "domain_secrets": list(secrets)}
    return [{"type": "shell", "environment": {"type": "container_auto", "network_policy": policy}}]


@contextmanager
def planted(user: int | None) -> Iterator[Yard]:
    """With its gateway as root, or as that user."""
    with ExitStack() as stack:
        directory = stack.enter_context(short_home())
        hook = stack.enter_context(receiver(directory))
        answers = {name: b"\n".join(sorted(encodings(value.encode()))) for name, value in VALUES.items()}
        hosts = {name: stack.enter_context(upstream(HOSTS[name], answer=answers[name])) for name in VALUES}
        trust = "".join(host.trust for host in hosts.values())
        (directory / "ca.pem").write_text(trust + hook.trust.read_text())
        (directory / "file").write_text(VALUES["FROM_FILE"])
        (directory / "printed").write_text(VALUES["FROM_COMMAND"])
        wheres = {
            "FROM_VARIABLE": 'value = "${CANARY}"',
            "FROM_FILE": f'file = "{directory / "file"}"',
            "FROM_COMMAND": f'command = ["cat", "{directory / "printed"}"]',
        }
        config = (
            '[server]\nlog_level = "debug"\n[features.server_tools.shell_limits]\nallowed_egress_hosts = ["*.good.example"]\n'
            f'allowed_egress_networks = ["127.0.0.0/8"]\nallowed_egress_ports = {[host.port for host in hosts.values()]}\n'
        )
        config += f"[features.webhooks]\nallowed_networks = ['127.0.0.0/8']\nports = [{hook.port}]\n"
        for name, where in wheres.items():
            config += f"[features.server_tools.shell_limits.allowed_domain_secrets.{name}]\n{where}\n"
            config += f'allowed_hosts = ["{HOSTS[name]}"]\n'
        env = {"SSL_CERT_FILE": str(directory / "ca.pem"), "CANARY": VALUES["FROM_VARIABLE"]}
        settings = {"runtime": RUNTIME, "config": config, "env": env, "names": LocalNames(), "user": user}
        yield Yard(stack.enter_context(lasting(directory, **settings)), hosts, hook)


def work(yard: Yard) -> list[str]:
    """Every kind of work; gives the containers. A response waits at its end, with a process that keeps what was sent back."""
    client = yard.gateway.client()
    first = yard.told(
        run(client, yard.use("INLINE", *wheres()), "env; set", tools=asking(inline("INLINE"), *OPERATORS))
    )
    policy = asking(inline("INLINE"))
    with connected(yard.gateway) as socket:
        answered = socket.response(input=shell_blocks(yard.use("INLINE"), "env"), tools=policy)
        assert answered["status"] == "completed"
        yard.seen.append(json.dumps(socket.received))
    client.webhooks.create(name="told", url=yard.hook.url, event_types=["response.completed"])
    yard.told(run(client, yard.use("INLINE"), tools=policy, background=True))
    eventually(lambda: bool(yard.hook.posted), within=30)
    yard.seen += [body.decode() for _, body in yard.hook.posted]
    with yard.gateway.http() as http:
        body = {"model": "limpet/script", "input": shell_blocks(yard.use("INLINE")), "stream": True}
        body |= {"tools": asking(inline("INLINE")), "previous_response_id": first.id}
        with http.stream("POST", "/v1/responses", json=body) as answer:
            stream = Stream(answer)
            stream.until("response.completed")
            yard.seen.append("\n".join(stream.lines))
        yard.told(http.post("/v1/responses", json={**body, "stream": False, "store": False, "input": "nothing to run"}))
        policy = {"type": "allowlist", "domain_secrets": [inline("LASTING", in_body=True, in_query=True)]}
        made = yard.told(http.post("/v1/containers", json={"name": "a", "network_policy": policy})).json()["id"]
        for refused in (
            {"name": "A B"},
            {"domain": "api.else.example"},
            {"value": VALUES["INLINE"] + "\r\n"},
            {"in_body": 1},
        ):
            policy = {"type": "allowlist", "domain_secrets": [inline("INLINE") | refused]}
            assert (
                yard.told(http.post("/v1/containers", json={"name": "a", "network_policy": policy})).status_code == 400
            )
        for path in ("", f"/{made}", f"/{made}/files", f"/{made}/ports", f"/{made}/network"):
            yard.told(http.get(f"/v1/containers{path}"))
        yard.told(http.get(f"/v1/responses/{first.id}"))
        yard.told(http.get("/metrics"))
        for file in output_files(first):
            yard.told(http.get(f"/v1/containers/{file['container_id']}/files/{file['file_id']}/content"))
    url = f"https://{HOSTS['LASTING']}:{yard.hosts['LASTING'].port}/"
    keeps = (
        f'import os, time, urllib.request as u; data = u.urlopen(u.Request("{url}?k=" + os.environ["LASTING"], '
        'data=os.environ["LASTING"].encode())).read(); open("kept", "wb").write(data); time.sleep(600)'
    )
    waiting = client.responses.create(
        model="limpet/script",
        input=shell_blocks(yard.use("LASTING", "INLINE"), f"python3 -c '{keeps}' & sleep 600"),
        tools=referring_to(made),
        background=True,
    )
    eventually((yard.gateway.home / "boxes" / made / "data" / "kept").exists, within=30)
    yard.told(waiting)
    return [container_of(first), made]


def wheres() -> tuple[str, ...]:
    return tuple(secret["placeholder"] for secret in OPERATORS)


def leaks(yard: Yard, containers: list[str]) -> list[str]:
    """Where a canary was found."""
    found = [f"{path}" for path in files_of(yard) if holds(content_of(path))]
    found += [f"what a client was sent: {text[:200]}" for text in yard.seen if holds(text.encode())]
    for container in containers:
        pids = processes_of(container)
        assert pids, "the boxes live on"
        found += [f"process {pid}" for pid in pids if found_in_process(pid, NEEDLES)]
    return found


def files_of(yard: Yard) -> list[Path]:
    files = [path for path in yard.gateway.home.rglob("*") if path.is_file() and not path.is_symlink()]
    assert len(files) > 10
    return [*files, yard.gateway.log]


def content_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:  # a gateway that runs has replaced it since it was listed
        return b""


def holds(data: bytes) -> bool:
    return any(needle in data for needle in NEEDLES)


@pytest.mark.timeout(300)  # every kind of work, one after the other: 10 s on a quiet machine, 40 on a busy one
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may look into the memory of boxes of other users")
@pytest.mark.parametrize("kind", ["root", "user"])
def test_no_canary_is_left_anywhere_after_every_kind_of_work_and_a_killed_gateway(kind: str) -> None:
    if kind == "user" and (closed := closed_way(Path(sys.executable))):
        pytest.skip(f"an ordinary user cannot run this Python: {closed} lets nobody else pass")
    user = user_of_this_worker() if kind == "user" else None
    with planted(user) as yard:
        assert yard.gateway.process is not None
        assert Path(f"/proc/{yard.gateway.process.pid}").stat().st_uid == (user or 0)
        containers = work(yard)
        yard.gateway.kill()
        for name, host in yard.hosts.items():
            assert any(VALUES[name].encode() in request for request in host.seen), f"{name} never reached its host"
        assert leaks(yard, containers) == []
        # What is there to be found is found: the placeholders.
        assert any(PLACEHOLDER in content_of(path) for path in files_of(yard))
        assert any(found_in_process(pid, [PLACEHOLDER]) for pid in processes_of(containers[1]))
        yard.gateway.start()
        eventually(lambda: "responses_go_on" in yard.gateway.log.read_text(), within=20)
        assert leaks(yard, containers) == []
