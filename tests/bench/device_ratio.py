#!/usr/bin/env python3
"""--device cuda against --device cpu: the same allreduce of the same files by the ranks of one host.

  tests/bench/device_ratio.py [--plugin FILE] [--mib 64,1024] [--ranks 2,4] [--devices 1,3] [--rounds 5] [--threads]

With D devices each rank has D inputs on both sides; all ranks read the same files. Over the stand-in without delays a
copy to or from a device is one by the processor, and so is a fold. The thread of the rank makes it in the call
(COLLCTL_STANDIN_DIRECT): changes of threads and page tables, with which the tests' stand-in copies, are no cost of a
device. --threads measures them, too. The target is at most twice the time of --device cpu, of the run phase and of the
whole command. "CPU" is the time of all processors, which other programs disturb least.

All runs alternate, A B A B ..., after a round that is not counted and whose results are compared; medians. All files lie
in /dev/shm, if it has room: a disk would make both sides wait. All free memory is touched before. The outputs are
removed after each command: each finds the same free memory, of which the system gives first what was freed last. The
commands go before other programs if the system lets them (nice). Exit code 77 as that of gpu.py, whose functions it
uses.
"""

import argparse
import filecmp
import glob
import json
import os
import resource
import shutil
import statistics
import sys
import tempfile

import gpu
from common import forget_settings

MOST = 2.0
MEMORY = "/dev/shm"


def first_in_line():
    try:
        os.nice(-20)
    except PermissionError:
        pass


def folder_for(a):
    """Where the files lie: of both sides, with as much again for what else is in memory."""
    need = (max(a.devices) + 2 * max(a.ranks)) * max(a.mib) << 20
    if a.folder or not os.path.isdir(MEMORY) or shutil.disk_usage(MEMORY).free < 2 * need:
        return a.folder
    return MEMORY


def spent():
    r = resource.getrusage(resource.RUSAGE_CHILDREN)
    return r.ru_utime + r.ru_stime


def job(folder, ranks, devices, where):
    """Of one run: seconds of the command, of its run phase, of all processors."""
    before = spent()
    took, said = gpu.run([gpu.COLLCTL, "run", "-n", str(ranks), "--", "allreduce", "--insecure", "--no-sync", "--json",
                          "--device", where, *(f"in.{k}.npy" for k in range(devices)), "-o", f"{where[:3]}.{{rank}}.npy"],
                         folder)
    return took, gpu.seconds(said, "run"), spent() - before


def remove_outputs(folder):
    for name in glob.glob(f"{folder}/c??.*.npy"):
        os.unlink(name)


def compare(folder, ranks, devices, rounds):
    lists = ("cpu", "cuda:" + ",".join(str(k) for k in range(devices)))
    times = {where: [] for where in lists}
    for where in lists:
        job(folder, ranks, devices, where)
    for r in range(ranks):
        if not filecmp.cmp(f"{folder}/cpu.{r}.npy", f"{folder}/cud.{r}.npy", shallow=False):
            sys.exit(f"device_ratio: rank {r} has other bits")
    remove_outputs(folder)
    for _ in range(rounds):
        for where in lists:
            times[where].append(job(folder, ranks, devices, where))
            remove_outputs(folder)
    cpu, cuda = ([statistics.median(t[k] for t in times[where]) for k in range(3)] for where in lists)
    return cpu, cuda


def numbers(text):
    return [int(n) for n in text.split(",")]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--plugin", default=os.path.join(os.path.dirname(gpu.COLLCTL), "collctl-standin.so"))
    p.add_argument("--mib", type=numbers, default=[64, 1024], help="of an input")
    p.add_argument("--ranks", type=numbers, default=[2, 4])
    p.add_argument("--devices", type=numbers, default=[1, 3])
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--threads", action="store_true", help="the stand-in's streams are threads")
    p.add_argument("--folder", help="for the files (default: /dev/shm, else the one for temporary files)")
    a = p.parse_args()
    if not gpu.np:
        print(f"skipped: {sys.executable} has no numpy")
        sys.exit(gpu.SKIPPED)
    forget_settings()
    os.environ.update(COLLCTL_PLUGIN_PATH=os.path.abspath(a.plugin), COLLCTL_STANDIN_DEVICES=str(max(a.devices)),
                      COLLCTL_STANDIN_DIRECT=str(int(not a.threads)))
    if json.loads(gpu.run([gpu.COLLCTL, "version", "--json"], gpu.ROOT)[1])["gpu_plugin"]["devices"] < max(a.devices):
        print(f"skipped: {a.plugin} has fewer than {max(a.devices)} devices")
        sys.exit(gpu.SKIPPED)
    import bench  # it needs numpy
    bench.touch_memory()
    first_in_line()
    print("  MiB ranks devices     cpu: command  run   CPU    cuda: command  run   CPU    ratio: command  run   CPU")
    for mib in a.mib:
        with tempfile.TemporaryDirectory(prefix="collctl-bench.", dir=folder_for(a)) as folder:
            for k in range(max(a.devices)):
                gpu.np.save(f"{folder}/in.{k}.npy", gpu.np.full((mib << 20) // 4, k + 1, gpu.np.float32))
            for ranks in a.ranks:
                for devices in a.devices:
                    cpu, cuda = compare(folder, ranks, devices, a.rounds)
                    ratios = [there / here for here, there in zip(cpu, cuda)]
                    met = "yes" if max(ratios[:2]) <= MOST else "NO"
                    row = "".join(f"{s:7.2f}{x:7.3f}{c:7.2f}{'':7}" for s, x, c in (cpu, cuda, ratios))
                    print(f"{mib:5}{ranks:6}{devices:8}{'':12}{row}  <= {MOST}: {met}", flush=True)


if __name__ == "__main__":
    main()
