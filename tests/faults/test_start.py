"""What keeps the gateway from serving is told in one sentence that says how to mend it, and nothing half-done is left."""

import os
import shutil
import socket
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.store import disk
from tests.support.gateway import Gateway
from tests.support.homes import home_apart
from tests.support.host import eventually, processes_of
from tests.support.prepared import ran

PROGRAMS = ("bash", "sh", "python3", "setpriv", "cat", "true")


@dataclass(frozen=True)
class Refusal:
    code: int
    sentence: str


@pytest.fixture
def home() -> Iterator[Path]:
    with home_apart() as home:
        yield home


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[disk.Disk]:
    with disk.small_disk(tmp_path) as small:
        yield small


def refused(home: Path, config: str, *arguments: str, path: str | None = None) -> Refusal:
    """Start it; it must end by itself, with one line and nothing left behind."""
    file = home.parent / "limpet.toml" if os.access(home.parent, os.W_OK) else Path("limpet.toml")
    file.write_text(config)
    done = ran(
        ["serve", "--config", str(file), "--port", "0", *arguments],
        env={"PATH": path or os.environ["PATH"], "LIMPET_HOME": str(home)},
    )
    assert done.stdout == "", done
    assert "Traceback" not in done.stderr
    assert "fault of limpet" not in done.stderr
    assert done.stderr.startswith("limpet: "), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert eventually(lambda: processes_of(str(home)) == [], says="a process is left")
    run = home / "run"
    assert not run.is_dir() or list(run.iterdir()) == []
    assert not (home / "boxes").is_dir() or list((home / "boxes").iterdir()) == []
    return Refusal(done.returncode, done.stderr.removeprefix("limpet: ").rstrip("\n"))


def programs(directory: Path, **replaced: str) -> str:
    """A PATH with a few programs of this machine, without bubblewrap; `replaced` are scripts."""
    directory.mkdir(mode=0o755)
    for name in PROGRAMS:
        if (found := shutil.which(name)) is not None and name not in replaced:
            (directory / name).symlink_to(found)
    for name, script in replaced.items():
        (directory / name).write_text(script)
        (directory / name).chmod(0o755)
    return str(directory)


def test_without_bubblewrap_it_refuses_and_says_how_to_get_it(home: Path) -> None:
    for config in ("", '[features.shell]\ntype = "bubblewrap"\n'):
        refusal = refused(home, config, path=programs(home.parent / f"bin{len(config)}"))

        assert refusal.code == 1
        assert refusal.sentence.startswith("The runtime bubblewrap does not work here: ")
        assert "apt-get install" in refusal.sentence
        assert "bubblewrap" in refusal.sentence.partition("apt-get install")[2]


def test_a_bubblewrap_that_is_not_permitted_is_told_in_its_own_words(home: Path) -> None:
    forbidden = "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n"

    refusal = refused(home, "", path=programs(home.parent / "bin", bwrap=forbidden))

    assert refusal.code == 1
    assert refusal.sentence.startswith("The runtime bubblewrap does not work here: ")
    assert "No permissions to create new namespace" in refusal.sentence


NOT_STARTED = {
    # a piece of configuration: what the sentence must hold
    "a runtime to come": ('[features.shell]\ntype = "microsandbox"', ("features.shell.type", "not built yet", "bubblewrap", "local")),
    "no runtime at all": ('[features.shell]\ntype = "chroot"', ("features.shell.type", "chroot", "bubblewrap")),
    "a runtime misspelled": ('[features.shell]\ntype = "bubblewarp"', ("features.shell.type", "bubblewrap")),
    "no address of a resource": ('[providers.a]\ntype = "azure_openai"\napi_key = "k"', ("providers.a.base_url", "openai.azure.com")),
    "no provider type": ('[providers.a]\ntype = "gpt"', ("providers.a.type", "openai")),
    "local without consent": ('[features.shell]\ntype = "local"', ("unsafe_local", "--unsafe-local")),
    "an unknown section": ("[sever]\nport = 1", ("sever", "server")),
    "an unknown key": ("[server]\nprot = 1", ("server.prot", "port")),
    "a deep one": ("[features.containers]\ndefault_idle_ttl = 5", ("features.containers.default_idle_ttl", "default_idle_ttl_secs")),
    "a word for a number": ('[server]\nport = "high"', ("server.port", "number")),
    "a port out of range": ("[server]\nport = 70000", ("server.port", "65535")),
    "a time of nothing": ("[features.containers]\ndefault_idle_ttl_secs = 0", ("default_idle_ttl_secs", "1")),
    "a provider without its key": ('[providers.a]\ntype = "openai"', ("providers.a", "api_key")),
    "a key out of nowhere": ('[providers.a]\ntype = "openai"\napi_key = "${NOT_THERE}"', ("providers.a.api_key", "NOT_THERE")),
    "no TOML": ("[server\nport = 1", ("TOML",)),
    "a file store unknown": ('[storage.container_files]\nbackend = "s4"', ("storage.container_files.backend", "filesystem", "s3")),
    "no bucket": ('[storage.container_files]\nbackend = "s3"', ("storage.container_files.bucket", "missing")),
}  # fmt: skip


@pytest.mark.promise("unbuilt-runtime-or-provider-is-refused-at-start")
@pytest.mark.parametrize("case", NOT_STARTED)
def test_a_wrong_setting_is_refused_with_file_key_and_what_would_be_right(home: Path, case: str) -> None:
    config, told = NOT_STARTED[case]

    refusal = refused(home, config)

    assert refusal.code == 2
    for word in (*told, "limpet.toml"):
        assert word in refusal.sentence, refusal.sentence
    assert not home.exists(), "the home was made although the settings are wrong"


def test_a_port_in_use_is_named(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        refusal = refused(home, "", "--port", str(port))

    assert refusal == Refusal(
        1,
        f"Cannot listen on 127.0.0.1:{port}: address already in use. Choose another with --port or [server] port.",
    )
    assert not (home / "limpet.db").exists()


def test_an_address_that_is_not_ours_is_named(home: Path) -> None:
    refusal = refused(home, '[server]\nhost = "127.0.0.1"\n', "--host", "192.0.2.1")

    assert refusal.code in (1, 2)
    assert "192.0.2.1" in refusal.sentence


def test_a_home_that_is_a_file_is_refused(home: Path) -> None:
    home.write_text("not a directory")

    refusal = refused(home, "")

    assert refusal.code == 1
    assert refusal.sentence == (
        f"The home directory {home} cannot be used: {home} is a file, not a directory. "
        "Move it away, or set LIMPET_HOME to a directory."
    )
    assert home.read_text() == "not a directory"


def test_a_read_only_home_is_refused(small_disk: disk.Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small_disk.make_read_only()

    refusal = refused(small_disk.path / "home", "")

    assert refusal.code == 1
    assert refusal.sentence.startswith(f"The home directory {small_disk.path / 'home'} cannot be used: ")
    assert "read-only" in refusal.sentence


def test_a_full_disk_is_refused(small_disk: disk.Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small_disk.path.chmod(0o711)
    (small_disk.path / "home").mkdir()
    (small_disk.path / "limpet.toml").write_text("")
    small_disk.fill()

    refusal = refused(small_disk.path / "home", "")

    assert refusal.code == 1
    assert "disk is full" in refusal.sentence
    assert "Make room" in refusal.sentence


def started_once(home: Path, tmp_path: Path) -> Path:
    """A home with a database that a gateway made. Gives the database."""
    gateway = Gateway(tmp_path, home=home).start()
    assert gateway.stop() == 0
    return home / "limpet.db"


def test_a_locked_database_is_refused_and_served_afterwards(home: Path, tmp_path: Path) -> None:
    database = started_once(home, tmp_path)
    with sqlite3.connect(database, isolation_level=None) as holder:
        holder.execute("PRAGMA locking_mode=EXCLUSIVE")
        holder.execute("BEGIN EXCLUSIVE")

        refusal = refused(home, "")

    holder.close()
    assert refusal == Refusal(
        1,
        f"The database sqlite:///{database} cannot be used: Another program holds it locked. "
        "Stop that program, or set [database] url to another file.",
    )
    assert Gateway(tmp_path, home=home).start().stop() == 0


def test_a_newer_database_is_refused_and_left_as_it_is(home: Path, tmp_path: Path) -> None:
    database = started_once(home, tmp_path)
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()

    refusal = refused(home, "")

    assert refusal.code == 1
    assert "A newer Limpet wrote it (tables 9999" in refusal.sentence
    with sqlite3.connect(database) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [("9999",)]
    connection.close()


@pytest.mark.parametrize(
    "content", [b"garbage" * 1000, b"SQLite format 3\0" + b"\xff" * 5000], ids=["text", "a broken head"]
)
def test_a_database_that_is_none_is_refused_and_left_as_it_is(home: Path, content: bytes) -> None:
    home.mkdir()
    (home / "limpet.db").write_bytes(content)

    refusal = refused(home, "")

    assert refusal.code == 1
    assert refusal.sentence == (
        f"The database sqlite:///{home}/limpet.db cannot be used: It is damaged, or not a database. "
        "Restore a backup, or set [database] url to another file."
    )
    assert (home / "limpet.db").read_bytes() == content


def test_a_database_of_another_program_is_refused(home: Path) -> None:
    home.mkdir()
    with sqlite3.connect(home / "limpet.db") as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.close()

    refusal = refused(home, "")

    assert refusal.code == 1
    assert "It belongs to another program." in refusal.sentence
