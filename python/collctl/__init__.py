"""Collective operations over files and arrays, between processes on one machine or on many.

Each rank is a process that calls the same function; either every rank gets the right bytes, or every rank gets an
exception that names the cause, and keeps its old file:

    import collctl

    result = collctl.allreduce("gradients.npy", "averaged.npy", op="avg", rank=0, size=4,
                               rendezvous="http://head:7700", secret_file="job.key")
    print(result.algorithm, result.seconds)

Inputs and the output may also be arrays of numpy or anything else that has the buffer protocol; `dtype` says what
their elements are, if their format does not ("bf16" in an array of uint16). Without an output the result is a new
array, of numpy if it is installed, else a memoryview:

    mean = collctl.allreduce(gradients, op="avg").output        # started by `collctl run -n 4 -- python3 train.py`

An array that is given as the output must have the result's number of bytes. It is written when all ranks have the
result; after a failure it is unchanged, or with `in_place=True` undefined. A job has one output in memory, and its
files are .npy files.

Settings are keyword arguments with the names of the command's long options, `secret_file` for `--secret-file`:
`collctl help allreduce` and collctl(1) describe them. True and False are for options without a value; a list is
for those that take several. The functions read the variables of launchers (mpirun, srun, torchrun, `collctl run`) and
COLLCTL_SECRET, as the command does, unless `environment=False`; arguments have priority.

A job runs without the interpreter's lock, so that other threads run meanwhile. KeyboardInterrupt cancels it. The
functions `notes` and `progress` are called in the calling thread; an exception there cancels the job, too, and is raised.
Without `notes`, remarks go to the logger "collctl".
"""

from __future__ import annotations

from . import _library
from ._collectives import (
    allgather,
    allreduce,
    alltoall,
    barrier,
    broadcast,
    check,
    exchange,
    exscan,
    gather,
    info,
    reduce,
    reduce_scatter,
    scan,
    scatter,
    verify,
)
from ._errors import (
    AuthError,
    CancelledError,
    DisagreeError,
    Error,
    InputError,
    IntegrityError,
    OtherError,
    OutputError,
    PeerLostError,
    RendezvousError,
    ResourceError,
    StalledError,
    UsageError,
)
from ._job import Note, Progress
from ._program import program
from ._results import Check, Info, Link, Result, Tensor, Verified

__version__: str = _library.library.collctl_version().decode()

__all__ = [
    "allgather",
    "allreduce",
    "alltoall",
    "barrier",
    "broadcast",
    "check",
    "exchange",
    "exscan",
    "gather",
    "info",
    "program",
    "reduce",
    "reduce_scatter",
    "scan",
    "scatter",
    "verify",
    "Check",
    "Info",
    "Link",
    "Note",
    "Progress",
    "Result",
    "Tensor",
    "Verified",
    "AuthError",
    "CancelledError",
    "DisagreeError",
    "Error",
    "InputError",
    "IntegrityError",
    "OtherError",
    "OutputError",
    "PeerLostError",
    "RendezvousError",
    "ResourceError",
    "StalledError",
    "UsageError",
]
