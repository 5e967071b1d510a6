"""How much of an output a result shows: cuts fall between characters, and files of whole outputs don't pile up."""

import sys
from subprocess import run

import pytest

from limpet.core.box_directories import HOME
from limpet.tools.output import head, head_and_tail, keep_whole
from limpet.workspace.kept_outputs import KEPT, MOST_FILES
from limpet.workspace.result import KeptOutput
from limpet.workspace.workspace import Workspace


def kept(data: bytes) -> KeptOutput:
    made = KeptOutput()
    made.add(data)
    return made


@pytest.mark.parametrize("text", ["x" * 10_000, "ü" * 5_000, "€" * 3_333, "🐚" * 2_500, "aü€🐚" * 1_000])
@pytest.mark.parametrize("limit", range(1_000, 1_010))
def test_a_cut_keeps_whole_characters_and_counts_the_rest(text: str, limit: int) -> None:
    whole = text.encode()
    shown = head_and_tail(kept(whole), limit)

    first, _, rest = shown.text.partition("\n... [")
    number, _, last = rest.partition(" bytes left out] ...\n")
    assert whole.startswith(first.encode())
    assert whole.endswith(last.encode())
    assert len(first.encode()) + int(number) + len(last.encode()) == len(whole)
    assert (shown.left_out, shown.is_text, shown.size) == (True, True, len(whole))


def test_what_fits_is_whole_and_a_head_counts_characters() -> None:
    assert head_and_tail(kept(b"x" * 100), 100).text == "x" * 100
    assert (head(kept("🐚".encode() * 10), 10).text, head(kept("🐚".encode() * 10), 10).left_out) == ("🐚" * 10, False)
    assert (head(kept("🐚".encode() * 11), 10).text, head(kept("🐚".encode() * 11), 10).left_out) == ("🐚" * 10, True)
    assert head(kept(b"ab\xff"), 10).text == "ab\ufffd"
    assert not head(kept(b"ab\xff"), 10).is_text


@pytest.mark.anyio
async def test_of_the_files_with_whole_outputs_the_newest_stay(memory_box: Workspace) -> None:
    for number in range(MOST_FILES + 3):
        path = await keep_whole(memory_box, kept(b"x"), name=f"{number:03}")
        assert path == f"{HOME}/{KEPT}/{number:03}.txt"

    files = await memory_box.files.list(f"{HOME}/{KEPT}")
    assert len(files) == MOST_FILES
    assert files[-1].path.endswith(f"{MOST_FILES + 2:03}.txt")


def test_the_names_of_tools_cost_what_is_used_of_them() -> None:
    said = "import sys, limpet.tools as t; assert 'limpet.tools.run' not in sys.modules; [getattr(t, n) for n in t._MODULE_OF]"
    done = run([sys.executable, "-c", said], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
