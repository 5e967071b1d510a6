"""The gateway dies while it captures, and afterwards: every file is listed once, with the bytes that it has."""

import time
from hashlib import sha256

import openai
import pytest

from tests.faults.test_restart import watch
from tests.support.gateway import Gateway
from tests.support.host import rows
from tests.wire.asking import container_of, output_files, printed, run

FILES = 60
WRITING = f"for i in $(seq {FILES}); do head -c 300000 /dev/zero > f$i; echo $i >> f$i; done; echo written"


def listed(client: openai.OpenAI, container: str) -> dict[str, str]:
    """Path -> id, of all files."""
    found = list(client.containers.files.list(container, limit=100))
    assert len({file.path for file in found}) == len(found)
    return {file.path.rpartition("/")[2]: file.id for file in found}


@pytest.mark.parametrize("wait", [0.0, 0.05, 0.15, 0.4])
def test_killed_while_it_captures_every_file_is_captured_once(gateway: Gateway, wait: float) -> None:
    seen = watch(gateway, "response.shell_call_output_content.delta", WRITING)
    container = seen[0]["response"]["container_id"]
    time.sleep(wait)  # whatever moment of the capture that is
    gateway.kill()
    client = gateway.start().client()

    assert printed(run(client, "ls f* | wc -l", container=container)) == f"{FILES}\n"
    ids = listed(client, container)

    assert set(ids) == {f"f{number}" for number in range(1, FILES + 1)}
    hashes = {
        row["path"].decode().rpartition("/")[2]: (row["bytes"], row["sha256"])
        for row in rows(gateway.home / "limpet.db", "SELECT * FROM container_files WHERE container_id = ?", container)
    }
    expected = {f"f{number}": bytes(300_000) + f"{number}\n".encode() for number in range(1, FILES + 1)}
    assert hashes == {name: (len(data), sha256(data).hexdigest()) for name, data in expected.items()}
    assert client.containers.files.content.retrieve(ids["f7"], container_id=container).read() == expected["f7"]


def test_what_changed_while_no_gateway_ran_is_seen_by_the_next_and_ids_stay(gateway: Gateway) -> None:
    first = run(
        gateway.client(),
        "mkdir d; echo 1 > d/kept; echo 1 > gone; "
        "(until [ -e go ]; do sleep 0.01; done; rm gone; echo 22 > d/kept; echo 3 > d/new; touch done) >/dev/null 2>&1 &",
    )
    container = container_of(first)
    before = listed(gateway.client(), container)
    gateway.kill()
    data = gateway.home / "boxes" / container / "data"
    (data / "go").touch()
    while not (data / "done").exists():
        time.sleep(0.02)
    client = gateway.start().client()

    after = listed(client, container)

    assert (set(before), set(after)) == ({"kept", "gone"}, {"kept", "new", "go", "done"})
    assert after["kept"] == before["kept"]
    assert client.containers.files.content.retrieve(after["kept"], container_id=container).read() == b"22\n"
    assert output_files(run(client, "true", container=container)) == []
