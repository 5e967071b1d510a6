"""A command that reaches a limit of its box: the model and the client read which, and the next command works."""

from collections.abc import Iterator

import pytest

from limpet.runtimes.bubblewrap.limits.groups import find_groups
from tests.support.gateway import Gateway, running
from tests.wire.asking import container_of, entries, run

_SMALL = '[features.shell]\ntype = "bubblewrap"\ndisk_mb = 20\nmemory_mb = 128\nfile_size_mb = 50\nopen_files = 64\n'


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with running(tmp_path_factory.mktemp("small"), config=_SMALL) as gateway:
        yield gateway


def test_who_fills_the_disk_is_killed_and_the_result_says_so(small: Gateway) -> None:
    response = run(
        small.client(), "echo begun; while head -c 1000000 /dev/zero >> full; do sleep 0.02; done", "rm full"
    )

    first, second = entries(response)
    assert response.status == "completed"
    assert (first.stdout, first.outcome.type, first.outcome.exit_code) == ("begun\n", "exit", 137)
    assert first.stderr == "limpet: killed: the disk limit of 20 MiB was reached.\n"
    assert (second.stderr, second.outcome.exit_code) == ("", 0)


@pytest.mark.skipif(find_groups() is None, reason="no cgroup can be made here")
def test_a_memory_hog_is_killed_and_the_result_says_so(small: Gateway) -> None:
    response = run(small.client(), "exec python3 -c 'b = bytearray(400 << 20)'")
    (hog,) = entries(response)
    (after,) = entries(run(small.client(), "echo works", container=container_of(response)))

    assert hog.outcome.exit_code == 137
    assert hog.stderr == "limpet: killed: the box's memory limit of 128 MiB was reached.\n"
    assert (after.stdout, after.stderr) == ("works\n", "")


def test_a_file_beyond_the_operators_size_and_a_leak_of_descriptors_end_themselves(small: Gateway) -> None:
    response = run(small.client(), "exec truncate -s 60M f", "ulimit -n; exec 3< /nonexistent; exec cat")

    large, limited = entries(response)
    assert large.outcome.exit_code == 153
    assert large.stderr == "limpet: killed: a file reached the size limit of 50 MiB.\n"
    assert (limited.stdout, response.status) == ("64\n", "completed")
