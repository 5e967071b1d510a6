"""The agent's source as one text, with its settings: it reaches the box through a descriptor, never by a path."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

_PACKAGE = "limpet.runtimes.bubblewrap.inside"
_FILES = ("wire", "spool", "tree", "launch", "process", "connection", "requests", "agent")

# Each file becomes a module under its own name, so that it reads and imports the same on both sides.
_START = """\
import sys
package = sys.modules[{package!r}] = type(sys)({package!r})
for name, text in {texts!r}:
    module = sys.modules[{package!r} + "." + name] = type(sys)({package!r} + "." + name)
    setattr(package, name, module)
    exec(compile(text, name + ".py", "exec"), module.__dict__)
package.agent.main({config!r}, **{handed!r})
"""


@cache
def _texts() -> tuple[tuple[str, str], ...]:
    directory = Path(__file__).with_name("inside")
    return tuple((name, (directory / f"{name}.py").read_text()) for name in _FILES)


def payload(config: Mapping[str, object], handed: Mapping[str, int | None]) -> bytes:
    """What the box's Python executes. `config` and `handed` (descriptors by their purpose) hold plain values only."""
    text = _START.format(package=_PACKAGE, texts=_texts(), config=dict(config), handed=dict(handed))
    return text.encode()


def starter(descriptor: int) -> tuple[str, ...]:
    """Python's own arguments: isolated, without site packages, the program from that descriptor."""
    return ("-I", "-S", "-c", f"exec(compile(open({descriptor},'rb').read(),'start','exec'))")
