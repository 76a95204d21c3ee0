"""What a seed draws: a job with its files, and what numpy makes of them."""

import json
import os
import random
import shutil
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import files as fl
import oracle
from job import COLLCTL, OLD

REDUCTIONS = ("allreduce", "reduce", "reduce-scatter", "scan", "exscan")
ROOTED = ("reduce", "broadcast", "scatter", "gather")
SPLIT = ("reduce-scatter", "scatter", "alltoall")  # along axis 0
JOINED = ("gather", "allgather")  # rows differ between ranks
NO_OUTPUT = ("barrier", "verify", "exchange")
NO_LANES = ("barrier", "verify")  # without --lanes: their lanes are never in memory
KINDS = REDUCTIONS + ("broadcast", "scatter", "gather", "allgather", "alltoall") + NO_OUTPUT
COMMON = ("allreduce", "broadcast", "gather", "alltoall")  # drawn twice as often

SET = {"set": "", "safetensors": ".safetensors", "npz": ".npz"}
TENSORS = (("a", "f4"), ("b.w", "f2"), ("b.x", "i8"), ("c", "f8"))


def algorithms():
    """{collective: [its algorithms]}"""
    rows = json.loads(subprocess.run([COLLCTL, "algorithms", "--json"], stdout=subprocess.PIPE, check=True).stdout)
    table = {}
    for row in rows:
        if not row["algorithm"].startswith("cuda_"):  # they need a device
            table.setdefault(row["collective"], []).append(row["algorithm"])
    return table


class Case:
    """A job: its shape, its command lines and its files in @dir."""

    def __init__(self, seed, table, kind=None):
        rng = self.rng = random.Random(seed)
        self.seed = seed
        self.size = rng.choice((2, 2, 3, 3, 4, 5, 6, 7, 8))
        self.kind = kind or rng.choice(KINDS + COMMON)
        self.algorithm = rng.choice(("auto", *table.get(self.kind, ())))
        self.root = rng.randrange(self.size) if self.kind in ROOTED else 0
        self.insecure = rng.random() < 0.4
        self.meet = rng.choice(("inherit", "inherit", "hostfile", "store", "run"))
        self.form = self.draw_form()
        self.draw_data()
        self.in_place = self.form == "npy" and self.kind in ("allreduce", "scan", "alltoall", "allgather") and rng.random() < 0.2
        self.fresh = not self.in_place and rng.random() < 0.3  # no output from before
        self.options = self.draw_options()

    # ---- drawing ----

    def draw_form(self):
        x = self.rng.random()
        if self.kind == "allreduce" and x < 0.3:
            return self.rng.choice(tuple(SET))
        if self.kind in ("allreduce", "broadcast", "allgather") and x < 0.4:
            return "each"
        if self.kind == "broadcast" and x < 0.6:
            return "file"
        if self.kind == "verify" and x < 0.5:
            return "file"
        if self.kind == "barrier":
            return "npy"
        return "raw" if x > 0.85 and self.kind not in JOINED + SPLIT else "npy"

    def draw_data(self):
        rng, size = self.rng, self.size
        self.op, self.dtype = "sum", rng.choice(list(oracle.DTYPES))
        if self.kind in REDUCTIONS:
            self.op = rng.choice([op for op in oracle.OPS if oracle.defined(op, self.dtype)])
            if self.form in SET:
                self.op = rng.choice(("sum", "min", "max"))
            if self.kind in ("scan", "exscan") and self.op == "avg":
                self.op = "sum"
            if self.kind == "exscan" and (self.dtype.startswith("f8") or self.dtype == "bool"):
                self.op = rng.choice(("sum", "prod"))  # whose identity the oracle knows
        self.inputs = 1
        if self.form == "npy" and self.kind in ("allreduce", "reduce") and size <= 5 and rng.random() < 0.2:
            self.inputs = 2
        if self.form == "each":
            self.inputs = rng.choice((1, 2, 3))
        tail = rng.choice(((), (), (), (3,), (2, 5), (0,)))
        rows = rng.choice((0, 1, 2, 7, 13, 100, 1000, 1000, 20000))
        if rows > 1000 and tail:
            rows = 1000
        self.shape = (rows, *tail)
        if rng.random() < 0.07 and self.kind not in SPLIT + JOINED:
            self.shape = ()
        self.counts = None
        if self.kind in SPLIT and rng.random() < 0.4:
            cuts = sorted(rng.randrange(rows + 1) for _ in range(size - 1))
            self.counts = [b - a for a, b in zip([0, *cuts], [*cuts, rows])]
        self.rows = [rng.choice((0, 1, 5, rows)) for _ in range(size)] if self.kind in JOINED else None
        self.order = "rank" if self.kind in REDUCTIONS and self.algorithm == "auto" and rng.random() < 0.15 else "any"
        self.steps = max(c for c in range(4) if self.size % (1 << c) == 0)
        if self.kind == "exchange" and not self.steps:
            self.kind, self.algorithm, self.form = "barrier", "auto", "npy"

    def draw_options(self):
        rng = self.rng
        o = ["-a", self.algorithm] if self.kind != "verify" else []
        if self.kind in REDUCTIONS:
            o += ["--op", self.op, "--order", self.order]
            if self.kind == "allreduce" and self.algorithm in ("ring", "census"):
                o += ["--allow-divergent"]
        if self.kind in ROOTED:
            o += ["--root", str(self.root)]
        if self.kind == "exchange":
            o += ["--steps", str(self.steps)]
        if self.counts:
            o += ["--counts", ",".join(map(str, self.counts))]
        if self.form == "each":
            o += ["--each"]
        elif self.form == "file":
            o += ["--raw-file"]
        elif self.form == "raw":
            o += ["--dtype", self.dtype, "--shape", self.shape_text()]
        if self.form in ("npy", "each") and self.dtype in oracle.NAMELESS and self.kind not in ("barrier",):
            o += ["--dtype", self.dtype]
        if self.kind != "barrier" and rng.random() < 0.3:
            o += ["--memory", rng.choice(("4K", "16K", "64K", "1M"))]
        if self.kind not in ("barrier", "verify") and rng.random() < 0.25:
            o += ["--streams", str(rng.choice((1, 2, 3)))]
        if self.kind not in NO_OUTPUT and rng.random() < 0.6:
            o += ["--no-sync"]
        if self.kind not in NO_LANES and rng.random() < 0.3:
            o += ["--lanes", "tcp"]
        return o

    def shape_text(self):
        return ",".join(map(str, self.shape)) or "1"

    # ---- files ----

    def suffix(self):
        return {"npy": ".npy", "raw": ".bin", "file": ".dat", "each": ".npy", **SET}[self.form]

    def input(self, r, i=0):
        """Where the i-th input of a rank is; with --each its base name is the output's."""
        if self.form == "each":
            return os.path.join(self.dir, f"in.{r}", f"x{i}.npy")
        return os.path.join(self.dir, f"in.{r}.{i}{self.suffix()}")

    def target(self, r):
        if self.in_place:
            return self.input(r)
        return os.path.join(self.dir, f"out.{r}" + ("" if self.form == "each" else self.suffix()))

    def has_input(self, r):
        return self.kind != "barrier" and (self.kind not in ("broadcast", "scatter") or r == self.root)

    def has_output(self, r):
        return self.kind not in NO_OUTPUT and (self.kind not in ("reduce", "gather") or r == self.root)

    def arguments(self, r):
        """What follows the command's name on a rank, but for where it meets the others."""
        a = [self.input(r, i) for i in range(self.inputs)] if self.has_input(r) else []
        if self.kind not in NO_OUTPUT:
            a += ["-o", self.target(r)]
        return a + self.options

    def data(self, r, i=0, salt=0):
        """The i-th input of a rank, as what it is saved from; with a salt, other values."""
        seed = (self.seed % (1 << 40)) * 1000 + r * 10 + i + 500 * salt
        if self.kind == "verify":
            seed = self.seed % (1 << 40) + salt
        if self.form == "file":
            return np.random.default_rng(seed).bytes(1 + 37 * int(np.prod(self.shape)))
        if self.form in SET:
            return {n: fl.some(d, (5, 200), [seed, k]) for k, (n, d) in enumerate(TENSORS)}
        shape = self.shape if self.rows is None else (self.rows[r], *self.shape[1:])
        return oracle.make(self.dtype, (1,) if self.form == "raw" and not shape else shape, seed)

    def save(self, path, x):
        if self.form == "file":
            with open(path, "wb") as f:
                f.write(x)
        elif self.form == "npz":
            np.savez(path, **x)
        elif self.form == "safetensors":
            fl.save_safetensors(path, x)
        elif self.form == "set":
            fl.save_set(path, shards(x))
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            oracle.save(path, x, self.dtype)

    def make(self, directory):
        """All files as they are before a run."""
        self.dir = directory
        for r in range(self.size):
            for i in range(self.inputs if self.has_input(r) else 0):
                shutil.rmtree(self.input(r, i), ignore_errors=True)
                self.save(self.input(r, i), self.data(r, i))
        self.old = {r: {p: self.before(p) for p in self.paths(r)} for r in range(self.size)}
        for files in self.old.values():
            for path, old in files.items():
                os.makedirs(os.path.dirname(path), exist_ok=True)
                if old is None:
                    if os.path.exists(path):
                        os.unlink(path)
                elif not self.in_place:
                    with open(path, "wb") as f:
                        f.write(old)
        self.worlds = [self.results()]

    def before(self, path):
        if self.in_place:
            with open(path, "rb") as f:
                return f.read()
        return None if self.fresh else OLD

    def paths(self, r):
        """The files that a rank's output is."""
        if self.kind in NO_OUTPUT:
            return []
        at = self.target(r)
        if self.form == "each":
            return [os.path.join(at, f"x{i}.npy") for i in range(self.inputs)]
        if self.form == "set":
            return [os.path.join(at, n) for n in (*shards(self.data(r, 0)), fl.INDEX)]
        return [at]

    # ---- the oracle ----

    def results(self, changed=None, other=None):
        """{rank: {path: what it must hold}}; rank `changed` has `other` as its first input."""

        def one(r, i):
            return other if r == changed and i == 0 else self.data(r, i)

        def inputs(i):
            return [one(r, i) if self.has_input(r) else None for r in range(self.size)]

        out = {r: {} for r in range(self.size)}
        if self.kind in NO_OUTPUT:
            return out
        if self.form in SET:
            ins = inputs(0)
            total = {n: reduction(self.op, [x[n] for x in ins], self.order) for n in ins[0]}
            for r in out:
                if self.form == "set":
                    names = {os.path.join(self.target(r), n): t for n, t in shards(total).items()}
                    out[r] = {**names, os.path.join(self.target(r), fl.INDEX): {n: f for f, t in shards(total).items() for n in t}}
                else:
                    out[r] = {self.target(r): total}
            return out
        if self.form == "each":
            for i in range(self.inputs):
                for r, x in enumerate(self.compute(inputs(i))):
                    out[r][self.paths(r)[i]] = x
            return out
        ins = inputs(0)
        if self.inputs > 1:
            ins = [x for i in range(self.inputs) for x in inputs(i)]
        for r, x in enumerate(self.compute(ins)):
            if x is not None:
                out[r][self.target(r)] = x
        return out

    def compute(self, ins):
        if self.form == "file":
            return [ins[self.root]] * self.size
        counts = [self.counts] * self.size
        if len(ins) > self.size:  # several of each rank
            total = oracle.reduce(self.op, ins, self.dtype, oracle.accumulator(self.dtype, self.order))
            return [total if self.has_output(r) else None for r in range(self.size)]
        want = oracle.expected(self.kind, self.size, ins, self.dtype, self.root, self.op, counts, self.order)
        if self.kind in ("scan", "exscan") and self.op in ("land", "lor", "lxor"):
            want = [(x != 0).astype(x.dtype) for x in want]  # numpy leaves one operand alone as it is
        return want

    def holds(self, path, want):
        """Is the file what it must be?"""
        try:
            if self.form == "file":
                with open(path, "rb") as f:
                    return f.read() == want
            if self.form == "set" and path.endswith(fl.INDEX):
                with open(path) as f:
                    return json.load(f)["weight_map"] == want
            if self.form in SET:
                got = fl.load_safetensors(path) if self.form != "npz" else fl.load(path)
                return set(got) == set(want) and all(same(got[n], want[n]) for n in want)
            got, _ = oracle.load(path, self.dtype)
            if self.form == "raw":
                got = got.reshape(want.shape)
            return same(got, want)
        except Exception:
            return False

    def read(self, path):
        try:
            with open(path, "rb") as f:
                return f.read()
        except FileNotFoundError:
            return None

    def states(self, r, path):
        """Which of "old" and the numbers of worlds a file is of."""
        content = self.read(path)
        found = {"old"} if content == self.old[r][path] else set()
        for w, world in enumerate(self.worlds):
            want = world[r].get(path)
            if want is None and content == self.old[r][path]:
                found.add(w)  # this rank has no part of the result
            elif want is not None and content is not None and self.holds(path, want):
                found.add(w)
        return found

    def input_may_change(self):
        """May another change the input? Not if it is an output, too."""
        return not self.in_place

    def may_stay(self, name, failed):
        return False

    def strangers(self):
        return []

    def temporary(self):
        """Hidden files below the folder."""
        return [
            os.path.relpath(os.path.join(d, n), self.dir) for d, _, names in os.walk(self.dir) for n in names if n[0] == "."
        ]


def shards(tensors):
    return {"0.safetensors": {n: tensors[n] for n in ("a", "b.x")}, "1.safetensors": {n: tensors[n] for n in ("b.w", "c")}}


NAMES = {np.dtype(d): n for n, d in oracle.DTYPES.items() if n not in oracle.NAMELESS}


def reduction(op, arrays, order):
    name = NAMES[arrays[0].dtype]
    return oracle.reduce(op, arrays, name, oracle.accumulator(name, order))


def same(got, want):
    want = np.asarray(want)
    return got.dtype == want.dtype and got.shape == want.shape and got.tobytes() == want.tobytes()
