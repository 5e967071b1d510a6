import re
import tomllib
from pathlib import Path

from limpet.config import load_config
from limpet.config.bind import KnownKey, known_keys
from limpet.config.sections import Sections

MANUAL = Path(__file__).parents[2] / "docs/config.md"
ROW = re.compile(r"\| `([^`]+)` \| ([^|]+) \| `?([^|`]+)`? \| \S[^|]*\|")


def test_the_manual_lists_every_key_with_its_type_and_default_and_no_other() -> None:
    rows = [match for line in MANUAL.read_text().splitlines() if (match := ROW.fullmatch(line))]
    listed = [KnownKey(key=row[1], type=row[2], default=row[3]) for row in rows]
    assert listed == list(known_keys(Sections))


def test_the_manuals_example_is_accepted(tmp_path: Path) -> None:
    example = MANUAL.read_text().partition("```toml\n")[2].partition("```")[0]
    assert tomllib.loads(example)
    (tmp_path / "limpet.toml").write_text(example)
    config = load_config(environ={"OPENAI_API_KEY": "k"}, working_directory=tmp_path)
    assert [provider.name for provider in config.providers] == ["openai", "ollama", "limpet"]
