"""A job of libcollctl: from its settings to its outcome."""

from __future__ import annotations

import json
import logging
import os
import re
import threading
from ctypes import POINTER, c_char_p, c_int, c_uint64, c_void_p
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Callable, Dict, List, Optional, Tuple

from ._arrays import Memory, array_of
from ._errors import Error, ResourceError, UsageError, error_of
from ._library import IN_PLACE, NOTE, PROGRESS, library
from ._results import Result, result_of
from ._settings import settings_of

log = logging.getLogger("collctl")


@dataclass(frozen=True)
class Note:
    """A remark of a running job.

    level   0: of interest to every user; 1 and 2: more detail
    rank    this rank; None: not known yet
    """

    level: int
    rank: Optional[int]
    text: str


@dataclass(frozen=True)
class Progress:
    """How far a job is.

    phase          join, connect, run or commit
    done, total    bytes of this rank's inputs and outputs that are through all stages; 0: not known
    seconds_left   None: not known
    """

    phase: str
    done: int
    total: int
    seconds_left: Optional[float]


def log_note(note: Note) -> None:
    """Without a function for notes they go to the logger "collctl"."""
    where = "" if note.rank is None else f"rank {note.rank}: "
    log.log(logging.INFO if note.level == 0 else logging.DEBUG, "%s%s", where, note.text)


class Job:
    """A job that runs once. The library's object lives as long as this one."""

    def __init__(self, command: str, environment: bool) -> None:
        self._read: List[Memory] = []  # which the library reads until the job has ended
        self._handle = library.collctl_new(command.encode())
        if not self._handle:
            raise ResourceError(f"{command}: out of memory or descriptors")
        if environment:
            library.collctl_use_environment(self._handle)

    def __del__(self) -> None:
        library.collctl_free(getattr(self, "_handle", None))

    def _check(self, code: int) -> None:
        if code:
            raise self._error(code)

    def _error(self, code: int) -> Error:
        h = self._handle
        return error_of(
            code,
            _named(library.collctl_message(h)),
            library.collctl_culprit(h),
            library.collctl_culprit_host(h).decode(errors="replace"),
            _named(library.collctl_subject(h)),
        )

    def set(self, settings: Dict[str, Any]) -> None:
        for name, value in settings_of(settings):
            self._check(library.collctl_set(self._handle, name.encode(), _bytes(value)))

    def input(self, path: Any) -> None:
        self._check(library.collctl_input(self._handle, _bytes(path)))

    def output(self, path: Any) -> None:
        self._check(library.collctl_output(self._handle, _bytes(path)))

    def input_array(self, memory: Memory) -> None:
        """Add an array, which the library reads in its place."""
        self._read.append(memory)
        shape = (c_uint64 * len(memory.shape))(*memory.shape)
        self._check(
            library.collctl_input_memory(self._handle, memory.address, memory.dtype.encode(), shape, len(shape))
        )

    def output_array(self, memory: Optional[Memory], in_place: bool) -> None:
        """The result goes to this memory; None: to a new array (`array`)."""
        self._output = memory  # which the library writes until the job has ended
        if memory is None:
            self._check(library.collctl_output_kept(self._handle))
        else:
            self._check(
                library.collctl_output_memory(
                    self._handle, memory.address, memory.dtype.encode(), memory.bytes, IN_PLACE if in_place else 0
                )
            )

    def array(self) -> Any:
        """The result in memory; None: this rank gets none."""
        data, nbytes, dtype, shape, ndim = c_void_p(), c_uint64(), c_char_p(), POINTER(c_uint64)(), c_int()
        if library.collctl_result(self._handle, 0, data, nbytes, dtype, shape, ndim):
            return None
        name = (dtype.value or b"").decode()
        return array_of(data.value or 0, nbytes.value, name, tuple(shape[: ndim.value]), self)

    def run(self, notes: Optional[Callable[[Note], None]], progress: Optional[Callable[[Progress], None]]) -> None:
        """Run the job on a thread, and call the functions for notes and progress on this one meanwhile.

        An exception of theirs, and KeyboardInterrupt, cancels the job, and is raised when the job has ended."""
        on_note = notes or log_note
        events: SimpleQueue[Any] = SimpleQueue()

        def noted(_: Any, level: int, rank: int, text: bytes) -> None:
            events.put((on_note, Note(level, rank if rank >= 0 else None, _named(text))))

        def moved(_: Any, phase: bytes, done: int, total: int, left: float) -> None:
            events.put((progress, Progress(phase.decode(), done, total, left if left >= 0 else None)))

        # Kept with the job: a second KeyboardInterrupt leaves it behind on its thread.
        self._called = NOTE(noted), PROGRESS(moved)
        library.collctl_notes(self._handle, self._called[0], None)
        if progress:
            library.collctl_progress(self._handle, self._called[1], None)

        def work() -> None:
            events.put((None, library.collctl_run(self._handle)))

        thread = threading.Thread(target=work, name="collctl", daemon=True)
        try:
            thread.start()
            code = _serve(events)
            thread.join()
        except BaseException as e:
            library.collctl_cancel(self._handle)
            if thread.ident is None:
                raise ResourceError(f"no thread can be started for the job: {e}") from e
            thread.join()
            raise
        if code:
            error = self._error(code)
            error.result = self._answer()
            raise error

    def result(self, outputs: Tuple[Any, ...]) -> Result:
        return result_of(self._answer() or {}, library.collctl_algorithm(self._handle).decode(), outputs)

    def _answer(self) -> Optional[Dict[str, Any]]:
        """What the command would print with --json; None: memory ran out."""
        text = library.collctl_json(self._handle)
        return json.loads(text) if text else None


def _serve(events: SimpleQueue[Any]) -> int:
    """Call what the job calls until it has ended: its code."""
    while True:
        function, argument = events.get()
        if not function:
            return int(argument)
        function(argument)


def _named(text: bytes) -> str:
    """A message, in which arrays in memory have the names of files in memory."""
    return re.sub(r"/proc/self/fd/\d+", "the array", os.fsdecode(text))


def _bytes(text: Any) -> bytes:
    encoded = os.fsencode(text)
    if b"\0" in encoded:
        raise UsageError(f"{text!r}: has a null character")
    return encoded
