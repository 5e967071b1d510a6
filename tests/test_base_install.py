"""The library needs the base dependencies alone; everything of the extras is kept from being found here."""

import subprocess
import sys

import pytest

# Finds only what the distribution `limpet` needs without an extra, and what that needs.
SCRIPT = """
import re, sys
from importlib.metadata import PackageNotFoundError, packages_distributions, requires

def needed(name, seen):
    for line in requires(name) or ():
        requirement, _, marker = line.partition(";")
        other = re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0].lower().replace("_", "-")
        if "extra ==" not in marker and other not in seen:
            seen.add(other)
            try:
                needed(other, seen)
            except PackageNotFoundError:
                seen.discard(other)
    return seen

base = needed("limpet", {"limpet"})
foreign = {
    package
    for package, owners in packages_distributions().items()
    if not base & {owner.lower().replace("_", "-") for owner in owners}
}

class OnlyBase:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in foreign:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

foreign |= {"pydantic", "pydantic_core"}  # typer brings them; the library does without
assert {"sqlalchemy", "starlette", "mcp"} <= foreign
sys.meta_path.insert(0, OnlyBase())
exec(sys.argv[1])
"""

RUN = """
import asyncio, limpet
async def main():
    async with limpet.open_workspace(runtime={runtime!r}) as workspace:
        print((await workspace.run("echo hi")).stdout.decode().strip())
asyncio.run(main())
"""

USES = {
    "the public names": "import limpet, limpet.tools; [getattr(limpet, name) for name in dir(limpet)]; print('hi')",
    "the conformance suite": "import limpet.testing; print('hi')",
    "settings": "from limpet.config import load_config; load_config(environ={}); print('hi')",
    "bubblewrap": "import limpet.runtimes.bubblewrap; print('hi')",
    "memory": RUN.format(runtime="memory"),
    "local": RUN.format(runtime="local"),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_the_base_dependencies_are_enough_for_the_library(use: str) -> None:
    ran = subprocess.run([sys.executable, "-c", SCRIPT, use], check=False, capture_output=True, text=True, timeout=60)

    assert (ran.stdout, ran.stderr) == ("hi\n", "")
