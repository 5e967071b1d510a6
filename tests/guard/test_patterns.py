"""The user's patterns: RE2 alone, within a line, bounded in time and in what they hold back."""

import time

import pytest

from limpet.core.errors import ConfigInvalid
from limpet.guard.redaction.redactor import Redaction, Redactor


def redactor(*patterns: str, **named: str) -> Redactor:
    return Redactor(Redaction(patterns=named or patterns, families=False))


def test_what_a_pattern_matches_is_hidden_under_its_name() -> None:
    assert redactor(acme="ACME-[0-9]+").text("x ACME-12345 y") == "x [REDACTED:acme] y"
    assert redactor("ACME-[0-9]+", "(?i)geheim").text("ACME-1 GEHEIM é") == "[REDACTED:pattern] [REDACTED:pattern] é"


def test_a_group_called_secret_is_all_that_is_hidden() -> None:
    assert redactor(r"sid=(?P<secret>\w+)").text("sid=abc; x") == "sid=[REDACTED:pattern]; x"
    assert redactor(r"(foo|bar)-\d+").text("foo-12") == "[REDACTED:pattern]"


def test_patterns_know_lines_and_never_match_over_their_ends() -> None:
    assert redactor("^b$").text("ab\nb\nbc") == "ab\n[REDACTED:pattern]\nbc"
    assert redactor("(?s)a.*z").text("a1\n2z a3z") == "a1\n2z [REDACTED:pattern]"
    assert redactor(r"a[^x]+z").text("a1\n2z") == "a1\n2z"


@pytest.mark.parametrize(
    "pattern, says",
    [
        ("(?<=key )x", "neither ahead nor behind.*a group"),
        ("(?=x)y", "neither ahead nor behind"),
        (r"(a)\1", "back references"),
        ("a{2000}", "at most 1,000 times"),
        ("a++", "possessive"),
        ("(", "missing"),
        ("a)(b", "unexpected"),
        (r"\Ax", r"line by line.*\^ and \$"),
        (r"x\z", "line by line"),
        ("a*", "matches the empty text"),
        ("\ud800", "refuses"),
    ],
)
def test_a_pattern_that_cannot_be_used_is_refused_with_what_to_write_instead(pattern: str, says: str) -> None:
    with pytest.raises(ConfigInvalid, match=rf"(?s)redaction: patterns\.bad: .*{says}"):
        Redaction(patterns={"bad": pattern})


@pytest.mark.parametrize("pattern", ["(a+)+$", "([A-Za-z0-9]+[-_]?)*secret", "(a|aa)+b", "(.*a){20}b", r"(\w+\s?)*x$"])
def test_no_pattern_makes_the_screen_stand_still(pattern: str) -> None:
    redact = redactor(pattern)
    text = "a" * 100_000 + "!"

    begun = time.thread_time()
    redact.text(text)

    assert time.thread_time() - begun < 2  # of the processor


def test_matches_are_found_anywhere_in_a_line_without_end() -> None:
    redact = redactor("S[0-9]{1000}E")
    secret = "S" + "1" * 1000 + "E"
    screen = redact.screen()
    shown = b"".join(screen.feed(piece) for piece in [("x" * 777 + secret).encode()] * 100) + screen.end()

    assert shown == (b"x" * 777 + b"[REDACTED:pattern]") * 100
    assert redact.bytes(("x" * 777 + secret).encode() * 100) == shown


def test_a_prompt_shows_unless_a_match_may_begin_in_it() -> None:
    screen = redactor("ACME-[0-9]+", r"\bkey:").screen()

    assert screen.feed(b"Your name, please: ") + screen.flush() == b"Your name, please: "
    assert screen.feed(b"it is ACM") + screen.flush() == b"it is "
    assert screen.feed(b"E-12 no") + screen.flush() == b""
    assert screen.feed(b"\n") == b"[REDACTED:pattern] no\n"
