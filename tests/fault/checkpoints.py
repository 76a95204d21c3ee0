#!/usr/bin/env python3
"""Faults while checkpoints are reduced: many small jobs, each with one. COLLCTL names the binary. Of
each kind: `set`, `file` (a .safetensors) and `npz`.

  checkpoints.py disk SYSFAULT CALL ERROR [--all]  the k-th CALL of a rank fails with ERROR (or `short`)
  checkpoints.py kill SYSFAULT [--all]             SIGKILL in place of one of a rank's last system calls
  checkpoints.py corrupt SHIM                      a bit of the result flips in a rank's memory
  checkpoints.py limit                             ulimit -f and ulimit -v of a rank

After each the old output is there, or whatever the contract allows, all survivors have said the same,
nothing is left, and a second run succeeds. A seeded sample without --all.
"""

import argparse
import errno
import os
import random
import sys
import threading

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import files as fl
from job import OLD, SEED, SIZE, Job, Processes, demand, trials
from trials import check_after_verdict, check_word, under

SUFFIX = {"set": "", "file": ".safetensors", "npz": ".npz"}
MARK = 5000.0  # an element of the sum, of tensor "marked" alone
TENSORS = (("a", "f4"), ("b.w", "f2"), ("b.x", "i8"), ("c", "f4"), ("marked", "f4"))


def tensors(rank):
    """Some of each type, over 64 KiB, so that files have threads of their own."""
    t = {n: fl.some(d, (7, 1000), [rank, i]) for i, (n, d) in enumerate(TENSORS)}
    t["marked"][3, 500] = MARK / SIZE - 1 + rank
    return t


def save(kind, path, t):
    if kind == "npz":
        np.savez(path, **t)
    elif kind == "file":
        fl.save_safetensors(path, t)
    else:
        shards = {f"{i}.safetensors": {n: t[n] for n in names} for i, names in enumerate((["a", "b.x"], ["c"], ["b.w", "marked"]))}
        fl.save_set(path, shards)


def snapshot(path):
    """{name: bytes} of the files at @path, but hidden ones."""
    names = [n for n in os.listdir(path) if n[0] != "."] if os.path.isdir(path) else [""]
    return {n: open(os.path.join(path, n) if n else path, "rb").read() for n in names}


class Checkpoint(Job):
    new = {}
    lock = threading.Lock()

    def __init__(self, kind, **args):
        self.kind = kind
        super().__init__(SIZE, **args)

    def input(self, r):
        return self.path(f"in.{r}{SUFFIX[self.kind]}")

    def target(self, r):
        return self.path(f"out.{r}{SUFFIX[self.kind]}")

    def make(self):
        for r in range(SIZE):
            save(self.kind, self.input(r), tensors(r))
            if self.kind == "set":
                os.mkdir(self.target(r))
            for n in snapshot(self.input(r)):
                with open(os.path.join(self.target(r), n) if n else self.target(r), "wb") as f:
                    f.write(OLD)

    def states(self, r):
        """What each file of a rank's output is."""
        got, new = snapshot(self.target(r)), self.want()
        demand(set(got) == set(new), "rank", r, "has the files", sorted(got))
        return {"old" if b == OLD else "new" if b == new[n] else "broken" for n, b in got.items()}

    def output(self, r):
        states = self.states(r)
        return states.pop() if len(states) == 1 else "broken" if "broken" in states else "mixed"

    def want(self):
        """The output of a job without a fault, which numpy agrees with."""
        if self.kind not in Checkpoint.new:
            with Checkpoint.lock:
                self.learn()
        return Checkpoint.new[self.kind]

    def learn(self):
        job = Checkpoint(self.kind, options=self.options)
        job.run()
        Processes.latest.processes = self  # whose story this is
        demand(set(job.codes.values()) == {0}, "without a fault", job.said)
        ins = [tensors(r) for r in range(SIZE)]
        fl.check(job.target(0), {n: sum((x[n] for x in ins[1:]), ins[0][n]) for n in ins[0]})
        Checkpoint.new[self.kind] = snapshot(job.target(0))

    def temporary(self):
        return [
            os.path.relpath(os.path.join(d, n), self.dir.name)
            for d, _, names in os.walk(self.dir.name)
            for n in names
            if n.startswith(".")
        ]


OPTIONS = ["--join-timeout", "12s", "--timeout", "20s"]


def all_trials(name, cases, trial, must=None):
    """Each with a second run."""

    def one(case):
        job, result = trial(case)
        job.again()
        return result

    return trials(name, cases, one, must)


def sample(cases, n, everything):
    cases = list(cases)
    return cases if everything else sorted(random.Random(SEED).sample(cases, min(n, len(cases))))


def check_not_started(job, rank):
    """Its libraries could not be loaded: the others miss it, each in words of its own if it is rank 0."""
    for r in range(SIZE):
        demand(r == rank or job.codes[r] == 5, "rank", r, "ended with", job.codes[r])
        demand(r == rank or f"rank {rank}" in job.said[r], "rank", r, "does not say who is missing")
        demand(job.output(r) == "old", "the output of rank", r, "was touched")
    return "not started"


# ---- the disk ----


def check_disk(job, rank, call, action, injected):
    codes, said = set(job.codes.values()), job.said[rank]
    if codes == {0}:
        job.check_success()
        return "unharmed" if injected else "over before"
    demand(injected, "failed without a fault")
    if job.codes[rank] == 127:
        return check_not_started(job, rank)
    demand(action != "short", "a short transfer is no failure")
    if call == "renameat":  # after the verdict: the others have theirs, this rank its whole old output
        demand(codes == {4}, "codes", codes)
        for r in range(SIZE):
            demand(job.output(r) == ("old" if r == rank else "new"), "rank", r, "has", job.output(r))
            demand(job.said[r] == said, "messages differ")
        demand(said.startswith(f"collctl: rank {rank}: ") and "rename" in said, "what failed?")
        demand("after the verdict: its output is the old one; rank" in said and "new output" in said, "who has what?")
        demand(not job.temporary(), "left:", job.temporary())
        return "aborted with 4"
    if call == "fsync" and "is in place" in said:  # the folder's
        demand(codes == {4}, "codes", codes)
        for r in range(SIZE):
            demand(job.output(r) == "new", "rank", r, "has no new file")
        return "aborted with 4"
    code = 3 if f"in.{rank}" in said else 4 if f"out.{rank}" in said else 11
    demand(code != 11 or "spool" in said or "memory" in said or "librar" in said or "libzip" in said, "what failed?")
    job.check_abort({code}, rank)
    return f"aborted with {code}"


def disk(kind, tool, call, error, everything):
    action = error if error == "short" else f"error={getattr(errno, error)}"
    options = OPTIONS + ["-a", "ring_chunked"]
    reference = Checkpoint(kind, options=options)
    reference.want()
    ranks = (0, 1, 2) if everything else (1,)
    counts = {r: under(tool, Checkpoint(kind, options=options), r, "count", call)[0] for r in ranks}
    cases = [(r, k) for r in ranks for k in range(1, counts[r] + 1)]
    # Few of these are our outputs': no small sample is sure to hit one. They are closed last.
    rare = call in ("openat", "close")
    whole = everything or (rare and kind == "set")
    if call == "close" and not everything:
        cases = cases[-24:]
    cases = sample(cases, 3, whole)

    def trial(case):
        rank, k = case
        job = Checkpoint(kind, options=options)
        _, injected, _ = under(tool, job, rank, action, k, call)
        return job, check_disk(job, rank, call, action, injected)

    must = "unharmed" if action == "short" else "aborted with 3" if call == "pread64" else "aborted with 4"
    return all_trials(f"{kind}: {call} {error}", cases, trial, must if whole or not rare else None)


# ---- killed ----


def check_killed(job, rank):
    others = [r for r in range(SIZE) if r != rank]
    codes = {job.codes[r] for r in others}
    demand(job.codes[rank] in (0, 137), "the killed rank ended with", job.codes[rank])
    demand("broken" not in job.states(rank), "a file of rank", rank, "is neither old nor new")
    for r in others:
        check_word(job, rank, r)
    left = [t for t in job.temporary() if not t.startswith((f".out.{rank}", f"out.{rank}/"))]
    demand(not left, "left:", left)
    if "new" in [job.output(r) for r in others] or job.states(rank) != {"old"}:
        return check_after_verdict(job, rank, others)
    demand(codes == {8}, "codes", codes)
    return "aborted"


def kill(kind, tool, everything):
    """Around the verdict and the renames: the last calls of a rank."""
    last = 120
    reference = Checkpoint(kind, options=OPTIONS)
    reference.want()
    counts = [under(tool, Checkpoint(kind, options=OPTIONS), r, "count")[0] for r in range(SIZE)]
    cases = sample(((r, k) for r in range(SIZE) for k in range(counts[r] - last, counts[r] + 1)), 9, everything)
    # Runs differ in their number of calls; a rename is past the verdict in each.
    cases += [(r, 1, "renameat") for r in range(SIZE)]

    def trial(case):
        rank, *which = case
        job = Checkpoint(kind, options=OPTIONS)
        _, injected, _ = under(tool, job, rank, "kill", *which)
        if injected:
            return job, check_killed(job, rank)
        job.check_success()
        return job, "over before"

    return all_trials(f"{kind}: kill", cases, trial, "lost after the verdict")


# ---- memory, limits ----


def corrupt(kind, shim, _everything):
    def trial(case):
        rank, order = case
        job = Checkpoint(kind, options=OPTIONS + ["-a", "direct", "--order", order])
        mark = np.array([MARK], "<f4").tobytes().hex()
        job.env[rank] = {"LD_PRELOAD": shim, "CORRUPT": mark}
        job.run()
        job.check_abort({10}, rank)
        demand("its result differs from that of ranks" in job.said[0], "does not say what")
        demand("tensor 'marked' digest " in job.said[0], "does not name the tensor")
        return job, "aborted"

    # Where a rank hands on what it has, the others may get the corrupted bits and agree on them.
    # Here rank 2 reduces that block and sends it to both.
    cases = [(r, order) for r in (0, 1) for order in ("any", "rank")]
    return all_trials(f"{kind}: corrupt", cases, trial, "aborted")


def limit(kind, _everything):
    def trial(case):
        rank, flag, value = case
        job = Checkpoint(kind, options=OPTIONS)
        job.wrap[rank] = ["bash", "-c", f'ulimit {flag} {value} && exec "$@"', "-"]
        job.run()
        codes = set(job.codes.values())
        if codes == {0}:
            job.check_success()
            return job, "works"
        if flag == "-f":  # an archive is unpacked into a spool first
            job.check_abort({11 if kind == "npz" else 4}, rank)
            demand("ulimit -f" in job.said[rank] or "spool" in job.said[rank], "does not say why")
        elif job.codes[rank] == 127:
            check_not_started(job, rank)
        else:
            job.check_abort({11}, rank)
        return job, f"aborted with {job.codes[rank]}"

    cases = [(r, "-f", n) for r in (0, 1) for n in (1, 20, 60)]
    failed = all_trials(f"{kind}: ulimit -f", cases, trial)
    cases = [(1, "-v", n * 1000) for n in (12, 20, 30, 40, 60, 80, 120, 200)]
    return failed + all_trials(f"{kind}: ulimit -v", cases, trial)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("what", choices=["disk", "kill", "corrupt", "limit"])
    p.add_argument("words", nargs="*")
    p.add_argument("--all", action="store_true")
    o = p.parse_args()
    return sum(globals()[o.what](kind, *o.words, o.all) for kind in SUFFIX)


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
