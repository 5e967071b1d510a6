"""The gateway with `[auth] mode = "keys"`: who may come, what he may do, and that tenants never see each other's things."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import openai
import pytest
from openai.types.responses import ContainerReferenceParam

from limpet.server.callers import needed
from tests.support.gateway import Gateway, running
from tests.support.prepared import ran
from tests.wire.test_skills import bundle, parts

CONFIG = '[auth]\nmode = "keys"\n'
SHELL: list[dict[str, str]] = [{"type": "shell"}]
ASKED = {"model": "limpet/script", "input": "```sh\necho hello > made.txt\n```", "tools": SHELL}


@dataclass(frozen=True)
class Keyed:
    """A gateway that asks for keys, and its operator's command line."""

    gateway: Gateway

    def cli(self, *arguments: str, fails: bool = False) -> str:
        env = {"PATH": os.environ["PATH"], "LIMPET_HOME": str(self.gateway.home)}
        done = ran(["keys", *arguments], env=env)
        assert (done.returncode != 0) is fails, done.stderr
        return done.stdout.strip() or done.stderr

    def key(self, name: str, *options: str) -> str:
        return self.cli("create", name, *options)

    def as_(self, key: str) -> openai.OpenAI:
        return self.gateway.client(api_key=key)

    def status(self, path: str, *, method: str = "GET", key: str | None = None, header: str | None = None) -> int:
        value = header if header is not None else f"Bearer {key}" if key is not None else None
        with self.gateway.http() as http:
            headers = {} if value is None else {"Authorization": value}
            return http.request(method, path, headers=headers).status_code


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    with running(tmp_path_factory.mktemp("keyed"), config=CONFIG) as gateway:
        yield Keyed(gateway)


def test_a_key_opens_the_gateway_for_the_official_client(keyed: Keyed) -> None:
    response = keyed.as_(keyed.key("ann")).responses.create(**ASKED)  # type: ignore[call-overload]  # a plain dict
    assert response.status == "completed"


@pytest.mark.parametrize(
    "path", ["/v1/responses/x", "/v1/containers", "/v1/files", "/v1/models", "/metrics", "/nothing"]
)
def test_nothing_is_shown_without_a_key(keyed: Keyed, path: str) -> None:
    assert keyed.status(path) == 401


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Basic dXNlcjpwYXNz",
        "Bearer sk-limpet-",
        f"Bearer sk-limpet-{'0' * 32}-{'A' * 43}",
        "Bearer " + "x" * 7000,
    ],
)
def test_what_is_no_key_opens_nothing(keyed: Keyed, header: str) -> None:
    assert keyed.status("/v1/models", header=header) == 401


def test_half_a_key_opens_nothing_and_is_not_logged(keyed: Keyed) -> None:
    key = keyed.key("half")
    for wrong in (key[:-1], key[:-1] + ("A" if key[-1] != "A" else "B"), key.upper(), key + "x"):
        assert keyed.status("/v1/models", key=wrong) == 401
    log = keyed.gateway.log.read_text()
    assert "wrong_key" in log
    assert key[-43:-1] not in log


def test_only_a_digest_is_stored(keyed: Keyed) -> None:
    key = keyed.key("digest")
    keyed.as_(key).models.list()
    stored = b"".join(path.read_bytes() for path in keyed.gateway.home.glob("limpet.db*"))
    assert key[-43:].encode() not in stored
    assert key[-43:] not in keyed.cli("list")


def test_liveness_is_shown_to_strangers_and_its_details_to_the_operator(keyed: Keyed) -> None:
    with keyed.gateway.http() as http:
        assert http.get("/livez").json()["status"] == "ok"
        assert http.get("/healthz").json() == {"status": "ok"}
        operator = {"Authorization": f"Bearer {keyed.key('operator', '--scope', 'admin')}"}
        assert http.get("/healthz", headers=operator).json()["runtime"]["works"] is True
        assert http.get("/metrics", headers=operator).status_code == 200


@pytest.mark.parametrize(
    "scope, open_path",
    [
        ("responses", "/v1/responses/none"),
        ("containers", "/v1/containers"),
        ("files", "/v1/files"),
        ("admin", "/metrics"),
    ],
)
def test_a_scope_opens_its_own_resource_and_no_other(keyed: Keyed, scope: str, open_path: str) -> None:
    key = keyed.key(f"only-{scope}", "--scope", scope)
    paths = ["/v1/responses/none", "/v1/containers", "/v1/files", "/metrics"]
    assert {path for path in paths if keyed.status(path, key=key) != 403} == {open_path}


def test_every_address_but_a_few_asks_for_a_scope(keyed: Keyed) -> None:
    """A key of one area opens no other one, also where an address is new."""
    with keyed.gateway.http() as http:
        paths = http.get("/openapi.json").json()["paths"]
    assert {path for path in paths if needed(path) is None} == {
        "/livez",
        "/healthz",
        "/openapi.json",
        "/v1/models",
        "/v1/models/{model}",
    }


def test_a_usual_key_is_not_an_operators_and_is_told_what_is_missing(keyed: Keyed) -> None:
    key = keyed.key("usual", "--scope", "responses")
    assert keyed.status("/metrics", key=key) == 403
    with pytest.raises(openai.PermissionDeniedError, match="--scope containers") as refused:
        keyed.as_(key).containers.list()
    assert refused.value.code == "insufficient_scope"


def test_a_revoked_key_opens_nothing_from_the_next_request_on(keyed: Keyed) -> None:
    key = keyed.key("leaver")
    assert keyed.status("/v1/models", key=key) == 200
    line = next(line for line in keyed.cli("list").splitlines() if "leaver" in line)
    keyed.cli("revoke", line.split()[0])
    assert keyed.status("/v1/models", key=key) == 401
    assert "revoked" in next(line for line in keyed.cli("list").splitlines() if "leaver" in line)
    keyed.cli("revoke", line.split()[0])
    assert "There is no key" in keyed.cli("revoke", "key_none", fails=True)


@pytest.mark.promise("hadrian-another-tenants-ids-are-unknown", "containers-list-shows-the-callers-own")
def test_another_tenants_things_are_not_there(keyed: Keyed) -> None:
    ann, bob = keyed.as_(keyed.key("ann", "--tenant", "a")), keyed.as_(keyed.key("bob", "--tenant", "b"))
    response = ann.responses.create(**ASKED)  # type: ignore[call-overload]  # a plain dict
    container = response.container_id
    made = next(iter(ann.containers.files.list(container)))
    file = ann.files.create(file=("a.txt", b"secret"), purpose="user_data")
    skill = ann.skills.create(files=parts(bundle("anns")))
    attempts: list[Callable[[], object]] = [
        lambda: bob.skills.retrieve(skill.id),
        lambda: bob.skills.retrieve("anns"),
        lambda: bob.skills.delete(skill.id),
        lambda: bob.skills.content.retrieve(skill.id),
        lambda: bob.skills.versions.list(skill.id),
        lambda: bob.skills.versions.create(skill.id, files=parts(bundle("anns"))),
        lambda: bob.responses.retrieve(response.id),
        lambda: bob.responses.delete(response.id),
        lambda: bob.responses.create(model="limpet/script", input="x", previous_response_id=response.id),
        lambda: bob.containers.retrieve(container),
        lambda: bob.containers.delete(container),
        lambda: bob.containers.files.list(container),
        lambda: bob.containers.files.retrieve(made.id, container_id=container),
        lambda: bob.containers.files.content.retrieve(made.id, container_id=container),
        lambda: bob.containers.files.delete(made.id, container_id=container),
        lambda: bob.containers.files.create(container, file=("x", b"x")),
        lambda: bob.files.retrieve(file.id),
        lambda: bob.files.content(file.id),
        lambda: bob.files.delete(file.id),
    ]
    for attempt in attempts:
        with pytest.raises(openai.NotFoundError):
            attempt()
    reference: ContainerReferenceParam = {"type": "container_reference", "container_id": container}
    with pytest.raises(openai.NotFoundError):
        bob.responses.create(
            model="limpet/script",
            input="```sh\ncat made.txt\n```",
            tools=[{"type": "shell", "environment": reference}],
        )
    for environment in ({"skills": [{"type": "skill_reference", "skill_id": "anns"}]}, {"file_ids": [file.id]}):
        with pytest.raises(openai.BadRequestError, match="There is no"):
            bob.containers.create(name="b", extra_body=environment)
    assert [list(bob.containers.list()), list(bob.files.list()), list(bob.skills.list())] == [[], [], []]
    listings: list[Callable[[], object]] = [
        lambda: bob.containers.list(after=container),
        lambda: bob.files.list(after=file.id),
        lambda: bob.skills.list(after=skill.id),
    ]
    for listing in listings:
        with pytest.raises((openai.BadRequestError, openai.NotFoundError)):
            listing()
    assert ann.files.content(file.id).read() == b"secret"
    assert ann.responses.retrieve(response.id).id == response.id


def test_another_tenants_ids_in_bodies_are_answered_word_for_word_as_ids_of_nobody(keyed: Keyed) -> None:
    owner, asker = keyed.as_(keyed.key("own", "--tenant", "own")), keyed.key("ask", "--tenant", "ask")
    file = owner.files.create(file=("a.txt", b"a"), purpose="user_data").id
    skill = owner.skills.create(files=parts(bundle())).id
    container = owner.containers.create(name="theirs").id
    mine = keyed.as_(asker).containers.create(name="mine").id

    def told(path: str, body: dict[str, object], id: str) -> tuple[int, str]:
        with keyed.gateway.http() as http:
            answer = http.post(path, json=body, headers={"Authorization": f"Bearer {asker}"})
        return answer.status_code, answer.text.replace(id, "ID")

    def bodies(file: str, skill: str, container: str) -> list[tuple[str, dict[str, object], str]]:
        reference = {"type": "skill_reference", "skill_id": skill}
        ask: dict[str, object] = {"model": "limpet/script", "input": "hello"}
        auto = {"type": "container_auto"}
        return [
            ("/v1/containers", {"name": "x", "file_ids": [file]}, file),
            ("/v1/containers", {"name": "x", "skills": [reference]}, skill),
            ("/v1/containers", {"name": "x", "skills": [{**reference, "version": "2"}]}, skill),
            ("/v1/containers", {"name": "x", "skills": [{**reference, "version": 1}]}, skill),
            ("/v1/containers", {"name": "x", "skills": [{**reference, "version": "latest"}]}, skill),
            (f"/v1/containers/{mine}/files", {"file_id": file}, file),
            ("/v1/responses", {**ask, "tools": [{"type": "shell", "environment": {**auto, "file_ids": [file]}}]}, file),
            (
                "/v1/responses",
                {**ask, "tools": [{"type": "shell", "environment": {**auto, "skills": [reference]}}]},
                skill,
            ),
            (
                "/v1/responses",
                {
                    **ask,
                    "tools": [
                        {"type": "shell", "environment": {"type": "container_reference", "container_id": container}}
                    ],
                },
                container,
            ),
            (
                "/v1/responses",
                {
                    **ask,
                    "tools": SHELL,
                    "input": [{"role": "user", "content": [{"type": "input_file", "file_id": file}]}],
                },
                file,
            ),
        ]

    of_others = [told(*asked) for asked in bodies(file, skill, container)]
    of_nobody = [told(*asked) for asked in bodies("file_" + "0" * 32, "skill_" + "0" * 32, "cntr_" + "0" * 32)]
    assert of_others == of_nobody
    assert {status for status, _ in of_others} == {400} | {status for status, _ in of_nobody if status == 404}


def test_two_keys_of_one_tenant_share_its_things(keyed: Keyed) -> None:
    first, second = keyed.as_(keyed.key("c1", "--tenant", "c")), keyed.as_(keyed.key("c2", "--tenant", "c"))
    file = first.files.create(file=("a.txt", b"ours"), purpose="user_data")
    assert second.files.content(file.id).read() == b"ours"


def test_a_key_with_a_rate_is_told_when_to_come_back(keyed: Keyed) -> None:
    client = keyed.as_(keyed.key("slow", "--per-minute", "2"))
    client.models.list()
    client.models.list()
    with pytest.raises(openai.RateLimitError) as refused:
        client.models.list()
    assert refused.value.code == "rate_limit_exceeded"
    assert 1 <= int(refused.value.response.headers["retry-after"]) <= 30


def test_a_key_has_only_so_many_requests_open_at_once(keyed: Keyed) -> None:
    client = keyed.as_(keyed.key("narrow", "--concurrent", "1"))
    asked = {**ASKED, "input": "```sh\nsleep 30\n```", "stream": True}
    with client.responses.create(**asked) as stream:  # type: ignore[call-overload]  # a plain dict
        next(iter(stream))
        with pytest.raises(openai.RateLimitError, match="open at once"):
            client.models.list()
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(_until_let_in, client).result(timeout=10)


def _until_let_in(client: openai.OpenAI) -> bool:
    while True:
        try:
            client.models.list()
            return True
        except openai.RateLimitError:
            continue


def test_a_key_that_makes_no_sense_is_not_made(keyed: Keyed) -> None:
    assert "greater than or equal to 1" in keyed.cli("create", "x", "--days", "0", fails=True)
    assert "is not a word" in keyed.cli("create", "a b", fails=True)
    assert "is not one of" in keyed.cli("create", "x", "--scope", "root", fails=True)


def test_a_host_that_others_can_reach_is_served_with_keys_only(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"server\.host"), running(tmp_path, config='[server]\nhost = "0.0.0.0"\n'):
        pass
    with running(tmp_path, config=f'[server]\nhost = "0.0.0.0"\n{CONFIG}') as gateway:
        assert Keyed(gateway).status("/v1/models") == 401


def test_ask_sends_the_callers_key(keyed: Keyed) -> None:
    env = {"PATH": os.environ["PATH"], "LIMPET_API_KEY": keyed.key("asker")}
    ask = ("ask", "hello", "--url", keyed.gateway.url)
    assert ran(ask, env=env).returncode == 0
    without = ran(ask, env={"PATH": env["PATH"]})
    assert (without.returncode, "No key was sent" in without.stderr) == (1, True)
