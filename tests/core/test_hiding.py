"""Configured secrets in texts that are shown. Each test protects values of its own: what is protected stays so for the process."""

import json
import logging
from dataclasses import dataclass
from pathlib import Path

import pytest

from limpet.config import load_config
from limpet.core.errors import BootFailed, UpstreamBroken, UpstreamRefused
from limpet.core.hiding import HidingFormatter, hide_secrets, protect, secrets_in, spellings
from limpet.core.secret import Secret
from limpet.upstreams.key_filter import KeyFilter
from limpet.upstreams.refusals import refusal

SHORT = 'q"7/'
LONG = 'q"7/-and-more-\u00e9'


@pytest.fixture(autouse=True)
def protected() -> None:
    protect([Secret(SHORT), Secret(LONG), Secret("abc"), None])


@pytest.mark.parametrize("text", [SHORT, json.dumps(SHORT), "q%227%2F", 'x\\"q\\"7\\/y', f"a{SHORT}{SHORT}b"])
def test_a_protected_value_is_in_no_spelling_of_it(text: str) -> None:
    shown = hide_secrets(text)
    assert "[REDACTED]" in shown
    assert not any(spelling in shown for spelling in spellings(Secret(SHORT)))


def test_the_longer_of_two_goes_first_so_that_no_rest_of_it_stays() -> None:
    assert hide_secrets(f"<{LONG}>") == "<[REDACTED]>"


def test_a_value_that_is_no_text_is_hidden_too() -> None:
    protect([Secret("caf\udce9-of-latin")])
    assert hide_secrets("<caf\udce9-of-latin>") == "<[REDACTED]>"


def test_a_key_protects_what_it_was_given_last_and_no_more() -> None:
    for turn in range(10):
        protect([Secret(f"value-of-turn-{turn}"), Secret(f"value-of-turn-{turn - 1}")], key="rotated")
    shown = hide_secrets(" ".join(f"<value-of-turn-{turn}>" for turn in range(10)))
    assert shown.split().count("<[REDACTED]>") == 2
    assert shown.endswith("<value-of-turn-7> <[REDACTED]> <[REDACTED]>")
    assert hide_secrets(f"<{LONG}>") == "<[REDACTED]>"


def test_three_characters_and_placeholders_of_local_servers_stay() -> None:
    assert hide_secrets("abc ollama") == "abc ollama"
    assert spellings(Secret("ollama")) == spellings(Secret("abc")) == spellings(None) == ()


def test_no_error_of_ours_shows_it_anywhere() -> None:
    errors = [
        BootFailed(f"cannot use {SHORT}"),
        UpstreamBroken("p", f"cut at {SHORT}"),
        UpstreamRefused("p", 401, f"bad key {SHORT}", code=SHORT),
    ]
    for error in errors:
        assert SHORT not in f"{error} {error!r} {vars(error)} {error.args}"


def test_no_line_of_logging_shows_it_nor_its_traceback() -> None:
    try:
        raise ValueError(SHORT)
    except ValueError as error:
        record = logging.LogRecord(
            "x", logging.ERROR, __file__, 1, "said %s", (SHORT,), (ValueError, error, error.__traceback__)
        )
    line = HidingFormatter("%(message)s").format(record)
    assert "Traceback" in line
    assert SHORT not in line


def test_half_of_a_key_at_the_end_of_a_cut_text_is_none() -> None:
    body = b"x" * 498 + b"abcd1234"
    assert "abcd" not in refusal("p", 500, body, Secret("abcd1234")).message


def test_a_short_key_leaves_the_protocols_own_words_alone() -> None:
    keys = KeyFilter(Secret("text"))
    event = {"type": "response.output_text.delta", "delta": "a text", "part": {"type": "output_text", "text": "text"}}
    assert keys.may_hold_key(json.dumps(event).encode())
    assert keys.hide(event) == {
        "type": "response.output_text.delta",
        "delta": "a [REDACTED]",
        "part": {"type": "output_text", "text": "[REDACTED]"},
    }


def test_every_secret_of_the_settings_is_found(tmp_path: Path) -> None:
    (tmp_path / "limpet.toml").write_text(
        '[server]\nsecret_key = "one1"\nsecret_key_previous = "two2"\n[providers.p]\ntype = "openai"\napi_key = "three3"\n'
        '[storage.container_files]\nbackend = "s3"\nbucket = "b"\naccess_key_id = "four4"\nsecret_access_key = "five5"\n'
        '[features.server_tools.shell_limits.allowed_domain_secrets.T]\nvalue = "six66"\nallowed_hosts = ["h"]\n'
    )
    config = load_config(environ={"LIMPET_HOME": str(tmp_path)}, working_directory=tmp_path)
    found = {secret.reveal() for secret in secrets_in(config)}
    assert found == {"one1", "two2", "three3", "four4", "five5", "six66"}


@dataclass(frozen=True)
class Nested:
    inner: object


def test_secrets_are_found_wherever_they_lie() -> None:
    assert secrets_in(Nested(({"a": [Nested(Secret("deep"))]},))) == [Secret("deep")]
