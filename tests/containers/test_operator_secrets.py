"""The operator's secrets: read where they are, read again when they change, and refused at the start where they cannot be."""

from pathlib import Path

import pytest

from limpet.config import load_config
from limpet.containers.operator_secrets import OperatorSecrets
from limpet.containers.settings import DomainSecret
from limpet.core.errors import ConfigInvalid
from limpet.core.hiding import hide_secrets
from tests.containers.turned import TurnedClock

pytestmark = pytest.mark.anyio
HOSTS = ("api.example.com",)
SECTION = "[features.server_tools.shell_limits.allowed_domain_secrets.NAME]"


def secrets(clock: TurnedClock | None = None, **given: object) -> OperatorSecrets:
    return OperatorSecrets({"NAME": DomainSecret(allowed_hosts=HOSTS, **given)}, clock=clock)  # type: ignore[arg-type]


async def test_a_file_is_read_again_when_it_changes_and_the_value_before_is_still_known(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("the-first-value\n")
    async with secrets(file=file) as held:
        assert held.value("NAME") == b"the-first-value"
        file.write_text("the-second-value-is-longer\r\n")
        await held.refresh()
        assert held.values("NAME") == (b"the-second-value-is-longer", b"the-first-value")
        for broken in ("", "two\nlines"):
            file.write_text(broken)
            await held.refresh()
            assert held.value("NAME") == b"the-second-value-is-longer"
        file.unlink()
        await held.refresh()
        assert held.value("NAME") == b"the-second-value-is-longer"
        file.write_text("the-third-value")
        await held.refresh()
        assert held.value("NAME") == b"the-third-value"
        assert "third" not in hide_secrets("an error with the-third-value in it")


async def test_a_secret_that_is_rotated_to_no_text_keeps_its_value_and_so_do_the_others(tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("BROKEN", "LATIN", "FINE")}
    for file in files.values():
        file.write_text("the-first-value")
    settings = {name: DomainSecret(allowed_hosts=HOSTS, file=file) for name, file in files.items()}
    async with OperatorSecrets(settings) as held:
        # No file does this today; what a later change lets out must not end the gateway either.
        settings["BROKEN"] = DomainSecret(allowed_hosts=HOSTS, file=Path("a\0b"))
        files["LATIN"].write_bytes(b"caf\xe9-in-latin-1-longer")
        files["FINE"].write_text("the-second-value-is-longer")
        await held.refresh()
        assert held.values("BROKEN") == held.values("LATIN") == (b"the-first-value",)
        assert held.value("FINE") == b"the-second-value-is-longer"


async def test_a_command_is_run_again_when_its_time_is_over(tmp_path: Path, clock: TurnedClock) -> None:
    counts = f"echo run >> {tmp_path / 'runs'}; echo value-of-run-$(wc -l < {tmp_path / 'runs'}); echo noise >&2"
    async with secrets(clock, command=("sh", "-c", counts), refresh_secs=60.0) as held:
        assert held.value("NAME") == b"value-of-run-1"
        await held.refresh()
        assert held.value("NAME") == b"value-of-run-1"
        clock.turn(61)
        await held.refresh()
        assert held.values("NAME") == (b"value-of-run-2", b"value-of-run-1")


@pytest.mark.promise("hadrian-secret-values-are-resolved-or-refused")
@pytest.mark.parametrize(
    "command, why",
    [
        (("sh", "-c", "echo canary; exit 3"), "ended with 3"),
        (("/nowhere/vault",), "cannot be run"),
        (("true",), "empty"),
        (("printf", "canary\\nagain"), "control characters"),
        (("printf", "canary\\351"), "not UTF-8"),
        (("sh", "-c", "printf 'canary%.0s' $(seq 2000)"), "longer than 8192 bytes"),
    ],
)
async def test_what_cannot_be_read_keeps_the_gateway_from_starting(command: tuple[str, ...], why: str) -> None:
    with pytest.raises(ConfigInvalid, match=why) as refused:
        async with secrets(command=command):
            pytest.fail("it was opened")
    assert "allowed_domain_secrets.NAME.command" in str(refused.value)
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize(
    "given, key, why",
    [
        ("", "NAME.value", "one of three"),
        ('value = "a"\nfile = "b"', "NAME.value", "one of three"),
        ('value = "secret://vault/canary"', "NAME.value", "nothing here resolves"),
        ('value = "${NOT_THERE}"', "NAME.value", "no variable NOT_THERE"),
        ('value = "canary\\n"', "NAME.value", "control characters"),
        ('value = "canary"\nallowed_hosts = []', "NAME.allowed_hosts", "empty"),
        ('value = "canary"\nallowed_hosts = ["*"]', "NAME.allowed_hosts", "every host"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_their_key(tmp_path: Path, given: str, key: str, why: str) -> None:
    hosts = "" if "allowed_hosts" in given else 'allowed_hosts = ["api.example.com"]\n'
    (tmp_path / "limpet.toml").write_text(f"{SECTION}\n{hosts}{given}\n")
    with pytest.raises(ConfigInvalid, match=why) as refused:
        load_config(tmp_path / "limpet.toml", environ={"LIMPET_HOME": str(tmp_path)})
    assert key in str(refused.value)
    assert "canary" not in str(refused.value)


def test_a_name_that_programs_read_for_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "limpet.toml").write_text(
        f'{SECTION.replace("NAME", "LD_PRELOAD")}\nvalue = "canary"\nallowed_hosts = ["a.example"]\n'
    )
    with pytest.raises(ConfigInvalid, match="LD_PRELOAD"):
        load_config(tmp_path / "limpet.toml", environ={"LIMPET_HOME": str(tmp_path)})
