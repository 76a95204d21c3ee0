"""Jobs with a fault on one of their connections: the trials of trials.py that need no tool."""

import os
import random
import signal
import socket
import struct
import subprocess

import proxy as px
from job import COLLCTL, SEED, SIZE, Job, Wrong, demand, reserve_port, trials


# ---- one data connection ----


class Wire(Job):
    """A job whose ring goes from rank 0 to rank 1 through a proxy."""

    def __init__(self, up=None, down=None, insecure=False, count=20, timeout="20s", proxy=None):
        self.reserved, port = reserve_port()
        self.proxy = proxy(port) if proxy else px.Proxy(port, up, down)
        super().__init__(
            SIZE,
            count=count,
            insecure=insecure,
            options=["-a", "ring_chunked", "--streams", "1", "--timeout", timeout, "--json"],
            args={1: ["--listen", f"127.0.0.1:{port}", "--advertise", f"127.0.0.1:{self.proxy.port}", "--lanes", "tcp"]},
        )

    def run(self):
        try:
            return super().run()
        finally:
            self.proxy.close()
            self.reserved.close()


class Controlled(Job):
    """A job whose rank 1 reaches rank 0 through a proxy."""

    def __init__(self, *faults, proxy=px.Proxy, **args):
        def through(port):
            self.proxy = proxy(port, *faults)
            return self.proxy.port

        super().__init__(SIZE, via={1: through}, **args)

    def run(self):
        try:
            return super().run()
        finally:
            self.proxy.close()


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


def on_wire(name, insecure, everything, places, make, check, waits=lambda where, case: False, must=None):
    """waits: is this fault noticed when --timeout is over, and not before?"""
    count = 20
    where = Map(insecure, count)
    cases = places(where)
    if not everything:
        cases = sorted(random.Random(SEED).sample(cases, min(len(cases), 20)))

    def trial(case):
        fault = make(case)
        job = Wire(fault, insecure=insecure, count=count, timeout="8s" if waits(where, case) else "20s").run()
        demand(fault.hit, "the fault did not happen")
        return check(where, case, job)

    return trials(f"{name}{' --insecure' if insecure else ''}", cases, trial, must)


def dialled_again(where, byte, job):
    """A fault before the listener has admitted the connection: the next one meets no fault. A length
    that was made larger is waited for until --timeout."""
    if where.is_tls_length(byte) and any(job.codes.values()):
        job.check_abort({9}, job.culprit())
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
            job.check_abort({9, 10}, job.culprit())
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
        return went_back(job)

    return on_wire("reset", insecure, everything, lambda w: list(range(len(w.stream))), px.Reset, check, must="went back")


# ---- lanes that break while data move ----


class Breaking(px.Proxy):
    """Each of the first connections is reset, after a number of bytes of its own."""

    def __init__(self, target_port, places):
        self.resets = [px.Reset(at) for at in places]
        super().__init__(target_port)

    def faults_of(self, connection):
        if connection < len(self.resets):
            return self.resets[connection], px.Fault()
        return px.Fault(), px.Fault()


def reconnects(job):
    """How often the job went back; all ranks say the same."""
    said = {job.result(r)["reconnects"] for r in job.codes}
    demand(len(said) == 1, "the ranks say that they went back", said, "times")
    return said.pop()


def went_back(job):
    job.check_success()
    return "went back" if reconnects(job) else "not needed any more"


OPTIONS = [
    [], ["--order", "rank"], ["--wire", "lossless"], ["--threads", "2"], ["--stats"], ["--no-sync"], ["--trace", "trace.json"],
]  # fmt: skip


def breaks(insecure, everything):
    """A lane breaks again and again, in jobs of one window or many."""

    def trial(seed):
        draw = random.Random(SEED + seed)
        count, streams, n = draw.choice([20, 5000, 300000, 1500000]), draw.choice([1, 1, 2, 3]), draw.randint(1, 8)
        places = [draw.randrange(300, 4 * count + 1000) if draw.random() < 0.8 else draw.randrange(600) for _ in range(n)]
        if seed % 8 == 7:  # more often than a job goes back
            count, streams, n, places = 5000, 1, 9, [1500] * 9
        job = Wire(insecure=insecure, count=count, proxy=lambda port: Breaking(port, places))
        words = draw.choice(OPTIONS)
        algorithm = "direct" if "rank" in words else draw.choice(["ring_chunked", "direct"])
        job.options = ["-a", algorithm, "--timeout", "20s", "--json", "--streams", str(streams), *words]
        if draw.random() < 0.5:
            job.options += ["--memory", "8M"]
        job.run()
        if any(job.codes.values()):
            demand(n > 8, "failed after", n, "breaks")
            job.check_abort({8}, job.culprit())
            demand({job.result(r)["reconnects"] for r in job.codes} == {8}, "not after 8 times")
            return "aborted"
        return went_back(job)

    return trials(f"breaks{' --insecure' if insecure else ''}", list(range(2000 if everything else 16)), trial, "went back")


def drip(insecure, _everything):
    """Every byte arrives alone, on a data connection and on a control link, both ways."""

    def trial(where):
        if where == "data":
            job = Wire(px.Drip(), px.Drip(), insecure=insecure, count=2000)
        else:
            job = Controlled(px.Drip(), px.Drip(), insecure=insecure)
        job.run().check_success()
        return "right"

    return trials(f"drip{' --insecure' if insecure else ''}", ["data", "control"], trial, "right")


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


def keep_and_repeat(which, at):
    kept = []

    def fn(i, header, payload):
        if i == which:
            kept.append(header + payload)
        return (kept[0] if i == at else b"") + header + payload

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
        job.check_abort({10}, 0)
        demand(text in job.said[0], "does not say:", text)
        return "aborted"

    return trials("frames", list(cases), trial)


# ---- one control link ----


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
        job = Controlled(px.Frames(fn), insecure=True, options=["--join-timeout", "20s"]).run()
        # Rank 1 may hear of it, or find its link closed.
        demand(job.codes[1] in (8, 10) and job.output(1) == "old", "rank 1 ended with", job.codes[1])
        job.check_abort({10}, 1, survivors=(0, 2))
        demand(text in job.said[0], "does not say:", text)
        return "aborted"

    return trials("control", list(cases), trial)


def link(insecure, everything):
    """A bit of any byte of rank 1's control link flipped, either way. While it joins, it dials again
    and the job succeeds; later all ranks end with 10, both ends of the link too, but a rank 1 that has
    voted and does not know the verdict ends with 8; after the verdict all end with 8, for rank 1 is lost
    to the others."""
    records = {False: px.Record(), True: px.Record()}

    def run(*faults, timeout="20s"):
        return Controlled(*faults, insecure=insecure, options=["--join-timeout", "20s", "--timeout", timeout]).run()

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

    return trials(f"link{' --insecure' if insecure else ''}", cases, trial, "succeeded")


def asks(insecure, everything):
    """The control link of rank 1 is reset, cut, or has a bit flipped, about its vote: it asks rank 0 for the verdict.
    All have the new file and end with 0, or all have the old one and none does."""
    near = 200  # bytes before the end of the link: the vote, and all that follows
    some = random.Random(f"{SEED} {os.environ.get('TRIALS_SEED', '')}")
    records = {False: px.Record(), True: px.Record()}

    def run(*faults):
        return Controlled(*faults, insecure=insecure, options=["--join-timeout", "20s", "--timeout", "10s"]).run()

    run(records[False], records[True]).check_success()
    kinds = {"flip": lambda byte: px.Flip(8 * byte + some.randrange(8)), "cut": px.Cut, "reset": px.Reset}
    cases = []
    for _ in range(500 if everything else 25):
        down = some.random() < 0.5
        cases.append((some.choice(list(kinds)), down, len(records[down].stream) - some.randrange(near)))

    def trial(case):
        kind, down, byte = case
        fault = kinds[kind](byte)
        job = run(None if down else fault, fault if down else None)
        states, codes = {job.output(r) for r in range(SIZE)}, set(job.codes.values())
        demand(states in ({"old"}, {"new"}), "outputs:", *states)
        demand((codes == {0}) if states == {"new"} else 0 not in codes, states, "and the codes", codes)
        demand(not job.temporary(), "left:", job.temporary())
        return ("committed" if states == {"new"} else "aborted") if fault.hit else "no fault"

    return trials(f"asks{' --insecure' if insecure else ''}", cases, trial, "committed")


class Unanswered(Controlled):
    """Rank 1 does not get the verdict, and its link is cut. Rank 0 stands still from then on, so it does not answer."""

    def __init__(self, at, certificates):
        job = self
        self.certificates = certificates

        class Cut(px.Cut):
            def act(self, data, here, link):
                job.ranks[0].send_signal(signal.SIGSTOP)
                return super().act(data, here, link)

        down = Cut(at) if at else px.Record()
        super().__init__(None, down, options=["--join-timeout", "20s", "--timeout", "20s"], args={1: ["-v"]})
        self.down = down
        for words in (["init", "pki"], *(["issue", "pki", "--rank", str(r)] for r in range(SIZE))) if certificates else ():
            subprocess.run([COLLCTL, "-q", "ca", *words], cwd=self.dir.name, check=True, stdout=subprocess.DEVNULL)

    def environment(self, r):
        env = super().environment(r)
        if self.certificates:
            del env["COLLCTL_SECRET"]
            env |= {f"COLLCTL_TLS_{k}": self.path(f"pki/{f}") for k, f in
                    (("CERT", f"rank-{r}.pem"), ("KEY", f"rank-{r}.key"), ("CA", "ca.pem"))}  # fmt: skip
        return env

    def asks(self):
        """Wait until rank 1 asks. False: it has ended."""
        while self.ranks[1].poll() is None:
            with open(self.path("err.1")) as f:
                if "asking it for the verdict" in f.read():
                    return True
        return False


def unanswered(_insecure, _everything):
    """Rank 1 asks for the verdict, and rank 0 does not answer, until something happens."""

    def lost(job, r, who, words):
        demand(job.codes[r] == 8 and f"rank {who}: lost {words}" in job.said[r], "rank", r, "ended with", job.codes[r])

    def goes_on(job):
        job.ranks[0].send_signal(signal.SIGCONT)
        job.wait().check_success()

    def signalled(job):
        job.ranks[1].send_signal(signal.SIGTERM)
        job.wait([1])
        lost(job, 1, 0, "before it gave the verdict")
        demand(job.output(1) == "old", "rank 1 has no verdict")
        job.ranks[0].send_signal(signal.SIGCONT)
        job.wait()
        for r in (0, 2):  # the verdict was given
            lost(job, r, 1, "after the verdict")
            demand(job.output(r) == "new", "rank", r, "has its old output")

    def killed(job):
        job.ranks[0].kill()
        job.wait()
        for r in (1, 2):  # it had told rank 2, or not
            new = job.output(r) == "new"
            lost(job, r, 0, "after the verdict" if new else "before it gave the verdict")
        demand(job.output(1) == "old", "rank 1 has no verdict")

    cases = {"goes on": goes_on, "goes on, certificates": goes_on, "a signal": signalled, "rank 0 is killed": killed}

    def trial(name):
        certificates = "certificates" in name
        for _ in range(5):  # a job that takes longer has more beats before its verdict: then the cut comes too early
            clean = Unanswered(None, certificates)
            clean.run().check_success()
            # The last three records are the verdict, the outcome and the end. Signatures differ by a few bytes.
            job = Unanswered(boundaries(clean.down.stream, False)[-4] + 8, certificates)
            try:
                if job.start().asks():
                    cases[name](job)
                    return name
            finally:
                job.kill()
                job.proxy.close()
        raise Wrong("rank 1 does not ask")

    return trials("unanswered", list(cases), trial)


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
        job = Controlled(proxy=Unwelcome, insecure=True, options=["--join-timeout", "12s"]).run()
        demand(job.proxy.connections > 1, "rank 1 did not dial again")
        demand(job.codes[1] == 5 and "joined already" not in job.said[1], "rank 1 ended with", job.codes[1])
        job.check_abort({8}, 1, survivors=(0, 2))
        return "lost"

    return trials("welcome", [1], trial, "lost")
