"""The agent's source as one piece, with its settings: it reaches the box through a descriptor, never by a path."""

import marshal
import os
import sys
from collections.abc import Mapping
from functools import cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType

_PACKAGE = "limpet.runtimes.agent"
_FILES = (
    "libc",
    "wire",
    "spool",
    "tree",
    "walls",
    "launch",
    "splice_channel",
    "spawn_trampoline",
    "long_script",
    "warm_shell",
    "process",
    "sysv_ipc",
    "bounds",
    "hostile_survivors",
    "bare",
    "connection",
    "requests",
    "agent",
)
_FOR_ALL = 2  # a format of marshal that every Python reads, and code only the very version that wrote it

# Each file becomes a module under its own name, so that it reads and imports the same on both sides. Where the box's Python is
# of this very version it gets the files compiled, which saves a fifth of a boot.
_START = f"""\
import sys
_, this, files, codes, config, handed = given
codes = marshal.loads(codes) if this == (sys.hexversion, sys.implementation.name) else None
package = sys.modules[{_PACKAGE!r}] = type(sys)({_PACKAGE!r})
for at, (name, text) in enumerate(files):
    module = sys.modules[{_PACKAGE!r} + "." + name] = type(sys)({_PACKAGE!r} + "." + name)
    setattr(package, name, module)
    exec(codes[at] if codes else compile(text, name + ".py", "exec"), module.__dict__)
package.agent.main(config, **handed)
"""


@cache
def _files() -> tuple[tuple[tuple[str, str], ...], bytes]:
    """Name and text of each; and the code of all, as Python keeps it beside what it has imported once."""
    directory = Path(__file__).parent.with_name("agent")
    loaders = {name: SourceFileLoader(f"{_PACKAGE}.{name}", str(directory / f"{name}.py")) for name in _FILES}
    texts = tuple((name, Path(loader.path).read_text()) for name, loader in loaders.items())
    return texts, marshal.dumps(tuple(_code(name, loader) for name, loader in loaders.items()))


def _code(name: str, loader: SourceFileLoader) -> CodeType:
    code = loader.get_code(loader.name)
    assert code is not None
    return _renamed(code, f"{name}.py")


def _renamed(code: CodeType, name: str) -> CodeType:
    """The code as of a file with that name: where it lies on the host is no business of the box."""
    inner = (_renamed(one, name) if isinstance(one, CodeType) else one for one in code.co_consts)
    return code.replace(co_filename=name, co_consts=tuple(inner))


def payload(config: Mapping[str, object], handed: Mapping[str, int | None]) -> bytes:
    """What the box's Python is given. `config` and `handed` (descriptors by their purpose) hold plain values only."""
    texts, codes = _files()
    this = (sys.hexversion, sys.implementation.name)
    return marshal.dumps((_START, this, texts, codes, dict(config), dict(handed)), _FOR_ALL)


def in_memory(name: str, content: bytes) -> int:
    """The descriptor of a file in memory with that content, to be read from its beginning."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def starter(descriptor: int) -> tuple[str, ...]:
    """Python's own arguments: isolated, without site packages, the program from that descriptor."""
    return ("-I", "-S", "-c", f"import marshal;given=marshal.loads(open({descriptor},'rb').read());exec(given[0])")
