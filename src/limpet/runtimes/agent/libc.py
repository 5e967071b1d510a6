"""Functions of the C library that Python does not give: by `_ctypes`, on which ctypes stands, since all of ctypes costs 2 ms at
every boot."""

from __future__ import annotations

import _ctypes
import os


class _Number(_ctypes._SimpleCData):  # type: ignore[type-arg]  # it takes none when it runs
    _type_ = "l"


class _ReturnType(_ctypes._SimpleCData):  # type: ignore[type-arg]  # it takes none when it runs
    _type_ = "i"


class _Function(_ctypes.CFuncPtr):
    _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
    _restype_ = _ReturnType


_library = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]  # None is this program itself


def call(name: str, *arguments: int | bytes | None) -> int:
    """What that function returns: an int of C. Numbers are passed as long, bytes and None as pointers."""
    function = _Function(_ctypes.dlsym(_library, name))
    passed = (_Number(one) if isinstance(one, int) else one for one in arguments)
    returned: int = function(*passed)
    return returned


def prctl(option: int, value: int) -> int:
    """prctl(2) with all further arguments 0."""
    return call("prctl", option, value, 0, 0, 0)


def system_call(number: int, *arguments: int | bytes | None) -> int:
    """What the kernel answers (syscall(2)). OSError where that is an error."""
    returned = call("syscall", number, *arguments)
    if returned < 0:
        error = _ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return returned
