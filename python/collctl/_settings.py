"""Settings: the long options of the command, as keyword arguments."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterator, Sequence, Tuple, Union

Path = Union[str, "os.PathLike[str]"]
Setting = Union[None, bool, int, float, Path, Sequence[Union[int, float, Path]]]

# Each value of these is given to the library by a call.
_LISTS = ("include", "exclude", "strip")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, (list, tuple)):
        return ",".join(map(_text, value))
    if isinstance(value, (str, os.PathLike)):
        return os.fsdecode(value)
    return str(value)


def settings_of(arguments: Dict[str, Any]) -> Iterator[Tuple[str, str]]:
    """The names and values of the command's options. None is a setting that is not set."""
    for name, value in arguments.items():
        if value is None:
            continue
        values = value if name in _LISTS and isinstance(value, (list, tuple)) else [value]
        for v in values:
            yield name.replace("_", "-"), _text(v)


def options_of(arguments: Dict[str, Any]) -> Iterator[str]:
    """The same as words of a command line."""
    for name, value in arguments.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            yield option
        elif value is not False:
            for _, text in settings_of({name: value}):
                yield f"{option}={text}"
