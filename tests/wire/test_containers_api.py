"""`/v1/containers` through the official client: made, shown, listed, deleted."""

import re
import time
from typing import Any

import openai
import pytest

from limpet.runtimes.bubblewrap.limits.groups import find_groups, held
from tests.support.gateway import Gateway
from tests.support.host import eventually, processes_of, rows, stored_ref
from tests.wire.asking import SHELL, container_of, printed, referring_to, run
from tests.wire.conftest import RUNTIME
from tests.wire.schema import check_container, check_container_list, check_deleted, check_error

DAY = 24 * 3600
# Said by name on a runtime that can hold it.
DISABLED: dict[str, Any] = {} if RUNTIME == "local" else {"network_policy": {"type": "disabled"}}

# What limits bind in the default runtime where this test runs.
_WHOLE = "per sandbox" if find_groups() else "per process"
LIMITS: dict[str, Any] = {
    "memory": _WHOLE,
    "processes": _WHOLE,
    "cpu": _WHOLE if find_groups() else "none",
    "disk": "per sandbox",
}
if _NOTES := held(find_groups()).notes:
    LIMITS["notes"] = list(_NOTES)


def made(client: openai.OpenAI, name: str = "a box", **fields: Any) -> str:
    return client.containers.create(name=name, **fields).id


def as_json(gateway: Gateway, path: str) -> Any:
    with gateway.http() as http:
        return http.get(path).json()


@pytest.mark.promise(
    "containers-post-creates-an-empty-container",
    "containers-post-takes-a-name",
    "container-shows-when-it-was-created",
    "container-shows-its-idle-ttl",
    "default-idle-ttl-is-twenty-minutes",
    "container-is-named-by-a-cntr-id",
)
def test_a_new_container_has_every_field_with_its_default(client: openai.OpenAI) -> None:
    before = int(time.time())

    container = client.containers.create(name="my workspace ✓")

    after = int(time.time())
    shape = container.to_dict()
    check_container(shape)
    assert re.fullmatch(r"cntr_[0-9a-f]{32}", container.id)
    assert before <= container.created_at <= after
    assert shape == {
        "id": container.id,
        "object": "container",
        "name": "my workspace ✓",
        "created_at": container.created_at,
        "status": "running",
        "last_active_at": container.created_at,
        "expires_after": {"anchor": "last_active_at", "minutes": 20},
        "network_policy": {"type": "disabled"},
        "expires_at": container.created_at + 1200,
        "idle_ttl_secs": 1200,
        "limits": LIMITS,
    }
    assert client.containers.files.list(container.id).data == []


@pytest.mark.promise("containers-get-shows-metadata-and-ttl")
def test_a_container_is_shown_as_it_was_made_and_looking_keeps_it_alive(client: openai.OpenAI) -> None:
    container = client.containers.create(name="b", expires_after={"anchor": "last_active_at", "minutes": 7}, **DISABLED)

    read = client.containers.retrieve(container.id)

    moving = {"last_active_at", "expires_at"}
    assert read.to_dict().keys() == container.to_dict().keys()
    assert {k: v for k, v in read.to_dict().items() if k not in moving} == {
        k: v for k, v in container.to_dict().items() if k not in moving
    }
    extra = read.model_extra or {}
    assert read.last_active_at is not None
    assert read.last_active_at >= container.created_at
    assert read.expires_after is not None
    assert (read.expires_after.minutes, extra["idle_ttl_secs"]) == (7, 420)
    assert extra["expires_at"] == read.last_active_at + 420


@pytest.mark.promise("containers-are-listed-in-openais-envelope", "hadrian-lists-have-openais-envelope")
def test_containers_are_paged_without_gap_or_repeat_in_both_orders(gateway: Gateway, client: openai.OpenAI) -> None:
    name = f"page {time.monotonic_ns()}"
    ids = [made(client, name) for _ in range(5)]

    page = as_json(gateway, f"/v1/containers?limit=2&name={name}")

    check_container_list(page)
    newest = ids[::-1]
    assert page == {
        "object": "list",
        "data": page["data"],
        "first_id": newest[0],
        "last_id": newest[1],
        "has_more": True,
    }
    assert [shape["id"] for shape in page["data"]] == newest[:2]
    # The client's own paging asks for `after` until a page says that it is the last.
    assert [found.id for found in client.containers.list(limit=2, name=name)] == newest
    assert [found.id for found in client.containers.list(limit=2, name=name, order="asc")] == ids
    last = as_json(gateway, f"/v1/containers?limit=2&name={name}&after={newest[3]}")
    assert ([shape["id"] for shape in last["data"]], last["has_more"]) == ([newest[4]], False)


def test_a_cursor_may_be_deleted_while_a_client_pages(client: openai.OpenAI) -> None:
    name = f"cursor {time.monotonic_ns()}"
    ids = [made(client, name) for _ in range(3)]
    client.containers.delete(ids[1])

    assert [found.id for found in client.containers.list(name=name, after=ids[1])] == [ids[0]]


def test_the_name_filter_means_the_whole_name_and_an_empty_page_is_a_page(
    gateway: Gateway, client: openai.OpenAI
) -> None:
    name = f"exact {time.monotonic_ns()}"
    wanted = made(client, name)
    made(client, f"{name} and more")

    assert [found.id for found in client.containers.list(name=name)] == [wanted]
    nothing = as_json(gateway, f"/v1/containers?name={name}%25")
    assert nothing == {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}


@pytest.mark.parametrize("limit", [1, 100])
def test_the_limits_at_both_ends_are_taken(client: openai.OpenAI, limit: int) -> None:
    made(client)

    assert 1 <= len(client.containers.list(limit=limit).data) <= limit


@pytest.mark.promise("container-boots-at-its-first-command", "created-container-is-bound-by-reference")
def test_a_container_has_a_row_before_it_has_a_box(gateway: Gateway, client: openai.OpenAI) -> None:
    container = made(client)
    database = gateway.home / "limpet.db"

    assert stored_ref(database, container) is None
    assert processes_of(container) == []
    client.containers.retrieve(container)
    client.containers.files.list(container)
    assert (stored_ref(database, container), processes_of(container)) == (None, [])

    assert printed(run(client, "setsid -f sleep 1000; echo here", container=container)) == "here\n"

    assert stored_ref(database, container) is not None
    assert processes_of(container) != []


def test_a_turn_without_a_call_boots_no_box_and_its_container_ends_with_it(
    gateway: Gateway, client: openai.OpenAI
) -> None:
    response = client.responses.create(model="limpet/script", input="hello", tools=SHELL)

    container = container_of(response)
    assert client.containers.retrieve(container).status == "expired"
    assert (stored_ref(gateway.home / "limpet.db", container), processes_of(container)) == (None, [])


@pytest.mark.promise(
    "containers-delete-tears-down-and-cascades",
    "deleted-container-is-not-found",
    "hadrian-delete-removes-files-at-once",
    "hadrian-delete-answers-with-the-deleted-object",
)
def test_a_deleted_container_is_gone_from_everywhere(gateway: Gateway, client: openai.OpenAI) -> None:
    container = made(client, "to be deleted")
    first = run(client, "setsid -f sleep 1000; echo kept > kept.txt", container=container)
    (file,) = client.containers.files.list(container).data
    assert processes_of(container) != []
    assert (gateway.home / "boxes" / container).is_dir()

    with gateway.http() as http:
        deleted = http.delete(f"/v1/containers/{container}")

    assert deleted.status_code == 200
    check_deleted(deleted.json(), "container.deleted")
    assert deleted.json() == {"id": container, "object": "container.deleted", "deleted": True}
    eventually(lambda: processes_of(container) == [], says="a process of the deleted container lives on")
    assert not (gateway.home / "boxes" / container).exists()
    assert rows(gateway.home / "limpet.db", "SELECT * FROM container_files WHERE container_id = ?", container) == []
    assert container not in [found.id for found in client.containers.list(limit=100)]
    for ask in (
        lambda: client.containers.retrieve(container),
        lambda: client.containers.delete(container),
        lambda: client.containers.files.list(container),
        lambda: client.containers.files.retrieve(file.id, container_id=container),
        lambda: client.containers.files.content.retrieve(file.id, container_id=container),
        lambda: client.containers.files.delete(file.id, container_id=container),
        lambda: client.containers.files.create(container, file=b"late"),
        lambda: run(client, "true", container=container),
    ):
        with pytest.raises(openai.NotFoundError) as refused:
            ask()
        assert refused.value.code == "container_not_found"
    # What was said stays readable; a chain goes on in a fresh container.
    assert client.responses.retrieve(first.id) == first
    after = run(client, "ls", previous_response_id=first.id)
    assert container_of(after) != container
    assert printed(after) == ""


@pytest.mark.parametrize(
    "name", ["cntr_" + "0" * 32, "cntr_", "x", "..%2f..%2fetc", "%00", "cntr_' OR 1=1 --", "é" * 300]
)
def test_an_unknown_container_is_404_in_openais_shape(gateway: Gateway, name: str) -> None:
    with gateway.http() as http:
        for answer in (
            http.get(f"/v1/containers/{name}"),
            http.delete(f"/v1/containers/{name}"),
            http.get(f"/v1/containers/{name}/files"),
            http.get(f"/v1/containers/{name}/files/cfile_0"),
            http.get(f"/v1/containers/{name}/files/cfile_0/content"),
            http.delete(f"/v1/containers/{name}/files/cfile_0"),
            http.post(f"/v1/containers/{name}/files", files={"file": ("a", b"a")}),
        ):
            assert answer.status_code == 404, answer.text
            check_error(answer.json())


def test_a_reference_to_an_unknown_container_is_404_and_makes_nothing(gateway: Gateway, client: openai.OpenAI) -> None:
    def count() -> list[dict[str, Any]]:
        return rows(
            gateway.home / "limpet.db", "SELECT (SELECT count(*) FROM responses), (SELECT count(*) FROM containers)"
        )

    before = count()

    with pytest.raises(openai.NotFoundError) as refused:
        client.responses.create(model="limpet/script", input="hello", tools=referring_to("cntr_" + "f" * 32))

    assert refused.value.code == "container_not_found"
    assert count() == before
