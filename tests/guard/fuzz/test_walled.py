"""Behind walls the forbidden program does not run, whatever the guard would have said of the commands."""

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from limpet.core.ports import Offer, Runtime
from tests.guard.fuzz.expand import Source
from tests.guard.fuzz.grammars.all import GRAMMARS
from tests.guard.fuzz.walled import WALLS, Image, behind_walls, made_image
from tests.support.runtimes import opened

SEED = 20_261_121
COUNT = 24
NEEDS = {"allowed_commands": Offer.WALL_ALLOWED_COMMANDS, "blocked_commands": Offer.WALL_BLOCKED_COMMANDS}

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    with tempfile.TemporaryDirectory(prefix="lf-") as directory:
        Path(directory).chmod(0o755)
        made = made_image(Path(directory))
        if made is None:
            pytest.skip("there is no C compiler here for the stand-in")
        yield made


@pytest.fixture
async def runtime(home: Path) -> AsyncIterator[Runtime]:
    async with opened("bubblewrap", home) as runtime:
        yield runtime


@pytest.mark.parametrize("rule", NEEDS)
@pytest.mark.parametrize("grammar", GRAMMARS.values(), ids=GRAMMARS.keys())
async def test_no_generated_command_runs_the_forbidden_program(
    runtime: Runtime, image: Image, grammar: Source, rule: str
) -> None:
    if NEEDS[rule] not in runtime.offers:
        pytest.skip(f"no walls for {rule} on this machine")

    assert await behind_walls(runtime, image, WALLS[rule], [grammar], seed=SEED, count=COUNT) == []


async def test_without_walls_such_commands_do(runtime: Runtime, image: Image) -> None:
    sources = [GRAMMARS[name] for name in ("quoting", "compound", "wrappers")]

    assert await behind_walls(runtime, image, WALLS["none"], sources, seed=SEED, count=COUNT) != []
