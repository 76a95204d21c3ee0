"""Arrays in memory: what has the buffer protocol, as the library takes it, and arrays of what the library has made."""

from __future__ import annotations

import ctypes
from typing import Any, Optional, Tuple

from ._errors import UsageError

# The types: their letters in numpy, as in the module struct but for complex numbers, and sizes. What Python lacks is the
# unsigned integer of this size.
_TYPES = {
    "i8": ("b", 1),
    "i16": ("h", 2),
    "i32": ("i", 4),
    "i64": ("q", 8),
    "u8": ("B", 1),
    "u16": ("H", 2),
    "u32": ("I", 4),
    "u64": ("Q", 8),
    "f16": ("e", 2),
    "f32": ("f", 4),
    "f64": ("d", 8),
    "bool": ("?", 1),
    "c64": ("F", 8),
    "c128": ("D", 16),
    "bf16": ("H", 2),
    "f8e4m3": ("B", 1),
    "f8e5m2": ("B", 1),
}
# Letters of formats by the kind of number; each has several sizes.
_KINDS = {"i": "bhilqn", "u": "cBHILQN", "f": "efd", "c": ("Zf", "Zd")}

_C_CONTIGUOUS, _FORMAT, _WRITABLE = 0x38, 0x4, 0x1  # PyBUF_...


class _Buffer(ctypes.Structure):
    """Py_buffer. It has the address also of what cannot be written, which ctypes' functions refuse."""

    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]


_get = ctypes.pythonapi.PyObject_GetBuffer
_get.argtypes = [ctypes.py_object, ctypes.POINTER(_Buffer), ctypes.c_int]
_release = ctypes.pythonapi.PyBuffer_Release
_release.argtypes = [ctypes.POINTER(_Buffer)]
_release.restype = None


class Memory:
    """The elements of an object with the buffer protocol, in C order. They keep their place while this object lives.

    dtype   what they are, if their format does not say it, such as bf16 in an array of uint16"""

    def __init__(self, value: Any, writable: bool = False, dtype: Optional[str] = None) -> None:
        self._buffer: Optional[_Buffer] = None
        buffer = _Buffer()
        try:
            view = memoryview(value)
            self.shape: Tuple[int, ...] = tuple(view.shape or ())
            self.dtype = dtype or _dtype_of(view)
            if not writable and not view.c_contiguous:
                value = view.tobytes()
            _get(value, buffer, _C_CONTIGUOUS | _FORMAT | (_WRITABLE if writable else 0))
        except (BufferError, TypeError, ValueError) as e:
            use = "written" if writable else "read"
            raise UsageError(f"{type(value).__name__}: no array whose memory can be {use}: {e}") from e
        self._buffer = buffer
        self.address = buffer.buf
        self.bytes = buffer.len
        if dtype in _TYPES and view.itemsize != _TYPES[dtype][1]:
            raise UsageError(
                f"dtype: {dtype} has {_TYPES[dtype][1]} bytes, the elements of the array have {view.itemsize}"
            )

    def __del__(self) -> None:
        if self._buffer is not None:
            _release(self._buffer)


def _dtype_of(view: memoryview) -> str:
    kind = view.format.lstrip("@=<>!")
    if view.format[0] in ">!" and view.itemsize > 1:
        raise ValueError("its elements are big-endian")
    if kind == "?":
        return "bool"
    for name, letters in _KINDS.items():
        if kind in letters:
            return f"{name}{8 * view.itemsize}"
    raise ValueError(f"its elements have the format '{view.format}'")


def array_of(address: int, nbytes: int, dtype: str, shape: Tuple[int, ...], owner: Any) -> Any:
    """An array of numpy or, where that is missing, a memoryview, of memory that the owner keeps."""
    block: Any = (ctypes.c_char * nbytes).from_address(address)
    block.owner = owner
    letter: Any = _TYPES[dtype][0]
    try:
        import numpy  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        pass
    else:
        return numpy.ndarray(shape, letter, block)
    if letter in "FD":  # pairs of a real and an imaginary part
        letter, shape = letter.lower(), (*shape, 2)
    elif letter == "e":  # not every version casts to it
        letter = "H"
    view = memoryview(block).cast("B").cast(letter)
    return view.cast("B").cast(letter, shape) if nbytes else view
