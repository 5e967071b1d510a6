"""The docs print the readers as the guard has them."""

from pathlib import Path

from limpet.guard.policy.programs.readers_table import as_markdown

POLICY = Path(__file__).parent.parent.parent / "docs" / "policy.md"


def test_the_table_of_readers_in_the_docs_is_the_guards_own() -> None:
    assert POLICY.read_text().endswith("\n\n" + as_markdown() + "\n")
