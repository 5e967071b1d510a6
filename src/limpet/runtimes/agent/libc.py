"""Functions of the C library that Python has no wrapper for, called through `_ctypes`.

`_ctypes` is the C module below ctypes; importing ctypes itself would cost 2 ms at every boot of a box. Varargs functions (prctl,
syscall) are called as plain ones, with every number as a long: Linux on x86-64 and aarch64 passes both kinds in the same registers.
"""

from __future__ import annotations

import _ctypes
import os


class _Number(_ctypes._SimpleCData):  # type: ignore[type-arg]  # it takes none when it runs
    _type_ = "l"


class _Byte(_ctypes._SimpleCData):  # type: ignore[type-arg]  # it takes none when it runs
    _type_ = "c"


class _ReturnType(_ctypes._SimpleCData):  # type: ignore[type-arg]  # it takes none when it runs
    _type_ = "i"


class _Function(_ctypes.CFuncPtr):
    _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
    _restype_ = _ReturnType


_library = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]  # None: the symbols of this process, libc's among them


def call(name: str, *arguments: int | bytes | None) -> int:
    """Call a function by its symbol; its result is read as a C int. Numbers are passed as long, bytes as a pointer, None as NULL."""
    function = _Function(_ctypes.dlsym(_library, name))
    passed = (_Number(one) if isinstance(one, int) else one for one in arguments)
    returned: int = function(*passed)
    return returned


def prctl(option: int, value: int, structure: int | bytes = 0) -> int:
    """prctl(2). The kernel refuses several options with EINVAL unless the unused arguments are 0, so they are passed."""
    return call("prctl", option, value, structure, 0, 0)


class Memory:
    """Bytes that stay at one address as long as this object lives, for structures that hold a pointer to them."""

    def __init__(self, content: bytes) -> None:
        self._array = (_Byte * len(content)).from_buffer_copy(content)
        self.address = _ctypes.addressof(self._array)


def system_call(number: int, *arguments: int | bytes | None) -> int:
    """syscall(2). Raises OSError with its errno, read at once: `_ctypes` keeps a copy per thread (FUNCFLAG_USE_ERRNO)."""
    returned = call("syscall", number, *arguments)
    if returned < 0:
        error = _ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return returned
