#!/usr/bin/env python3
"""Many small jobs, each with one fault, and what must come of it. COLLCTL names the binary.

  trials.py kill SYSFAULT [--all]             SIGKILL in place of the k-th system call of a rank
  trials.py lanes SYSFAULT [--all]            SIGKILL while memory lanes are made and used
  trials.py verdict SYSFAULT [--all]          SIGKILL at a rank's rename or a call after it
  trials.py stopped SYSFAULT                  a rank stands still at its rename
  trials.py pairs SYSFAULT [--all]            two ranks die at the same moment
  trials.py coordinator SYSFAULT URL [--all]  SIGKILL of rank 0 anywhere; then the same command again
  trials.py signals SYSFAULT [--all]          SIGTERM or SIGINT with any system call of a rank
  trials.py drip [--insecure]                 each byte arrives in a packet of its own
  trials.py disk SYSFAULT CALL ERROR [--all]  the k-th CALL of a rank fails with ERROR (or `short`)
  trials.py flip [--insecure] [--all]         a bit of a byte flipped on a data connection
  trials.py cut [--insecure] [--all]          a data connection ends after n bytes
  trials.py reset [--insecure] [--all]        it is reset: the job goes back
  trials.py breaks [--insecure] [--all]       it is reset again and again
  trials.py frames                            oversized, repeated, unplanned frames
  trials.py control                           the same of control messages
  trials.py link [--insecure] [--all]         a bit of a byte flipped on a control link
  trials.py welcome                           a control link ends before the WELCOME
  trials.py asks [--insecure] [--all]         a control link breaks about the vote; TRIALS_SEED=n draws others
  trials.py unanswered                        the same, and rank 0 does not answer at once

A seeded sample without --all. Prints the trials that went wrong; the exit code says whether any did.
"""

import argparse
import errno
import os
import random
import signal
import sys

import wire
from job import SEED, SIZE, Job, demand, trials


# ---- one rank's system calls ----


def under(tool, job, rank, *fault):
    """Run the job with the rank under sysfault. (calls, injected, sends that sent something)"""
    report = job.path("report")
    job.wrap[rank] = [tool, *map(str, fault), "--"]
    job.env[rank] = {"SYSFAULT_REPORT": report}
    job.run()
    return tuple(report_of(job)[:3])


def report_of(job):
    with open(job.path("report")) as f:
        return [int(word) for word in f.read().split()]


def check_word(job, rank, r):
    """What rank `r` says of its output after the loss of `rank` is true."""
    after = f"rank {rank}: lost after the verdict: its output" in job.said[r]
    demand((job.codes[r] == 0 or after) == (job.output(r) == "new"), "rank", r, "lies about its output")
    demand(job.codes[r] == 0 or f"rank {rank}" in job.said[r], "rank", r, "names another")


def check_after_verdict(job, rank, others):
    """Somebody has its new file. Nobody ends with 0 where somebody else has its old one."""
    codes = {job.codes[r] for r in others}
    demand(codes <= {0, 8}, "after the verdict:", codes)
    old = [r for r in range(SIZE) if job.output(r) != "new"]
    demand(not old or codes == {8}, "ranks", old, "have old files, and somebody ends with 0")
    if rank != 0:  # the coordinator lives: all know the verdict, and the same outcome
        demand(set(old) <= {rank}, "ranks", old, "do not know the verdict")
        demand(len(codes) == 1, "codes", codes)
        demand(len({job.said[r] for r in others if job.codes[r]}) <= 1, "messages differ")
    for r in others:  # who voted and heard nothing is in doubt
        demand(job.output(r) == "new" or "before it gave the verdict" in job.said[r], "rank", r, "doubts nothing")
    return "after the verdict" if codes == {0} else "lost after the verdict"


def check_killed(job, rank, sent):
    """After SIGKILL of `rank`, which had sent `sent` times something."""
    others = [r for r in range(SIZE) if r != rank]
    codes = {job.codes[r] for r in others}
    demand(job.codes[rank] in (0, 137), "the killed rank ended with", job.codes[rank])
    for r in range(SIZE):
        demand(job.output(r) != "broken", "the output of rank", r, "is broken")
    for r in others:
        check_word(job, rank, r)
    left = [t for t in job.temporary() if not t.startswith(f".out.{rank}.")]
    demand(not left, "left:", left)
    if "new" in [job.output(r) for r in range(SIZE)]:
        return check_after_verdict(job, rank, others)
    if rank == 0:  # it has no HELLO: who had joined lost it, who had not does not find it
        demand(codes <= {5, 8}, "codes", codes)
        for r in others:
            text = "rank 0: lost" if job.codes[r] == 8 else "rank 0: not found"
            demand(text in job.said[r], "rank", r, "does not say:", text)
        return "rank 0 lost"
    # ClientHello, Finished, HELLO
    demand(codes == ({5} if sent < 3 else {8}), "codes", codes, "after", sent, "sends")
    job.check_abort(codes, survivors=others, culprit=rank if 8 in codes else None)
    if 5 in codes:
        demand("did not join within" in job.said[others[0]], "does not say who is missing")
        return "before its HELLO"
    return "aborted"


def kill(tool, everything):
    options = ["--join-timeout", "12s", "--timeout", "20s"]

    def calls(rank):
        job = Job(SIZE, options=options)
        count, _, _ = under(tool, job, rank, "count")
        job.check_success()
        return count

    counts = [calls(r) for r in range(SIZE)]
    # Timing moves the number of calls a little: a k past the end is a job without a fault.
    cases = [(r, k) for r in range(SIZE) for k in range(1, counts[r] + 1)]
    if not everything:
        cases = sorted(random.Random(SEED).sample(cases, 25))

    def trial(case):
        rank, k = case
        job = Job(SIZE, options=options)
        _, injected, sent = under(tool, job, rank, "kill", k)
        if not injected:
            job.check_success()
            return "over before"
        return check_killed(job, rank, sent)

    # Most jobs wait for a rank that will never join.
    return trials("kill", cases, trial, at_once=20 if everything else 6)


def lanes(tool, everything):
    """SIGKILL of a rank at its first memfd_create or a call after it: while it makes memory lanes, while it lends
    and borrows spans, and until it ends."""
    options = ["--join-timeout", "20s", "--timeout", "20s", "--lanes", "memory", "-a", "ring_chunked", "--memory", "1M"]

    def job():
        return Job(SIZE, count=400000, options=options)

    def calls(rank):
        whole = job()
        under(tool, whole, rank, "kill+1000000", 1, "memfd_create")
        whole.check_success()
        return report_of(whole)[3]

    cases = [(r, n) for r in range(SIZE) for n in range(calls(r) + 1)]
    if not everything:
        cases = sorted(random.Random(SEED).sample(cases, 16))

    def trial(case):
        rank, n = case
        killed = job()
        _, injected, sent = under(tool, killed, rank, f"kill+{n}", 1, "memfd_create")
        if not injected:
            killed.check_success()
            return "over before"
        return check_killed(killed, rank, sent)

    return trials("kill with memory lanes", cases, trial, "aborted")


def verdict(tool, everything):
    """SIGKILL at a rename or one of the calls after it: the verdict is known there, and maybe elsewhere."""
    options = ["--join-timeout", "20s", "--timeout", "20s"]
    cases = [(r, n) for r in range(SIZE) for n in range(30 if everything else 8)]
    if not everything:
        cases = [(0, 0), (1, 0), *sorted(random.Random(SEED).sample(cases, 8))]

    def trial(case):
        rank, n = case
        job = Job(SIZE, options=options)
        _, injected, sent = under(tool, job, rank, f"kill+{n}", 1, "renameat")
        if not injected:
            job.check_success()
            return "over before"
        if n == 0:  # nothing was renamed
            demand(job.output(rank) == "old", "rank", rank, "has renamed before the fault")
        return check_killed(job, rank, sent)

    return trials("kill at the rename", cases, trial, "lost after the verdict")


def stopped(tool, _everything):
    """A rank stands still at its rename, until the others have ended."""

    def trial(rank):
        job = Job(SIZE, options=["--join-timeout", "20s", "--timeout", "6s"])
        go = job.path("go")
        os.mkfifo(go)
        job.wrap[rank] = [tool, "hold", "1", "renameat", "--"]
        job.env[rank] = {"SYSFAULT_GO": go}
        others = [r for r in range(SIZE) if r != rank]
        job.start().wait(others)
        states = [job.output(r) for r in range(SIZE)]
        with open(go, "w"):
            pass
        job.wait([rank])
        for r in others:
            demand(job.codes[r] == 8 and states[r] == "new", "rank", r, "ended with", job.codes[r], states[r])
            demand(f"rank {rank}: no message for " in job.said[r], "rank", r, "names another")
            demand("after the verdict: its output" in job.said[r], "rank", r, "says nothing of the output")
        demand(states[rank] == "old", "the rename was not held")
        demand(job.output(rank) == "new", "who knows the verdict finishes")
        # Rank 0 finds that all the others have committed.
        demand(job.codes[rank] == (8 if rank else 0), "rank", rank, "ended with", job.codes[rank])
        demand(not job.temporary(), "left:", job.temporary())
        return "named"

    return trials("stopped at the rename", [0, 1], trial)


def pairs(tool, everything):
    """Two ranks die at the same moment, one of them at a chosen call: one root cause on all survivors."""
    size = 5
    places = [("sendmsg", 4), ("pwrite64", 1), ("fsync", 1), ("linkat", 1), ("renameat", 1)]
    cases = [(*p, a, b) for p in places for a in range(size) for b in range(size) if a != b and (a or p[0] != "sendmsg")]
    if not everything:
        cases = [(*p, a, b) for p in places for a, b in ((3, 1), (2, 0))] + [("fsync", 1, 0, 4), ("renameat", 1, 0, 4)]

    def trial(case):
        call, k, held, other = case
        joining = call == "sendmsg"
        job = Job(size, options=["--join-timeout", "12s" if joining else "20s", "--timeout", "20s", "-a", "ring_chunked"])
        go = job.path("go")
        os.mkfifo(go)
        job.wrap[held] = [tool, "hold", str(k), call, "--"]
        job.env[held] = {"SYSFAULT_GO": go}
        job.start()
        with open(go, "w"):  # it stands still there
            job.ranks[other].send_signal(signal.SIGSTOP)
            job.ranks[held].kill()  # the tool, and what it traces with it
            job.ranks[other].kill()
        job.wait()
        survivors = [r for r in range(size) if r not in (held, other)]
        codes = {job.codes[r] for r in survivors}
        if 0 in (held, other):  # each survivor finds for itself that rank 0 is gone, or not there
            demand(codes == {8} or joining and codes <= {5, 8}, "codes", codes)
            for r in survivors:
                demand("rank 0: lost " in job.said[r] or "rank 0: not found" in job.said[r], "another culprit")
        else:
            demand(codes == {8}, "codes", codes)
            demand(len({job.said[r] for r in survivors}) == 1, "messages differ")
            culprit = job.culprit(survivors[0])
            demand(culprit in (held, other), "rank", culprit, "lives")
        states = {job.output(r) for r in range(size)}
        demand("broken" not in states, "a broken output")
        demand("new" not in states or call == "renameat", "somebody has a new file without a verdict")
        mine = tuple(f".out.{r}." for r in (held, other))
        left = [t for t in job.temporary() if not t.startswith(mine)]
        demand(not left, "left:", left)
        job.options[1] = "20s"
        job.again()
        return "one cause"

    return trials("two at once", cases, trial)


def coordinator(tool, store, everything):
    """Rank 0 dies anywhere, also while much moves: the others name it and agree, nothing of theirs is
    left, and the same command succeeds right afterwards, also where a store has the dead one's record."""
    size = 4
    options = ["--join-timeout", "12s", "--timeout", "20s", "-a", "ring_chunked", "--memory", "1M"]
    args = {"size": size, "count": 200000, "options": options}
    sends, _, _ = under(tool, Job(**args), 0, "count", "sendmsg")
    cases = range(1, sends + 1)  # what the others see of it are its sends
    if not everything:
        cases = sorted(random.Random(SEED).sample(cases[sends // 4 :], 12))

    def trial(k):
        job = Job(**args, store=(store, f"job{k}") if k % 2 else None)
        _, injected, _ = under(tool, job, 0, "kill", k, "sendmsg")
        if not injected:
            job.check_success()
            return "over before"
        for r in range(1, size):
            check_word(job, 0, r)
            demand(job.codes[r] in (0, 5, 8), "rank", r, "ended with", job.codes[r])
            demand(job.codes[r] != 8 or "rank 0: lost " in job.said[r], "rank", r, "does not say how")
            demand(job.output(r) != "broken", "the output of rank", r, "is broken")
        codes = {job.codes[r] for r in range(1, size)}
        demand(codes <= {0, 8} or codes <= {5, 8}, "codes", codes)
        demand(0 not in codes or job.output(0) == "new", "0, and rank 0 has its old file")
        left = [t for t in job.temporary() if not t.startswith(".out.0.")]
        demand(not left, "left:", left)
        job.options[1] = "20s"
        job.again()
        return "named"

    return trials("rank 0 killed", list(cases), trial, "named")


def signals(tool, everything):
    """SIGTERM or SIGINT with any system call of a rank: the job is aborted, or the verdict was there first."""
    options = ["--join-timeout", "12s", "--timeout", "20s"]
    counts = [under(tool, Job(SIZE, options=options), r, "count")[0] for r in range(SIZE)]
    # The first half is the loader's: nobody has come to know of the rank.
    cases = [(r, k) for r in range(SIZE) for k in range(counts[r] // 2, counts[r] + 1)]
    late = [(r, counts[r] - k) for r in range(SIZE) for k in (1, 12)]
    cases = late + random.Random(SEED).sample(cases, 300 if everything else 12)

    def trial(case):
        rank, k = case
        sig = (signal.SIGTERM, signal.SIGINT)[k % 2]
        job = Job(SIZE, options=options)
        _, injected, _ = under(tool, job, rank, f"signal={sig:d}", k)
        others = [r for r in range(SIZE) if r != rank]
        if not job.codes[rank]:
            job.check_success()
            return "committed" if injected else "over before"
        demand(job.codes[rank] == 128 + sig, "rank", rank, "ended with", job.codes[rank])
        codes = {job.codes[r] for r in others}
        demand(codes <= {5, 8}, "codes", codes)
        for r in others:
            said = job.said[r]
            demand(f"rank {rank}" in said, "rank", r, "names another")
            if job.codes[r] == 8 and "while joining" not in said:  # it had no WELCOME yet
                demand(f"rank {rank}: ended by {sig.name}" in said, "rank", r, "does not say how")
        if rank:
            job.check_abort(codes, survivors=others)
        for r in range(SIZE):
            demand(job.output(r) == "old", "the output of rank", r, "was touched")
        demand(not job.temporary(), "left:", job.temporary())
        return "aborted" if 8 in codes else "not joined"

    return trials("signals", cases, trial, "aborted")


def disk(tool, call, error, everything):
    """Faults of the file system on one rank: the job aborts with 4 there and everywhere (3 where the
    input was hit), or it was no call on a file of ours and the job succeeds. After the verdict (renameat)
    the others have their new files, and say that this one has not."""
    action = error if error == "short" else f"error={getattr(errno, error)}"
    big = 40000  # elements: files over 64 KiB have threads of their own
    args = {"count": big, "options": ["--join-timeout", "12s", "--timeout", "20s", "-a", "ring_chunked"]}

    def calls(rank):
        job = Job(SIZE, **args)
        return under(tool, job, rank, "count", call)[0]

    cases = [(r, k) for r in ((0, 1, 2) if everything else (1,)) for k in range(1, calls(r) + 1)]

    def trial(case):
        rank, k = case
        job = Job(SIZE, **args)
        _, injected, _ = under(tool, job, rank, action, k, call)
        codes = set(job.codes.values())
        if codes == {0}:
            job.check_success()
            return "unharmed" if injected else "over before"
        demand(injected, "failed without a fault")
        if job.codes[rank] == 127:  # it has not started: its libraries were hit
            job.check_abort({5}, survivors=[r for r in range(SIZE) if r != rank])
            return "not started"
        demand(action != "short", "a short transfer is no failure")
        demand(error != "EINTR", "an interrupted call is no failure")
        if f"in.{rank}.npy" in job.said[rank]:
            job.check_abort({3}, rank)
        elif call == "renameat":
            demand(codes == {4}, "codes", codes)
            for r in range(SIZE):
                demand(job.output(r) == ("old" if r == rank else "new"), "rank", r, "has the wrong file")
                demand(job.said[r] == job.said[rank], "messages differ")
            demand(f"rank {rank}: " in job.said[rank] and "rename" in job.said[rank], "what failed?")
            others = ", ".join(str(r) for r in range(SIZE) if r != rank)
            words = f"after the verdict: its output is the old one; ranks {others} have their new outputs"
            demand(words in job.said[rank].replace("0-1", "0, 1").replace("1-2", "1, 2"), "who has what?")
            demand(not job.temporary(), "left:", job.temporary())
        else:
            after = call == "fsync" and "is in place" in job.said[rank]
            if after:  # the folder's
                demand(codes == {4}, "codes", codes)
                for r in range(SIZE):
                    demand(job.output(r) == "new", "rank", r, "has no new file")
            else:
                job.check_abort({4}, rank)
        return "aborted with " + str(job.codes[rank])

    must = "unharmed" if error in ("short", "EINTR") else "aborted with 3" if call == "pread64" else "aborted with 4"
    return trials(f"disk {call} {error}", cases, trial, must)


def main():
    p = argparse.ArgumentParser()
    words = "kill lanes verdict stopped pairs coordinator signals drip disk flip cut reset breaks frames control link welcome asks unanswered"
    p.add_argument("what", choices=words.split())
    p.add_argument("words", nargs="*")
    p.add_argument("--insecure", action="store_true")
    p.add_argument("--all", action="store_true")
    o = p.parse_args()
    trial = globals().get(o.what) or getattr(wire, o.what)
    return trial(*(o.words or [o.insecure]), o.all)


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
