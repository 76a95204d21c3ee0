"""libcollctl, by ctypes: the functions of collctl.h."""

from __future__ import annotations

import os
from ctypes import CDLL, CFUNCTYPE, POINTER, c_char_p, c_double, c_int, c_uint, c_uint64, c_void_p
from pathlib import Path

NAME = "libcollctl.so.0"

IN_PLACE = 1  # COLLCTL_IN_PLACE
NOTE = CFUNCTYPE(None, c_void_p, c_int, c_int, c_char_p)
PROGRESS = CFUNCTYPE(None, c_void_p, c_char_p, c_uint64, c_uint64, c_double)


def _open() -> CDLL:
    """The library that COLLCTL_LIBRARY names, else that of the wheel, else that of the system."""
    beside = Path(__file__).with_name(NAME)
    name = os.environ.get("COLLCTL_LIBRARY") or (str(beside) if beside.exists() else NAME)
    try:
        return CDLL(name)
    except OSError as e:
        raise ImportError(
            f"collctl: {name} cannot be loaded: {e}; install the wheel of this machine's processor, "
            "or Debian's package libcollctl0, or let COLLCTL_LIBRARY name the library"
        ) from e


library = _open()

_FUNCTIONS = {
    "version": (c_char_p,),
    "new": (c_void_p, c_char_p),
    "free": (None, c_void_p),
    "set": (c_int, c_void_p, c_char_p, c_char_p),
    "input": (c_int, c_void_p, c_char_p),
    "output": (c_int, c_void_p, c_char_p),
    "input_memory": (c_int, c_void_p, c_void_p, c_char_p, POINTER(c_uint64), c_int),
    "output_memory": (c_int, c_void_p, c_void_p, c_char_p, c_uint64, c_uint),
    "output_kept": (c_int, c_void_p),
    "result": (
        c_int,
        c_void_p,
        c_uint,
        POINTER(c_void_p),
        POINTER(c_uint64),
        POINTER(c_char_p),
        POINTER(POINTER(c_uint64)),
        POINTER(c_int),
    ),
    "use_environment": (None, c_void_p),
    "notes": (None, c_void_p, NOTE, c_void_p),
    "progress": (None, c_void_p, PROGRESS, c_void_p),
    "run": (c_int, c_void_p),
    "cancel": (None, c_void_p),
    "message": (c_char_p, c_void_p),
    "culprit": (c_int, c_void_p),
    "culprit_host": (c_char_p, c_void_p),
    "subject": (c_char_p, c_void_p),
    "algorithm": (c_char_p, c_void_p),
    "json": (c_char_p, c_void_p),
}
for _name, (_result, *_arguments) in _FUNCTIONS.items():
    _function = getattr(library, "collctl_" + _name)
    _function.restype = _result
    _function.argtypes = _arguments
