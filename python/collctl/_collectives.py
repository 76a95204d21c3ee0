"""The functions of the package: one for each command that runs a job, and `info`."""

from __future__ import annotations

import os
from typing import Any, Callable, List, Optional, Sequence, Union

from ._arrays import Memory
from ._errors import Error, UsageError
from ._job import Job, Note, Progress
from ._program import ask
from ._results import Check, Info, Result, Verified, check_of, info_of, verified_of
from ._settings import Path, Setting

Input = Union[Path, Any]  # a path, or what has the buffer protocol
Inputs = Union[None, Input, Sequence[Input]]
Output = Union[None, Path, Sequence[Path], Any]
Paths = Union[Path, Sequence[Path]]
Notes = Optional[Callable[[Note], None]]
OnProgress = Optional[Callable[[Progress], None]]


def _listed(values: Any) -> List[Any]:
    if values is None:
        return []
    return list(values) if isinstance(values, (list, tuple)) else [values]


def _is_path(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike))


def _wants_array(inputs: List[Any]) -> bool:
    """Without an output: is the result an array? Other files than .npy need the name of an output."""
    return all(not _is_path(i) or os.fspath(i).endswith(".npy") for i in inputs)


def _run(
    command: str,
    inputs: Inputs,
    output: Output,
    in_place: bool,
    notes: Notes,
    progress: OnProgress,
    environment: bool,
    **settings: Setting,
) -> Result:
    job = Job(command, environment)
    given = _listed(inputs)
    # What the elements of an array are is no setting of the job.
    dtype: Any = settings.pop("dtype", None) if any(not _is_path(i) for i in given) else None
    job.set(settings)
    for i in given:
        if _is_path(i):
            job.input(i)
        else:
            job.input_array(Memory(i, dtype=dtype))
    outputs = _listed(output)
    kept = output is None and _wants_array(given)
    if kept or any(not _is_path(o) for o in outputs):
        if len(outputs) > 1:
            raise UsageError("a job has one output in memory")
        job.output_array(Memory(outputs[0], writable=True) if outputs else None, in_place)
    else:
        for path in outputs:
            job.output(path)
    job.run(notes, progress)
    array = job.array() if kept else None
    return job.result(tuple(outputs) if array is None else (array,))


def allreduce(
    inputs: Inputs,
    output: Output = None,
    *,
    op: Optional[str] = None,
    rank: Union[int, str, None] = None,
    size: Optional[int] = None,
    in_place: bool = False,
    notes: Notes = None,
    progress: OnProgress = None,
    environment: bool = True,
    **settings: Setting,
) -> Result:
    """Reduce the inputs of all ranks; all ranks get the result. `op` is "sum" (the default), "avg", "max", ..."""
    return _run(
        "allreduce", inputs, output, in_place, notes, progress, environment, op=op, rank=rank, size=size, **settings
    )


def reduce(
    inputs: Inputs,
    output: Output = None,
    *,
    op: Optional[str] = None,
    root: Union[int, str, None] = None,
    rank: Union[int, str, None] = None,
    size: Optional[int] = None,
    in_place: bool = False,
    notes: Notes = None,
    progress: OnProgress = None,
    environment: bool = True,
    **settings: Setting,
) -> Result:
    """Reduce the inputs of all ranks; `root` (0, or a host's name) gets the result."""
    return _run(
        "reduce",
        inputs,
        output,
        in_place,
        notes,
        progress,
        environment,
        op=op,
        root=root,
        rank=rank,
        size=size,
        **settings,
    )


def reduce_scatter(
    inputs: Inputs,
    output: Output = None,
    *,
    op: Optional[str] = None,
    counts: Optional[Sequence[int]] = None,
    rank: Union[int, str, None] = None,
    size: Optional[int] = None,
    in_place: bool = False,
    notes: Notes = None,
    progress: OnProgress = None,
    environment: bool = True,
    **settings: Setting,
) -> Result:
    """Reduce the inputs of all ranks; each rank gets its part of the result along axis 0, `counts` rows or even parts."""
    return _run(
        "reduce-scatter",
        inputs,
        output,
        in_place,
        notes,
        progress,
        environment,
        op=op,
        counts=counts,
        rank=rank,
        size=size,
        **settings,
    )


def broadcast(
    inputs: Inputs = None,
    output: Output = None,
    *,
    root: Union[int, str, None] = None,
    rank: Union[int, str, None] = None,
    size: Optional[int] = None,
    in_place: bool = False,
    notes: Notes = None,
    progress: OnProgress = None,
    environment: bool = True,
    **settings: Setting,
) -> Result:
    """All ranks get the input of `root`: an array, tensors, or with `raw_file=True` any file or folder."""
    return _run(
        "broadcast", inputs, output, in_place, notes, progress, environment, root=root, rank=rank, size=size, **settings
    )


def scatter(
    inputs: Inputs = None,
    output: Output = None,
    *,
    root: Union[int, str, None] = None,
    counts: Optional[Sequence[int]] = None,
    rank: Union[int, str, None] = None,
    size: Optional[int] = None,
    in_place: bool = False,
    notes: Notes = None,
    progress: OnProgress = None,
    environment: bool = True,
    **settings: Setting,
) -> Result:
    """Each rank gets its part of the input of `root` along axis 0, `counts` rows or even parts."""
    return _run(
        "scatter",
        inputs,
        output,
        in_place,
        notes,
        progress,
        environment,
        root=root,
        counts=counts,
        rank=rank,
        size=size,
        **settings,
    )


def gather(
    inputs: Inputs,
    output: Output = None,
    *,
    root: Union[int, str, None] = None,
    rank: Union[int, str, None] = None,
    size: Optional[int] = None,
    in_place: bool = False,
    notes: Notes = None,
    progress: OnProgress = None,
    environment: bool = True,
    **settings: Setting,
) -> Result:
    """`root` gets the inputs of all ranks, one after the other along axis 0."""
    return _run(
        "gather", inputs, output, in_place, notes, progress, environment, root=root, rank=rank, size=size, **settings
    )


def allgather(
    inputs: Inputs,
    output: Output = None,
    *,
    rank: Union[int, str, None] = None,
    size: Optional[int] = None,
    in_place: bool = False,
    notes: Notes = None,
    progress: OnProgress = None,
    environment: bool = True,
    **settings: Setting,
) -> Result:
    """All ranks get the inputs of all ranks, one after the other along axis 0."""
    return _run("allgather", inputs, output, in_place, notes, progress, environment, rank=rank, size=size, **settings)


def alltoall(
    inputs: Inputs,
    output: Output = None,
    *,
    counts: Optional[Sequence[int]] = None,
    rank: Union[int, str, None] = None,
    size: Optional[int] = None,
    in_place: bool = False,
    notes: Notes = None,
    progress: OnProgress = None,
    environment: bool = True,
    **settings: Setting,
) -> Result:
    """Rank r gets the r-th part of each rank's input along axis 0."""
    return _run(
        "alltoall",
        inputs,
        output,
        in_place,
        notes,
        progress,
        environment,
        counts=counts,
        rank=rank,
        size=size,
        **settings,
    )


def scan(
    inputs: Inputs,
    output: Output = None,
    *,
    op: Optional[str] = None,
    rank: Union[int, str, None] = None,
    size: Optional[int] = None,
    in_place: bool = False,
    notes: Notes = None,
    progress: OnProgress = None,
    environment: bool = True,
    **settings: Setting,
) -> Result:
    """Rank r gets the reduction of the inputs of ranks 0 to r."""
    return _run("scan", inputs, output, in_place, notes, progress, environment, op=op, rank=rank, size=size, **settings)


def exscan(
    inputs: Inputs,
    output: Output = None,
    *,
    op: Optional[str] = None,
    rank: Union[int, str, None] = None,
    size: Optional[int] = None,
    in_place: bool = False,
    notes: Notes = None,
    progress: OnProgress = None,
    environment: bool = True,
    **settings: Setting,
) -> Result:
    """Rank r gets the reduction of the inputs of ranks 0 to r - 1; rank 0 the identity of the operation."""
    return _run(
        "exscan", inputs, output, in_place, notes, progress, environment, op=op, rank=rank, size=size, **settings
    )


def exchange(
    inputs: Inputs,
    *,
    steps: Optional[int] = None,
    rank: Union[int, str, None] = None,
    size: Optional[int] = None,
    notes: Notes = None,
    progress: OnProgress = None,
    environment: bool = True,
    **settings: Setting,
) -> Result:
    """Exchange the input with `steps` partners, at distances 1, 2, 4 ..., to time the pattern. There is no output."""
    return _run(
        "exchange", inputs, (), False, notes, progress, environment, steps=steps, rank=rank, size=size, **settings
    )


def barrier(
    *,
    rank: Union[int, str, None] = None,
    size: Optional[int] = None,
    notes: Notes = None,
    progress: OnProgress = None,
    environment: bool = True,
    **settings: Setting,
) -> Result:
    """Wait until all ranks have called it. The exception says which are missing."""
    return _run("barrier", None, (), False, notes, progress, environment, rank=rank, size=size, **settings)


def verify(
    files: Paths, *, rank: Union[int, str, None] = None, size: Optional[int] = None, **settings: Setting
) -> Verified:
    """Compare files of all ranks, bit by bit. IntegrityError names the ranks whose file differs.

    Runs the program, which reads the variables of the environment."""
    return verified_of(ask("verify", _listed(files), {"rank": rank, "size": size, **settings}))


def check(
    *, rank: Union[int, str, None] = None, size: Optional[int] = None, time: Optional[str] = None, **settings: Setting
) -> Check:
    """Test and measure every link between the ranks. PeerLostError: some fail; its `result` is what was measured.

    Runs the program, which reads the variables of the environment."""
    try:
        return check_of(ask("check", [], {"rank": rank, "size": size, "time": time, **settings}))
    except Error as e:
        e.result = check_of(e.result) if e.result and "links" in e.result else None
        raise


def info(file: Path, *, stats: bool = False, digest: bool = True, **settings: Setting) -> Info:
    """Describe a file: its tensors, their types, shapes and digests, and with `stats` their values. Runs the program."""
    if isinstance(file, (list, tuple)):
        raise UsageError("info describes one file a call")
    return info_of(ask("info", [file], {"stats": stats, "no_digest": not digest, **settings}))
