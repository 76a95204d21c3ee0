#!/usr/bin/env python3
"""Averaging checkpoints: collctl against numpy + mpi4py, and against cp.

  tests/bench/checkpoint.py [--mib 2048] [--rounds 3] [--dir DIR] [--by tensor|shard]
                            [--only checkpoint|small] [--peers]

checkpoint: 4 ranks, each a sharded bf16 checkpoint of --mib MiB (5 shards of different sizes), the
average of all written by each: `allreduce --op avg`, in memory, over TLS and --insecure, synced and not. The
peers: mpi_checkpoint.py over TCP and over shared memory, and four `cp` at once, which is reading and
writing alone. Each command begins with nothing left to be written back and no old output; the
inputs are in the page cache as far as it holds them. Rounds A B C ... A B C ..., after one that is
not counted, whose results are checked; medians of wall time. A rank's peak counts from the one of
this script, which starts it: less than some 40 MiB can't be told.

small: 10,000 tensors of 4 KiB against one of the same bytes, target: at most 1.5 times as long.

DIR (default: build/) needs about 9 times --mib.
"""

import argparse
import filecmp
import json
import multiprocessing
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

from common import COLLCTL, ROOT, forget_settings, machine, output

PEER = f"{ROOT}/tests/bench/mpi_checkpoint.py"
OLD = os.environ.get("COLLCTL_OLD")
SIZE = 4
LIMIT = 1200  # seconds for one command
PEAK = 300  # MiB, the target for a rank
SMALL = 10000  # tensors of 4 KiB
SMALL_RATIO = 1.5
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(SIZE)]
TCP = ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"]
WIDTHS = {"F32": 4, "BF16": 2}
HERTZ = os.sysconf("SC_CLK_TCK")


# ---- checkpoints ----

def layout(mib):
    """Names and shapes of a language model of about @mib MiB in bf16."""
    scale = (mib / 2099) ** 0.5
    hidden = max(64, 64 * round(32 * scale))
    inner, vocab = hidden * 11 // 4, max(64, round(32000 * scale))
    tensors = [("model.embed_tokens.weight", (vocab, hidden))]
    for i in range(22):
        p = f"model.layers.{i}."
        tensors += [
            (p + "self_attn.q_proj.weight", (hidden, hidden)),
            (p + "self_attn.k_proj.weight", (hidden // 8, hidden)),
            (p + "self_attn.v_proj.weight", (hidden // 8, hidden)),
            (p + "self_attn.o_proj.weight", (hidden, hidden)),
            (p + "mlp.gate_proj.weight", (inner, hidden)),
            (p + "mlp.up_proj.weight", (inner, hidden)),
            (p + "mlp.down_proj.weight", (hidden, inner)),
            (p + "input_layernorm.weight", (hidden,)),
            (p + "post_attention_layernorm.weight", (hidden,)),
        ]
    return tensors + [("model.norm.weight", (hidden,)), ("lm_head.weight", (vocab, hidden))]


def into_shards(tensors):
    """Five shards of about 30, 25, 20, 15 and 10 % of the bytes."""
    ends = np.cumsum([0.30, 0.25, 0.20, 0.15, 0.10]) * sum(int(np.prod(s)) for _, s in tensors)
    shards, done = [[] for _ in ends], 0
    for name, shape in tensors:
        shards[int(np.searchsorted(ends, done, side="right"))].append((name, shape))
        done += int(np.prod(shape))
    return [s for s in shards if s]


def write_safetensors(path, dtype, tensors, values):
    """@values(n): n elements of 2 or 4 bytes."""
    width, at, entries = WIDTHS[dtype], 0, {}
    tensors = sorted(tensors)
    for name, shape in tensors:
        end = at + width * int(np.prod(shape))
        entries[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps({"__metadata__": {"format": "pt"}, **entries}, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for _, shape in tensors:
            values(int(np.prod(shape))).tofile(f)
    return at


def random_values(dtype, seed):
    """Finite, of magnitude 2^-15 to 1, of both signs."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 1 << 32, 1 << 22, dtype=np.uint32)
    bits = (bits & 0x807fffff) | (112 + (bits >> 23 & 15)) << 23
    block = bits if dtype == "F32" else (bits >> 16).astype(np.uint16)

    def some(n):
        at = int(rng.integers(block.size))
        part = block[at:at + n]
        return part if part.size == n else np.resize(np.roll(block, -at), n)

    return some


def make_checkpoints(folder, mib):
    shards = into_shards(layout(mib))
    for r in range(SIZE):
        os.mkdir(f"{folder}/in.{r}")
        values, total, where = random_values("BF16", r), 0, {}
        for i, shard in enumerate(shards):
            name = f"model-{i + 1:05}-of-{len(shards):05}.safetensors"
            total += write_safetensors(f"{folder}/in.{r}/{name}", "BF16", shard, values)
            where.update((tensor, name) for tensor, _ in shard)
        with open(f"{folder}/in.{r}/model.safetensors.index.json", "w", encoding="utf8") as f:
            json.dump({"metadata": {"total_size": total}, "weight_map": where}, f, indent=2)
    print(f"\ncheckpoint: {SIZE} ranks, {total / 2**30:.2f} GiB of bf16 each, {len(where)} tensors "
          f"in {len(shards)} shards", flush=True)


def make_small(folder):
    print(f"\nsmall: {SIZE} ranks, {SMALL} tensors of 4 KiB against one of the same bytes",
          flush=True)
    for dtype, width in WIDTHS.items():
        n = 4096 // width
        for r in range(SIZE):
            values = random_values(dtype, r)
            write_safetensors(f"{folder}/many.{dtype}.{r}.safetensors", dtype,
                              [(f"blocks.{i}.scale", (n,)) for i in range(SMALL)], values)
            write_safetensors(f"{folder}/one.{dtype}.{r}.safetensors", dtype,
                              [("all.weight", (SMALL, n))], values)


def read_bf16(path):
    """name: f64 values, of the smallest tensors, which have it all."""
    with open(path, "rb") as f:
        length = int.from_bytes(f.read(8), "little")
        tensors = json.loads(f.read(length))
        found = {}
        for name, t in tensors.items():
            begin, end = t.get("data_offsets", (0, 0))
            if 0 < end - begin <= 64 << 20:
                f.seek(8 + length + begin)
                bits = np.fromfile(f, np.uint16, (end - begin) // 2).astype(np.uint32) << 16
                found[name] = bits.view(np.float32).astype(np.float64)
    return found


def check(folder, prefix):
    """The ranks' results are the same, and what numpy has to within the rounding of partial sums."""
    names = sorted(os.listdir(f"{folder}/in.0"))
    for r in range(SIZE):
        if sorted(os.listdir(f"{folder}/{prefix}.{r}")) != names:
            sys.exit(f"checkpoint: {prefix}.{r} has other files than in.0")
    shards = [n for n in names if n.endswith(".safetensors")]
    for name in shards:
        for r in range(1, SIZE):
            if not filecmp.cmp(f"{folder}/{prefix}.0/{name}", f"{folder}/{prefix}.{r}/{name}",
                               shallow=False):
                sys.exit(f"checkpoint: {prefix}.{r}/{name} differs from {prefix}.0's")
    name = shards[-1]
    got = read_bf16(f"{folder}/{prefix}.0/{name}")
    inputs = [read_bf16(f"{folder}/in.{r}/{name}") for r in range(SIZE)]
    if not got or got.keys() != inputs[0].keys():
        sys.exit(f"checkpoint: {prefix}.0/{name} holds other tensors")
    for tensor, values in got.items():
        want = sum(i[tensor] for i in inputs) / SIZE
        # Half a unit in the last place of bf16, and what partial sums in f32 may be off by.
        bound = np.abs(want) * 2.0 ** -8 + max(np.abs(i[tensor]).max() for i in inputs) * 2.0 ** -22
        if not (np.abs(values - want) <= bound).all():
            sys.exit(f"checkpoint: {prefix}.0/{name}: {tensor} is not the average")


# ---- running ----

def aside(fn, *args):
    """fn(*args) in a process of its own: a command's peak begins with that of who starts it."""
    p = multiprocessing.get_context("fork").Process(target=fn, args=args)
    p.start()
    p.join()
    if p.exitcode:
        sys.exit(1)


def busy():
    """Seconds that all processors have worked, and waited for a disk with nothing else to do."""
    with open("/proc/stat", encoding="ascii") as f:
        user, nice, system, _, iowait, irq, softirq = map(int, f.readline().split()[1:8])
    return (user + nice + system + irq + softirq) / HERTZ, iowait / HERTZ


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start(command, folder, out):
    return subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out,
                            stderr=subprocess.STDOUT)


def run(commands, folder):
    """Run @commands at once: wall time, CPU seconds, peaks in MiB, the machine's, what was said."""
    with tempfile.TemporaryFile("w+") as out:
        work, waited = busy()
        began = time.perf_counter()
        started = [start(c, folder, out) for c in commands]
        cpu, peaks = 0.0, []
        for p, command in zip(started, commands):
            _, status, usage = os.wait4(p.pid, 0)
            p.returncode = os.waitstatus_to_exitcode(status)
            cpu += usage.ru_utime + usage.ru_stime
            peaks.append(usage.ru_maxrss / 1024)
            if p.returncode:
                for other in started:
                    if other.returncode is None:
                        other.terminate()
                        other.wait()
                out.seek(0)
                sys.exit(f"checkpoint: {' '.join(command)}: exit code {p.returncode}\n{out.read()}")
        wall = time.perf_counter() - began
        work_end, waited_end = busy()
        out.seek(0)
        return {"wall": wall, "cpu": cpu, "peaks": peaks, "busy": work_end - work,
                "waited": waited_end - waited, "text": out.read()}


def collctl(folder, source, target, options, binary=COLLCTL):
    """One command a rank, so that each has a peak of its own."""
    port = free_port()
    with open(f"{folder}/hosts", "w", encoding="ascii") as f:
        f.write("".join(f"127.0.0.1:{port if r == 0 else 1}\n" for r in range(SIZE)))
    secret = [] if "--insecure" in options else ["--secret-file", f"{folder}/secret"]
    return [[binary, "allreduce", "-n", str(SIZE), "-r", str(r), "-H", f"{folder}/hosts", *secret,
             *options, "--op", "avg", source.format(r), "-o", target.format(r)]
            for r in range(SIZE)]


def mpi(by, synced, transport):
    return [[*MPIRUN, *transport, sys.executable, PEER, "in", "out", by, synced]]


def cp(synced):
    after = "&& sync out.{0}/* out.{0}" if synced else ""
    return [["sh", "-c", f"cp -r --reflink=never in.{{0}} out.{{0}} {after}".format(r)]
            for r in range(SIZE)]


def remove_outputs(folder):
    for name in os.listdir(folder):
        if name.startswith("out."):
            path = f"{folder}/{name}"
            if os.path.isdir(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)
    os.sync()


def rounds(folder, cases, n, checks):
    """cases: name: a function that gives the commands. checks(name), after the first round."""
    runs = {name: [] for name in cases}
    for i in range(n + 1):
        for name, commands in cases.items():
            remove_outputs(folder)
            done = run(commands(), folder)
            if i == 0:
                checks(name)
            else:
                runs[name].append(done)
            print(f"  round {i}: {name}: {done['wall']:.2f} s", flush=True)
    remove_outputs(folder)
    return runs


def median(runs, key):
    return statistics.median(r[key] for r in runs)


# ---- the two parts ----

def bound_by(runs, alone):
    """What a median run waited for. @alone: the seconds of reading and writing alone."""
    wall = median(runs, "wall")
    work = median(runs, "busy") / (wall * os.cpu_count())
    idle = median(runs, "waited") / (wall * os.cpu_count())
    if work >= 0.85:
        what = "the processors"
    elif alone >= 0.7 * wall or idle >= 0.3:
        what = "the disk"
    else:
        what = "neither processors nor disk: the ranks wait, or start"
    return (f"bound by {what}: processors {work:.0%} busy, {idle:.0%} waiting for the disk alone, "
            f"cp takes {alone / wall:.0%} of the time")


def compare_with_old(runs):
    for name in runs:
        if f"old {name}" in runs:
            ratio = median(runs[name], "wall") / median(runs[f"old {name}"], "wall")
            print(f"{name}: {ratio:.2f} of the older one  <= 1.05: {'yes' if ratio <= 1.05 else 'NO'}")


def checkpoint(folder, a):
    aside(make_checkpoints, folder, a.mib)
    cases = {}
    for synced in (True, False):
        word = "synced" if synced else "not synced"
        nosync = () if synced else ("--no-sync",)
        flag = "sync" if synced else "no-sync"
        for name, options in (("memory lanes", ("--lanes", "memory")), ("TLS", ("--lanes", "tcp")),
                              ("--insecure", ("--lanes", "tcp", "--insecure"))):
            cases[f"collctl {name}, {word}"] = (
                lambda options=(*options, *nosync): collctl(folder, "in.{}", "out.{}", options))
            if OLD:
                cases[f"old collctl {name}, {word}"] = (
                    lambda options=(*options, *nosync): collctl(folder, "in.{}", "out.{}", options,
                                                                OLD))
        cases[f"mpi4py tcp, {word}"] = lambda flag=flag: mpi(a.by, flag, TCP)
        cases[f"mpi4py memory, {word}"] = lambda flag=flag: mpi(a.by, flag, [])
        cases[f"cp, {word}"] = lambda synced=synced: cp(synced)

    def checks(name):
        if not name.startswith("cp"):
            aside(check, folder, "out")

    if a.peers:
        cases = {n: c for n, c in cases.items() if "collctl" not in n}
    runs = rounds(folder, cases, a.rounds, checks)
    print(f"\n{'command':30} {'seconds':>8} {'of mpi tcp':>10} {'of cp':>6} {'CPU s':>7} "
          f"{'peak of a rank':>15}")
    for name, done in runs.items():
        word = name.split(", ")[1]
        wall = median(done, "wall")
        peaks = [max(json.loads(r["text"])) / 1024 if name.startswith("mpi") else max(r["peaks"])
                 for r in done]
        met = "" if not name.startswith("collctl") else (
            f"  (< {PEAK} MiB: {'yes' if max(peaks) < PEAK else 'NO'})")
        print(f"{name:30} {wall:8.2f} {wall / median(runs['mpi4py tcp, ' + word], 'wall'):10.2f} "
              f"{wall / median(runs['cp, ' + word], 'wall'):6.2f} {median(done, 'cpu'):7.1f} "
              f"{max(peaks):11.0f} MiB{met}")
    compare_with_old(runs)
    for name, done in runs.items():
        if not name.startswith("cp"):
            alone = median(runs["cp, " + name.split(", ")[1]], "wall")
            print(f"{name}: {bound_by(done, alone)}")


def small(folder, a):
    aside(make_small, folder)
    cases = {}
    for dtype in WIDTHS:
        for name, options in (("memory lanes", ("--lanes", "memory")), ("TLS", ("--lanes", "tcp")),
                              ("--insecure", ("--lanes", "tcp", "--insecure"))):
            for kind in ("many", "one"):
                source = f"{kind}.{dtype}.{{}}.safetensors"
                cases[f"{kind} {dtype} {name}"] = (
                    lambda s=source, o=options: collctl(folder, s, "out.{}.safetensors",
                                                        (*o, "--no-sync")))
                if OLD:
                    cases[f"old {kind} {dtype} {name}"] = (
                        lambda s=source, o=options: collctl(folder, s, "out.{}.safetensors",
                                                            (*o, "--no-sync"), OLD))

    def checks(name):
        for r in range(1, SIZE):
            if not filecmp.cmp(f"{folder}/out.0.safetensors", f"{folder}/out.{r}.safetensors",
                               shallow=False):
                sys.exit(f"checkpoint: {name}: rank {r}'s result differs from rank 0's")

    runs = rounds(folder, cases, 3 * a.rounds, checks)
    print(f"\n{'case':20} {'many':>9} {'one':>9} {'ratio':>6}  <= {SMALL_RATIO}")
    for name in runs:
        if name.startswith("many"):
            many, one = (median(runs[f"{kind}{name[4:]}"], "wall") for kind in ("many", "one"))
            print(f"{name[5:]:20} {many * 1e3:6.1f} ms {one * 1e3:6.1f} ms {many / one:6.2f}  "
                  f"{'yes' if many <= SMALL_RATIO * one else 'NO'}")
    compare_with_old(runs)


# ---- ----

def environment(folder, by):
    import mpi4py
    print(f"machine   {machine()}")
    print(f"disk      {output('df', '-h', '--output=source,fstype,size,avail', folder).splitlines()[-1]}")
    print(f"collctl   {output(COLLCTL, '--version')}")
    print(f"peer      {output('mpirun', '--version').splitlines()[0]}, mpi4py {mpi4py.__version__}, "
          f"numpy {np.__version__}")
    print(f"          by {by}; tcp: {' '.join([*MPIRUN, *TCP])}; memory: {' '.join(MPIRUN)}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--mib", type=int, default=2048, help="of each rank's checkpoint (2 GiB)")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--dir", help="where the files lie (build/)")
    p.add_argument("--by", choices=("tensor", "shard"), default="tensor",
                   help="what the peer reduces at once")
    p.add_argument("--only", choices=("checkpoint", "small"))
    p.add_argument("--peers", action="store_true", help="checkpoint without collctl")
    a = p.parse_args()
    forget_settings()
    place = a.dir or f"{ROOT}/build"
    os.makedirs(place, exist_ok=True)
    folder = tempfile.mkdtemp(prefix="checkpoint.", dir=place)
    try:
        need = 0 if a.only == "small" else 9 * a.mib << 20
        if shutil.disk_usage(folder).free < need + (1 << 30):
            sys.exit(f"checkpoint: {folder}: not enough room: {need >> 30} GiB and some are needed")
        environment(folder, a.by)
        if not a.peers:
            subprocess.run([COLLCTL, "keygen", f"{folder}/secret"], check=True, timeout=LIMIT)
        if a.only != "small":
            checkpoint(folder, a)
        for r in range(SIZE):
            shutil.rmtree(f"{folder}/in.{r}", ignore_errors=True)
        if a.only != "checkpoint" and not a.peers:
            small(folder, a)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
