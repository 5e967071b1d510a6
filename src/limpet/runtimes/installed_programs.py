"""Which languages and tools a sandbox has, found out by running one script in it. Knows no runtime; what it reads is untrusted."""

import re

import anyio

from limpet.core.command import Command, Script
from limpet.core.ports import Sandbox

WITHIN = 5.0  # seconds
_MOST_BYTES = 4096
# Languages are shown with their versions; those of the second line say theirs too slowly, or are not asked for it.
_WITH_VERSION = ("python3 --version", "node --version", "gcc -dumpfullversion", "go version", "rustc --version")
_LANGUAGES = "java ruby php perl R lua julia ghc swift dotnet clang"
_TOOLS = (
    "pip uv npm npx yarn pnpm cargo make cmake git curl wget jq rg sqlite3 psql ffmpeg convert pandoc pdflatex soffice tesseract gdb"
    " zip unzip rsync ssh tmux"
)
_SCRIPT = "\n".join(
    [
        f"for name in {_LANGUAGES} {_TOOLS}; do command -v $name > /dev/null && echo $name; done",
        *(
            f"command -v {line.split()[0]} > /dev/null && echo {line.split()[0]} $({line} 2>&1 | head -n 1)"
            for line in _WITH_VERSION
        ),
        "true",
    ]
)
_ORDER = [*(line.split()[0] for line in _WITH_VERSION), *_LANGUAGES.split(), *_TOOLS.split()]
_VERSION = re.compile(r"(?<![\w.])v?(?:go)?(\d{1,4}(?:\.\d{1,4}){1,3})(?![\w.])")


async def installed_programs(sandbox: Sandbox) -> tuple[str, ...]:
    """Names of programs that are there, languages first and with their versions where those are known, such as `python3 3.11.2`; within
    WITHIN seconds. Raises as `Sandbox.start` and `Process.output`."""
    process = await sandbox.start(Command(what=Script(_SCRIPT), timeout=WITHIN), "installed-programs")
    said = b""
    with anyio.move_on_after(WITHIN):  # what was said until then is true as well
        async for chunk in process.output():
            if chunk.stream == "stdout" and len(said) < _MOST_BYTES:
                said += chunk.data
    return read_programs(said)


def read_programs(said: bytes) -> tuple[str, ...]:
    """What the script has printed, as a list; names that were not asked for are left out."""
    found: dict[str, str] = {}
    for line in said[:_MOST_BYTES].decode(errors="replace").split("\n"):
        name, _, rest = line.partition(" ")
        if name in _ORDER:
            version = _VERSION.search(rest)
            found[name] = f"{name} {version[1]}" if version else name
    return tuple(found[name] for name in _ORDER if name in found)
