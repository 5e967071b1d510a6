"""The agent's source as one text, with its settings: it reaches the box through a descriptor, never by a path."""

import marshal
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

_PACKAGE = "limpet.runtimes.bubblewrap.inside"
_FILES = (
    "wire",
    "spool",
    "tree",
    "walls",
    "launch",
    "stepping",
    "waiting",
    "process",
    "kept",
    "bounds",
    "siege",
    "connection",
    "requests",
    "agent",
)

# Each file becomes a module under its own name, so that it reads and imports the same on both sides. Where the box's Python is
# of this very version it gets the files compiled, which saves a fifth of a boot.
_START = """\
import marshal, sys
package = sys.modules[{package!r}] = type(sys)({package!r})
for name, text, code in {files!r}:
    module = sys.modules[{package!r} + "." + name] = type(sys)({package!r} + "." + name)
    setattr(package, name, module)
    same = sys.hexversion == {version!r} and sys.implementation.name == {implementation!r}
    exec(marshal.loads(code) if same else compile(text, name + ".py", "exec"), module.__dict__)
package.agent.main({config!r}, **{handed!r})
"""


@cache
def _files() -> tuple[tuple[str, str, bytes], ...]:
    """Name, text and code of each."""
    directory = Path(__file__).with_name("inside")
    texts = {name: (directory / f"{name}.py").read_text() for name in _FILES}
    return tuple((name, text, marshal.dumps(compile(text, f"{name}.py", "exec"))) for name, text in texts.items())


def payload(config: Mapping[str, object], handed: Mapping[str, int | None]) -> bytes:
    """What the box's Python executes. `config` and `handed` (descriptors by their purpose) hold plain values only."""
    text = _START.format(
        package=_PACKAGE,
        files=_files(),
        version=sys.hexversion,
        implementation=sys.implementation.name,
        config=dict(config),
        handed=dict(handed),
    )
    return text.encode()


def starter(descriptor: int) -> tuple[str, ...]:
    """Python's own arguments: isolated, without site packages, the program from that descriptor."""
    return ("-I", "-S", "-c", f"exec(open({descriptor},'rb').read())")
