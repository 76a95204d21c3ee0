"""The program collctl, and what only it can do: `check` and `info`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any, Dict, List, Sequence

from ._errors import OtherError, error_of
from ._settings import options_of


def _installed() -> List[Path]:
    """Where the installation of this package has put the program, if it has."""
    package = Path(__file__).parent
    places = [package.parent / "bin" / "collctl"]  # pip install --target
    try:
        wheel = metadata.distribution("collctl")
    except metadata.PackageNotFoundError:
        return places
    for file in wheel.files or []:
        if file.name == "collctl" and Path(str(wheel.locate_file("collctl"))) == package:
            places.insert(0, Path(str(wheel.locate_file(file))))
    return places


def program() -> str:
    """The path of the program collctl: that of this package, else the first on PATH."""
    for path in _installed():
        if path.is_file() and os.access(path, os.X_OK):
            return str(path.resolve())
    found = shutil.which("collctl")
    if not found:
        raise OtherError("the program collctl is neither where this package was installed nor on PATH")
    return found


def ask(command: str, files: Sequence[Any], settings: Dict[str, Any]) -> Dict[str, Any]:
    """What the command prints with --json. A failure has it as `result`."""
    done = subprocess.run(
        [program(), "--json", command, *options_of(settings), "--", *map(os.fspath, files)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        check=False,
    )
    try:
        answer: Dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        said = done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}, and nothing printed"
        raise OtherError(f"collctl {command}: {said}") from None
    if answer["error"]:
        e = answer["error"]
        error = error_of(e["code"], e["message"], e["rank"], e["host"], e["subject"])
        error.result = answer
        raise error
    return answer
