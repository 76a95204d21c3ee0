"""Broadcasts of files and folders to ranks that have something already: old versions, and parts of jobs that were
ended. Gathers of folders to a root that has old versions of them."""

import os
import random
import re
import shutil

import numpy as np

from cases import Case
from job import OLD

SIZES = (0, 1, 5000, 700_000, 1 << 20, 2_500_000, (3 << 20) + 5)
TREE = ("a", "b/c", "b/d", "e/f/g")
MANY = tuple(f"many/{i}" for i in range(80))  # more than a sink gives files of their own
LINKS = {"l": "a", "e/up": "../b/c", "m": "nowhere"}
PART, STALE = ".collctl-part", ".collctl-abcdefghijkl"
# Options that choose files, and which of TREE, MANY and LINKS they choose.
CHOICES = (
    (("--exclude", "d"), lambda n: n != "b/d"),
    (("--exclude", "/e/", "--exclude", "/many/1*"), lambda n: not n.startswith(("e/", "many/1"))),
    (("--include", "[ae]"), lambda n: n == "a" or n.startswith("e/")),
    (("--include", "?", "--exclude", "e"), lambda n: not n.startswith(("e/", "many/")) or re.fullmatch("many/.", n)),
)
GATHERS = 0.35  # of the jobs of copies


class Copies(Case):
    """Copy k: of a broadcast, rank k's, of what the root has; of a gather, the root's, of what rank k has."""

    def __init__(self, seed, table):
        super().__init__(seed, table, "gather" if random.Random(seed ^ 0x6A73).random() < GATHERS else "broadcast")

    def gathers(self):
        return self.kind == "gather"

    def source(self, k):
        return k if self.gathers() else self.root

    def writer(self, k):
        return self.root if self.gathers() else k

    def top(self, k):
        """Where copy k is."""
        return os.path.join(self.target(self.root), str(k)) if self.gathers() else self.target(k)

    def copies(self, r):
        """The copies that rank r writes."""
        return [k for k in range(self.size) if self.writer(k) == r]

    # ---- drawing ----

    def draw_form(self):
        return "tree" if self.gathers() else self.rng.choice(("file", "file", "tree"))

    def draw_data(self):
        rng = self.rng
        self.inputs = 1
        self.op, self.dtype, self.counts, self.rows, self.shape, self.order = "sum", "u8", None, None, (1,), "any"
        # The files of each rank that has some.
        self.lengths = {r: self.draw_files() for r in range(self.size) if self.has_input(r)}
        self.delta = not self.gathers() and rng.random() < 0.3
        self.update = not self.delta and rng.random() < 0.5
        self.resume = not self.gathers() and rng.random() < 0.7
        # What there is of each file of each copy.
        kinds = ("none", "text", "equal", "touched", "base", "longer", "cut")
        self.olds = {k: {n: rng.choice(kinds) for n in self.names(k)} for k in range(self.size)}
        kinds = ("none", "begun", "begun", "damaged", "whole", "longer", "other", "hole")
        some = 0.6 if self.resume else 0.1
        self.parts = {k: {n: rng.choice(kinds) if rng.random() < some else "none" for n in self.names(k)} for k in range(self.size)}
        # The targets of symbolic links, and what each copy has in their places.
        self.links = LINKS if self.form == "tree" and rng.random() < 0.5 else {}
        self.old_links = {k: {n: rng.choice((None, to, "other", "../a")) for n, to in self.links.items()} for k in range(self.size)}
        self.choice, self.chooses = rng.choice(CHOICES) if self.form == "tree" and rng.random() < 0.3 else ((), lambda n: True)
        # Whose files another job has left unfinished.
        self.stale = {k: [n for n in self.names(k) if rng.random() < 0.1] for k in range(self.size)}
        self.own = not self.gathers() and self.meet != "run" and rng.random() < 0.5  # the root's output is its input

    def draw_files(self):
        """{name: bytes}"""
        rng = self.rng
        names = TREE[: rng.randrange(0 if self.gathers() else 1, len(TREE) + 1)] if self.form == "tree" else ("",)
        many = MANY if self.form == "tree" and rng.random() < 0.3 else ()
        return {n: rng.choice(SIZES) for n in names} | {n: rng.choice(SIZES[:3]) for n in many}

    def names(self, k):
        return self.lengths[self.source(k)]

    def draw_options(self):
        rng = self.rng
        o = super().draw_options() + ([] if self.form == "file" else ["--raw-file"])
        o += ["--links"] if self.links else []
        o += self.choice
        for name, given in (("--update", self.update), ("--delta", self.delta), ("--resume", self.resume)):
            o += [name] if given else []
            o += ["base"] if given and name == "--delta" else []
        if (self.update or self.delta) and rng.random() < 0.4:
            o += ["--checksum"]
        if rng.random() < 0.2:
            o += ["--no-digest-cache"]
        return o

    def arguments(self, r):
        words = super().arguments(r)
        return [os.path.join(w, "{rank}/") if self.gathers() and w == self.target(r) else w for w in words]

    # ---- files ----

    def suffix(self):
        return ".dat" if self.form == "file" else ".d"

    def target(self, r):
        if self.gathers():
            return super().target(self.root)
        return self.input(r) if self.own and r == self.root else super().target(r)

    def at(self, top, name):
        return os.path.join(top, name) if name else top

    def paths(self, r):
        return [self.at(self.top(k), n) for k in self.copies(r) for n in (*self.names(k), *self.links)]

    def hidden(self, k, name, end):
        folder, base = os.path.split(self.at(self.top(k), name))
        return os.path.join(folder, f".{base}{end}")

    def part(self, k, name):
        return self.hidden(k, name, PART)

    def data(self, r, i=0, salt=0):
        seed = [self.seed % (1 << 40), salt] + [r] * self.gathers()
        files = {n: np.random.default_rng([*seed, j]).bytes(size) for j, (n, size) in enumerate(self.lengths[r].items())}
        return files if self.form == "tree" else files[""]

    def contents(self, k, salt=0):
        """{name: bytes} of what becomes copy k."""
        x = self.data(self.source(k), 0, salt)
        return x if self.form == "tree" else {"": x}

    def base(self, x):
        """The old version of a file: some bytes differ."""
        x = bytearray(x)
        for i in range(0, len(x), 1_300_000):
            x[i] ^= 0x55
        return bytes(x)

    def old_of(self, k, name, x):
        made = {
            "none": None, "text": OLD, "equal": x, "touched": x, "base": self.base(x), "longer": x + b"more",
            "cut": x[: len(x) // 2],
        }  # fmt: skip
        return x if self.own and k == self.root else made[self.olds[k][name]]

    def part_of(self, k, name, x):
        begun = x[: len(x) * 3 // 4]
        made = {
            "none": None, "begun": begun, "damaged": begun[:100] + b"!" + begun[101:], "whole": x, "longer": x + bytes(5000),
            "other": bytes(reversed(x)), "hole": bytes(len(x) // 2) + x[len(x) // 2 :],
        }  # fmt: skip
        return made[self.parts[k][name]]

    def make(self, directory):
        self.dir = directory
        for name in os.listdir(directory):
            path = os.path.join(directory, name)
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
        self.old = {r: {} for r in range(self.size)}
        self.kept = {}  # hidden files, of which a job leaves those that are not its own
        for r in self.lengths:
            self.make_input(r)
        for k in range(self.size):
            for n, x in self.contents(k).items():
                self.make_copy(k, n, x)
            for n, to in self.links.items():
                self.make_link(k, n, to)
        self.worlds = [self.results()]
        self.known = set(self.files())

    def make_input(self, r):
        if self.form == "tree":
            os.makedirs(self.input(r))
        for n, x in self.contents(r if self.gathers() else self.root).items():
            self.put(self.at(self.input(r), n), x)
            if self.delta:
                self.put(self.at(os.path.join(self.dir, "base"), n), self.base(x))
        for n, to in self.links.items():
            self.put_link(self.at(self.input(r), n), to)

    def make_copy(self, k, name, x):
        path, source = self.at(self.top(k), name), self.at(self.input(self.source(k)), name)
        old, part = self.old_of(k, name, x), self.part_of(k, name, x)
        self.old[self.writer(k)][path] = old
        if old is not None and path != source:
            self.put(path, old)
        if self.olds[k][name] == "equal" and path != source:
            shutil.copystat(source, path)
        if part is not None:
            self.keep(self.part(k, name), part)
        if name in self.stale[k]:
            self.keep(self.hidden(k, name, STALE), x[:100])

    def keep(self, path, x):
        self.put(path, x)
        os.chmod(path, 0o600)
        self.kept[path] = x

    def make_link(self, k, name, to):
        path = self.at(self.top(k), name)
        own = self.own and k == self.root
        old = to if own else self.old_links[k][name]
        self.old[self.writer(k)][path] = old and self.link(old)
        if old and not own:
            self.put_link(path, old)

    def link(self, to):
        """What stands for a symbolic link as the contents of a file do for a file."""
        return b"-> " + to.encode()

    def put_link(self, path, to):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink(to, path)

    def put(self, path, x):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(x)

    def go_on(self):
        """Before the job is run again with what it has left."""
        for name in self.temporary():
            if not name.endswith(PART):
                os.unlink(os.path.join(self.dir, name))
        for files in self.old.values():
            for path in files:
                files[path] = self.read(path)
        self.known |= set(self.files())

    def read(self, path):
        return self.link(os.readlink(path)) if os.path.islink(path) else super().read(path)

    def files(self):
        return [os.path.join(d, n) for d, _, names in os.walk(self.dir) for n in names]

    # ---- what must hold ----

    def results(self, changed=None, other=None):
        """If another rank or an option leaves out a file, the old one stays."""
        out = {r: {} for r in range(self.size)}
        for k in range(self.size):
            x = self.contents(k)
            if changed is not None and self.source(k) == changed:
                x = other if self.form == "tree" else {"": other}
            x.update({n: self.link(to) for n, to in self.links.items()})
            out[self.writer(k)].update({self.at(self.top(k), n): x[n] if self.chooses(n) else None for n in x})
        return out

    def holds(self, path, want):
        return self.read(path) == want

    def input_may_change(self):
        return not self.own and all(self.lengths.values())

    def save(self, path, x):
        """A changed input, which a fault draws."""
        for n, bytes_ in (x if self.form == "tree" else {"": x}).items():
            self.put(self.at(path, n), bytes_)

    def may_stay(self, name, failed):
        """May the hidden file be there at the end? @failed: the ranks that have failed."""
        path = os.path.join(self.dir, name)
        parts = {self.part(k, n): self.writer(k) for k in range(self.size) for n in self.names(k) if self.chooses(n)}
        if self.resume and path in parts:
            return parts[path] in failed
        return path in self.kept and self.read(path) == self.kept[path]

    def strangers(self):
        """Files that no rank was to write."""
        outputs = {p for r in range(self.size) for p in self.paths(r)}
        names = [os.path.relpath(p, self.dir) for p in self.files() if p not in self.known | outputs]
        return [n for n in names if os.path.basename(n)[0] != "." and not n.startswith(("hosts.", "report.", "other"))]
