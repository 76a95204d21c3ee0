"""Collective operations over files, between processes on one machine or on many.

Each rank is a process that calls the same function; either every rank gets the right bytes, or every rank gets an
exception that names the cause, and keeps its old file:

    import collctl

    result = collctl.allreduce("gradients.npy", "averaged.npy", op="avg", rank=0, size=4,
                               rendezvous="http://head:7700", secret_file="job.key")
    print(result.algorithm, result.seconds)

Settings are keyword arguments with the names of the command's long options, `secret_file` for `--secret-file`:
`collctl help allreduce` and collctl(1) describe them. True and False are for options without a value; a list is
for those that take several. The functions read the variables of launchers (mpirun, srun, torchrun, `collctl run`) and
COLLCTL_SECRET, as the command does, unless `environment=False`; arguments have priority.

A job runs without the interpreter's lock, so that other threads run meanwhile. KeyboardInterrupt cancels it. What
`notes` names is called in the calling thread; an exception there cancels the job, too, and is raised. Without it, notes go
to the logger "collctl".
"""

from __future__ import annotations

from . import _library
from ._collectives import (allgather, allreduce, alltoall, barrier, broadcast, check, exchange, exscan, gather, info, reduce,
                           reduce_scatter, scan, scatter, verify)
from ._errors import (AuthError, CancelledError, DisagreeError, Error, InputError, IntegrityError, OtherError, OutputError,
                      PeerLostError, RendezvousError, ResourceError, StalledError, UsageError)
from ._job import Note
from ._program import program
from ._results import Check, Info, Link, Result, Tensor, Verified

__version__: str = _library.library.collctl_version().decode()

__all__ = [
    "allgather", "allreduce", "alltoall", "barrier", "broadcast", "check", "exchange", "exscan", "gather", "info", "program",
    "reduce", "reduce_scatter", "scan", "scatter", "verify",
    "Check", "Info", "Link", "Note", "Result", "Tensor", "Verified",
    "AuthError", "CancelledError", "DisagreeError", "Error", "InputError", "IntegrityError", "OtherError", "OutputError",
    "PeerLostError", "RendezvousError", "ResourceError", "StalledError", "UsageError",
]
