"""SKILL.md's front matter: what is text is read, all else is refused in words, and nothing costs more than its size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.containers.front_matter import FrontMatterInvalid, OtherScalar, read_front_matter

ALIASES = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10))]
)


def test_text_lists_and_mappings_are_read_as_they_are_written() -> None:
    source = (
        b'name: a-skill\ndescription: >\n  Two\n  lines\nquoted: "yes"\nallowed-tools: [Read, "Bash(git:*)"]\n'
        b"metadata:\n  author: me\n  version: 1.0\n"
    )
    assert read_front_matter(source) == {
        "name": "a-skill",
        "description": "Two lines\n",
        "quoted": "yes",
        "allowed-tools": ["Read", "Bash(git:*)"],
        "metadata": {"author": "me", "version": OtherScalar("a number")},
    }


@pytest.mark.parametrize(
    "written, kind",
    [
        ("yes", "a boolean"),
        ("On", "a boolean"),
        ("12", "a number"),
        ("12:30:45", "a number"),
        ("1:2:3.5", "a number"),
        ("0x" + "f" * 6000, "a number"),
        ("9" * 60_000, "a number"),
        (".nan", "a number"),
        ("1e400", "text"),
        ("2026-11-22", "a date"),
        ("2026-99-99T99:99:99Z", "a date"),
        ("~", "null"),
        ("", "null"),
        ("=", "no text"),
    ],
)
def test_a_plain_scalar_is_never_turned_into_a_value(written: str, kind: str) -> None:
    value = read_front_matter(f"name: {written}".encode())["name"]
    assert value == (written if kind == "text" else OtherScalar(kind))


@pytest.mark.parametrize(
    "source, problem",
    [
        (ALIASES, "anchors or aliases"),
        ("name: *missing", "anchors or aliases"),
        ("a: &a x", "anchors or aliases"),
        ("a: &a {b: c}", "anchors or aliases"),
        ("a: {<<: {b: c}}", "merge key"),
        ("<<: [a, b]", "merge key"),
        ("a: !!timestamp x", "a tag"),
        ("a: !!bool maybe", "a tag"),
        ("a: !!int ''", "a tag"),
        ("a: !!binary '***'", "a tag"),
        ("a: !!str x", "a tag"),
        ("a: ! x", "a tag"),
        ("a: !!set {x, y}", "a tag"),
        ("a: !!python/object/apply:os.system [id]", "a tag"),
        ("!!map {a: b}", "a tag"),
        ("%TAG ! tag:yaml.org,2002:\n--- \na: b", "not a mapping"),
        ("? [a, b]\n: c", "key that is not text"),
        ("? {a: b}\n: c", "key that is not text"),
        ("a: b\na: c", "twice"),
        ("m: {a: b, 'a': c}", "twice"),
        ("a: b\n--- \nc: d", "more than one document"),
        ("a: " + "[" * 9 + "]" * 9, "nested deeper"),
        ("a: " + "{b: " * 10_000, "nested deeper"),
        ("a:\n" + "".join(" " * n + "- \n" for n in range(1, 300)), "nested deeper"),
        ("- " * 30_000, "nested deeper"),
        ("a: [" + "x," * 5000 + "]", "parts"),
        ("a: " + "x" * (65 << 10), "longer than"),
        ("- a", "not a mapping"),
        ("text", "not a mapping"),
        ("", "not a mapping"),
        ("# only a comment", "not a mapping"),
        ("a: 'no end", "not YAML"),
        ("a: [b", "not YAML"),
        ("a: \x00", "not YAML"),
        ("\ta: b", "not YAML"),
        ('a: "\\UFFFFFFFF"', "not YAML"),
        ("%YAML 1.1\n%YAML 9" + "9" * 5000 + ".1\n---\na: b", "not YAML"),
        ('a: "\\0"', "control characters"),
        ('a: "\\e[2J"', "control characters"),
        ('a: "\\ud800"', "control characters"),
        ('"\\ud800": a', "control characters"),
    ],
)
def test_all_else_is_refused_in_words(source: str, problem: str) -> None:
    with pytest.raises(FrontMatterInvalid, match=problem):
        read_front_matter(source.encode())


def test_bytes_that_are_no_text_are_refused() -> None:
    for source in (b"a: \xff\xfe", b"\xff\xfea\x00:\x00 \x00b\x00"):
        with pytest.raises(FrontMatterInvalid, match="not YAML"):
            read_front_matter(source)


@given(st.one_of(st.binary(max_size=200), st.text(alphabet="&*!<>|-?:,[]{}#'\"%@`\n\t ab1~=.\\xUe", max_size=80)))
def test_anything_is_read_or_refused(source: bytes | str) -> None:
    try:
        read = read_front_matter(source if isinstance(source, bytes) else source.encode())
    except FrontMatterInvalid:
        return
    assert all(isinstance(key, str) for key in read)
