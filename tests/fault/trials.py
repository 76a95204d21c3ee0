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
  trials.py reset [--insecure] [--all]        it is reset
  trials.py frames                            oversized, repeated, unplanned frames
  trials.py control                           the same of control messages
  trials.py link [--insecure] [--all]         a bit of a byte flipped on a control link
  trials.py welcome                           a control link ends before the WELCOME

A seeded sample without --all. Prints the trials that went wrong; the exit code says whether any did.
"""

import argparse
import errno
import os
import random
import signal
import socket
import struct
import sys

import proxy as px
from job import Job, demand, reserve_port, trials

SEED = 20240607
SIZE = 3


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
        try:
            if not injected:
                job.check_success()
                return "over before"
            return check_killed(job, rank, sent)
        except Exception as e:
            e.args = (f"{e}{job.story()}",)
            raise

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
        try:
            if not injected:
                killed.check_success()
                return "over before"
            return check_killed(killed, rank, sent)
        except Exception as e:
            e.args = (f"{e}{killed.story()}",)
            raise

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
        try:
            if not injected:
                job.check_success()
                return "over before"
            if n == 0:  # nothing was renamed
                demand(job.output(rank) == "old", "rank", rank, "has renamed before the fault")
            return check_killed(job, rank, sent)
        except Exception as e:
            e.args = (f"{e}{job.story()}",)
            raise

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
        try:
            for r in others:
                demand(job.codes[r] == 8 and states[r] == "new", "rank", r, "ended with", job.codes[r], states[r])
                demand(f"rank {rank}: no message for " in job.said[r], "rank", r, "names another")
                demand("after the verdict: its output" in job.said[r], "rank", r, "says nothing of the output")
            demand(states[rank] == "old", "the rename was not held")
            demand(job.output(rank) == "new", "who knows the verdict finishes")
            # Rank 0 finds that all the others have committed.
            demand(job.codes[rank] == (8 if rank else 0), "rank", rank, "ended with", job.codes[rank])
            demand(not job.temporary(), "left:", job.temporary())
        except Exception as e:
            e.args = (f"{e}{job.story()}",)
            raise
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
        try:
            survivors = [r for r in range(size) if r not in (held, other)]
            codes = {job.codes[r] for r in survivors}
            if 0 in (held, other):  # each survivor finds for itself that rank 0 is gone, or not there
                demand(codes == {8} or joining and codes <= {5, 8}, "codes", codes)
                for r in survivors:
                    demand("rank 0: lost " in job.said[r] or "rank 0: not found" in job.said[r], "another culprit")
            else:
                demand(codes == {8}, "codes", codes)
                demand(len({job.said[r] for r in survivors}) == 1, "messages differ")
                culprit = culprit_of(job, survivors[0])
                demand(culprit in (held, other), "rank", culprit, "lives")
            states = {job.output(r) for r in range(size)}
            demand("broken" not in states, "a broken output")
            demand("new" not in states or call == "renameat", "somebody has a new file without a verdict")
            mine = tuple(f".out.{r}." for r in (held, other))
            left = [t for t in job.temporary() if not t.startswith(mine)]
            demand(not left, "left:", left)
            job.options[1] = "20s"
            job.again()
        except Exception as e:
            e.args = (f"{e}{job.story()}",)
            raise
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
        try:
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
        except Exception as e:
            e.args = (f"{e}{job.story()}",)
            raise
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
        try:
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
        except Exception as e:
            e.args = (f"{e}{job.story()}",)
            raise
        return "aborted" if 8 in codes else "not joined"

    return trials("signals", cases, trial, "aborted")


def drip(insecure, _everything):
    """Every byte arrives alone, on a data connection and on a control link, both ways."""

    def trial(where):
        if where == "data":
            job = Wire(px.Drip(), px.Drip(), insecure=insecure, count=2000).run()
        else:
            proxies = []

            def via(port):
                proxies.append(px.Proxy(port, px.Drip(), px.Drip()))
                return proxies[0].port

            job = Job(SIZE, insecure=insecure, via={1: via}).run()
            proxies[0].close()
        try:
            job.check_success()
        except Exception as e:
            e.args = (f"{e}{job.story()}",)
            raise
        return "right"

    return trials(f"drip{' --insecure' if insecure else ''}", ["data", "control"], trial, "right")


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
        try:
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
        except Exception as e:
            e.args = (f"{e}{job.story()}",)
            raise

    must = "unharmed" if error in ("short", "EINTR") else "aborted with 3" if call == "pread64" else "aborted with 4"
    return trials(f"disk {call} {error}", cases, trial, must)


# ---- one data connection ----


class Wire:
    """A job whose ring goes from rank 0 to rank 1 through a proxy."""

    def __init__(self, up=None, down=None, insecure=False, count=20, timeout="20s"):
        self.reserved, port = reserve_port()
        self.proxy = px.Proxy(port, up, down)
        self.job = Job(
            SIZE,
            count=count,
            insecure=insecure,
            options=["-a", "ring_chunked", "--streams", "1", "--timeout", timeout],
            args={1: ["--listen", f"127.0.0.1:{port}", "--advertise", f"127.0.0.1:{self.proxy.port}", "--lanes", "tcp"]},
        )

    def run(self):
        try:
            self.job.run()
        finally:
            self.proxy.close()
            self.reserved.close()
        return self.job


def clean_stream(insecure, count):
    record = px.Record()
    Wire(record, insecure=insecure, count=count).run().check_success()
    return record.stream


def boundaries(stream, insecure):
    """Where each frame or TLS record begins; last the length of the stream."""
    at, starts = 0, []
    while at < len(stream):
        starts.append(at)
        if insecure:
            length = struct.unpack_from("<I", stream, at)[0]
            at += px.HEADER + (0 if length == px.END else length)
        else:
            at += 5 + struct.unpack_from(">H", stream, at + 3)[0]
    demand(at == len(stream), "not whole records")
    return [*starts, at]


class Map:
    """What a place of the stream is. The first records are the handshake and the opening, after
    which the receiver knows whose connection it is: a fault before is a stranger's."""

    def __init__(self, insecure, count):
        self.insecure = insecure
        self.stream = clean_stream(insecure, count)
        self.starts = boundaries(self.stream, insecure)
        # TLS: ClientHello, change cipher spec, Finished, opening
        self.opened = self.starts[1 if insecure else 4]

    def opening(self, byte):
        return byte < self.opened

    def is_legacy(self, byte):
        """What TLS 1.3 has for old middleboxes only and ignores: the version in the header of the
        ClientHello's record, the record "change cipher spec"."""
        return not self.insecure and (byte in (1, 2) or self.starts[1] <= byte < self.starts[2])

    def is_tls_length(self, byte):
        return not self.insecure and any(byte in (s + 3, s + 4) for s in self.starts)


def on_wire(name, insecure, everything, places, make, check, waits=lambda where, case: False):
    """waits: is this fault noticed when --timeout is over, and not before?"""
    count = 20
    where = Map(insecure, count)
    cases = places(where)
    if not everything:
        cases = sorted(random.Random(SEED).sample(cases, min(len(cases), 20)))

    def trial(case):
        fault = make(case)
        job = Wire(fault, insecure=insecure, count=count, timeout="8s" if waits(where, case) else "20s").run()
        try:
            demand(fault.hit, "the fault did not happen")
            return check(where, case, job)
        except Exception as e:
            e.args = (f"{e}{job.story()}",)
            raise

    return trials(f"{name}{' --insecure' if insecure else ''}", cases, trial)


def culprit_of(job, r=0):
    """Which end of the link, or whoever waits for it; the same rank for all."""
    return int(job.said[r].removeprefix("collctl: rank ").split(":")[0])


def dialled_again(where, byte, job):
    """A fault before the listener has admitted the connection: the next one meets no fault. A length
    that was made larger is waited for until --timeout."""
    if where.is_tls_length(byte) and any(job.codes.values()):
        job.check_abort({9}, culprit_of(job))
        return "waited for"
    job.check_success()
    return "dialled again"


def flip(insecure, everything):
    def check(where, bit, job):
        byte = bit // 8
        if where.is_legacy(byte) and not any(job.codes.values()):
            job.check_success()
            return "harmless"
        if where.opening(byte):
            return dialled_again(where, byte, job)
        if where.is_tls_length(byte):
            # Bytes of the length that was claimed may never come: then nothing moves.
            job.check_abort({9, 10}, culprit_of(job))
            return "aborted"
        job.check_abort({10}, 0)
        demand("its link with rank 1: " in job.said[0], "the link is not named")
        return "aborted"

    def places(where):  # a bit of every byte
        some = random.Random(SEED)
        return [8 * byte + some.randrange(8) for byte in range(len(where.stream))]

    return on_wire("flip", insecure, everything, places, px.Flip, check, lambda where, bit: where.is_tls_length(bit // 8))


def cut(insecure, everything):
    def check(where, byte, job):
        if where.opening(byte):
            return dialled_again(where, byte, job)
        job.check_abort({10}, 0)
        return "aborted"

    return on_wire("cut", insecure, everything, lambda w: list(range(len(w.stream))), px.Cut, check)


def reset(insecure, everything):
    def check(where, byte, job):
        if where.opening(byte):
            return dialled_again(where, byte, job)
        job.check_abort({8}, culprit_of(job))
        demand("rank 0" in job.said[0] and "rank 1" in job.said[0], "the link is not named")
        return "aborted"

    return on_wire("reset", insecure, everything, lambda w: list(range(len(w.stream))), px.Reset, check)


# ---- frames ----


def seq_of(header):
    return struct.unpack_from("<I", header, 4)[0]


def resequence(header, payload, by):
    length, seq, total = struct.unpack_from("<IIQ", header)
    return px.frame_header(length, seq + by, total) + payload


def insert_at(index, make):
    """A frame of make(sequence) before the index-th; the later ones move up by one."""

    def fn(i, header, payload):
        here = make(seq_of(header)) if i == index else b""
        return here + resequence(header, payload, 1 if i >= index else 0)

    return fn


def before(index, what):
    return lambda i, header, payload: (what(header, payload) if i == index else b"") + header + payload


def frames(_insecure, _everything):
    count = 20
    stream = clean_stream(True, count)
    starts = boundaries(stream, True)
    last = len(starts) - 2  # the frame that announces the end
    cases = {
        "oversized": (before(2, lambda h, p: px.frame_header((256 << 10) + 1, seq_of(h), 0)), "bytes (at most"),
        "as large as can be said": (before(2, lambda h, p: px.frame_header(px.END - 2, seq_of(h), 0)), "bytes (at most"),
        "empty": (before(2, lambda h, p: px.frame_header(0, seq_of(h), 0)), "bytes (at most"),
        "repeated": (lambda i, h, p: (h + p) * (2 if i == 2 else 1), "expected frame"),
        "repeated later": (keep_and_repeat(1, 3), "expected frame"),
        "left out": (lambda i, h, p: b"" if i == 2 else h + p, "expected frame"),
        "of the alert": (before(2, lambda h, p: px.frame_header(px.END - 1, seq_of(h), 0)), "corrupt"),
        "of a corrupt header": (before(2, lambda h, p: bytes(len(h))), "header"),
        "out of the plan": (insert_at(last, lambda seq: px.frame(seq, b"\0" * 64)), "sent"),
        "the end too early": (lambda i, h, p: px.frame_header(px.END, seq_of(h), 0) if i == 2 else h + p, "ended its stream"),
    }

    def trial(name):
        fn, text = cases[name]
        job = Wire(px.Frames(fn), insecure=True, count=count).run()
        try:
            job.check_abort({10}, 0)
            demand(text in job.said[0], "does not say:", text)
        except Exception as e:
            e.args = (f"{e}{job.story()}",)
            raise
        return "aborted"

    return trials("frames", list(cases), trial)


def control(_insecure, _everything):
    """The same on the control link of rank 1, whose frames are its opening, INTENT, BEATs..."""
    cases = {
        "a message too long": (insert_at(1, lambda seq: px.frame(seq, struct.pack("<IB", 1 << 21, 2))), "2097152 bytes"),
        "a message of no type": (insert_at(1, lambda seq: px.frame(seq, struct.pack("<IB", 0, 99))), "type 99"),
        "a message out of turn": (insert_at(1, lambda seq: px.frame(seq, struct.pack("<IB", 0, 9))), "type 9"),
        "a malformed message": (insert_at(1, lambda seq: px.frame(seq, struct.pack("<IB", 1, 2) + b"\xff")), "INTENT"),
        "a frame left out": (lambda i, h, p: b"" if i == 1 else h + p, "expected frame"),
        "a corrupt frame": (lambda i, h, p: h + (p[:-1] + bytes([p[-1] ^ 4]) if i == 1 else p), "checksum"),
    }

    def trial(name):
        fn, text = cases[name]
        proxies = []

        def via(port):
            proxies.append(px.Proxy(port, px.Frames(fn)))
            return proxies[0].port

        job = Job(SIZE, insecure=True, options=["--join-timeout", "20s"], via={1: via}).run()
        proxies[0].close()
        try:
            # Rank 1 may hear of it, or find its link closed.
            demand(job.codes[1] in (8, 10) and job.output(1) == "old", "rank 1 ended with", job.codes[1])
            job.check_abort({10}, 1, survivors=(0, 2))
            demand(text in job.said[0], "does not say:", text)
        except Exception as e:
            e.args = (f"{e}{job.story()}",)
            raise
        return "aborted"

    return trials("control", list(cases), trial)


def link(insecure, everything):
    """A bit of any byte of rank 1's control link flipped, either way. While it joins, it dials again
    and the job succeeds; later all ranks end with 10, both ends of the link too, but a rank 1 that has
    voted and does not know the verdict ends with 8; after the verdict all end with 8, for rank 1 is lost
    to the others."""
    records = {False: px.Record(), True: px.Record()}

    def run(up, down, timeout="20s"):
        proxies = []

        def via(port):
            proxies.append(px.Proxy(port, up, down))
            return proxies[0].port

        try:
            return Job(SIZE, insecure=insecure, options=["--join-timeout", "20s", "--timeout", timeout], via={1: via}).run()
        finally:
            for p in proxies:
                p.close()

    run(records[False], records[True]).check_success()
    some = random.Random(SEED)
    # The TLS handshake of each side and HELLO; WELCOME as well. What follows depends on timing.
    joined = {}
    for down, record in records.items():
        at = boundaries(record.stream, insecure)
        joined[down] = at[1] if insecure else at[4]
    cases = [(down, 8 * byte + some.randrange(8)) for down in records for byte in range(len(records[down].stream))]
    if not everything:  # of both kinds, however long the messages are
        joining = [c for c in cases if c[1] // 8 < joined[c[0]]]
        cases = sorted(some.sample(joining, 5) + some.sample([c for c in cases if c not in set(joining)], 15))

    def trial(case):
        down, bit = case
        fault = px.Flip(bit)
        at = boundaries(records[down].stream, insecure)
        length = not insecure and any(bit // 8 in (s + 3, s + 4) for s in at)
        # Where a record seems longer, its receiver waits for the rest.
        waits = length and bit // 8 >= joined[down]
        job = run(None if down else fault, fault if down else None, timeout="8s" if waits else "20s")
        try:
            codes = set(job.codes.values())
            if not fault.hit or codes == {0}:
                job.check_success()
                return "succeeded"
            demand(bit // 8 >= joined[down], "a handshake was not tried again")
            if 8 in codes and codes <= {0, 8} and "the verdict" in "".join(job.said.values()):
                for r in range(SIZE):
                    demand(job.output(r) in ("old", "new"), "the output of rank", r, "is broken")
                return "after the verdict"
            # Rank 1 has voted and cannot know what the others decided: 8 (row 51), not 10.
            doubts = job.codes[1] == 8 and "before it gave the verdict" in job.said[1]
            known = {c for r, c in job.codes.items() if r != 1 or not doubts}
            demand(known == {10} or (length and codes <= {5, 8, 9}), "codes", codes)
            for r in range(SIZE):
                demand(job.output(r) == "old", "the output of rank", r, "was touched")
            demand(not job.temporary(), "left:", job.temporary())
            return "aborted"
        except Exception as e:
            e.args = (f"{e}{job.story()}",)
            raise

    return trials(f"link{' --insecure' if insecure else ''}", cases, trial, "succeeded")


class Unwelcome(px.Proxy):
    """The dialler sees the end of its first connection before the first word of rank 0, which sees that
    end when it has answered the second."""

    def faults_of(self, connection):
        proxy = self

        class End(px.At):
            def act(self, data, here, link):
                proxy.kept = link.src
                link.pair.clear()  # neither end learns of the other's any more
                link.dst.shutdown(socket.SHUT_RDWR)
                return None

        class Answer(px.At):
            def act(self, data, here, link):
                link.dst.sendall(data)
                proxy.kept.shutdown(socket.SHUT_RDWR)
                return b""

        down = {0: End, 1: Answer}.get(connection)
        return px.Fault(), down(0) if down else px.Fault()


def welcome(_insecure, _everything):
    """The rank dials again and is taken for a second one of its number, until rank 0 notices the end of
    the first link: then rank 1 is lost, and is not said to be started twice."""

    def trial(_case):
        proxies = []

        def via(port):
            proxies.append(Unwelcome(port))
            return proxies[0].port

        job = Job(SIZE, insecure=True, options=["--join-timeout", "12s"], via={1: via}).run()
        proxies[0].close()
        try:
            demand(proxies[0].connections > 1, "rank 1 did not dial again")
            demand(job.codes[1] == 5 and "joined already" not in job.said[1], "rank 1 ended with", job.codes[1])
            job.check_abort({8}, 1, survivors=(0, 2))
        except Exception as e:
            e.args = (f"{e}{job.story()}",)
            raise
        return "lost"

    return trials("welcome", [1], trial, "lost")


def keep_and_repeat(which, at):
    kept = []

    def fn(i, header, payload):
        if i == which:
            kept.append(header + payload)
        return (kept[0] if i == at else b"") + header + payload

    return fn


def main():
    p = argparse.ArgumentParser()
    words = "kill lanes verdict stopped pairs coordinator signals drip disk flip cut reset frames control link welcome"
    p.add_argument("what", choices=words.split())
    p.add_argument("words", nargs="*")
    p.add_argument("--insecure", action="store_true")
    p.add_argument("--all", action="store_true")
    o = p.parse_args()
    if o.words:
        return globals()[o.what](*o.words, o.all)
    return globals()[o.what](o.insecure, o.all)


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
