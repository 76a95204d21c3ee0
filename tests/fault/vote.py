#!/usr/bin/env python3
"""vote.py COLLCTL TRIES: end rank 2 of 4 by SIGTERM about the time of its vote, TRIES times, in the
current folder, which holds in.{0..3}.npy and a hostfile `hosts`. Whatever the moment, all ranks
commit or none does: prints what came out otherwise, and exits with 1."""

import os
import signal
import subprocess
import sys

COLLCTL, TRIES = sys.argv[1], int(sys.argv[2])
OLD = b"old"


def one_try():
    for r in range(4):
        with open(f"out.{r}.npy", "wb") as f:
            f.write(OLD)
    ranks = [subprocess.Popen([COLLCTL, "allreduce", "-H", "hosts", "-n", "4", "-r", str(r), "--insecure",
                               "-q", "--no-sync", "--join-timeout", "30s", f"in.{r}.npy", "-o",
                               f"out.{r}.npy"], stderr=subprocess.PIPE) for r in range(4)]
    # Its output has a temporary name once it is complete: the vote comes next.
    while ranks[2].poll() is None and not any(n.startswith(".out.2.npy.") for n in os.listdir(".")):
        pass
    ranks[2].send_signal(signal.SIGTERM)
    said = [p.communicate(timeout=200)[1] for p in ranks]
    codes = [p.returncode for p in ranks]
    new = []
    for r in range(4):
        with open(f"out.{r}.npy", "rb") as f:
            new.append(f.read(4) != OLD)
    committed = codes == [0, 0, 0, 0] and all(new)
    aborted = codes == [8, 8, 143, 8] and not any(new)
    left = [n for n in os.listdir(".") if n.startswith(".out")]
    if (committed or aborted) and not left:
        return True
    print(f"codes {codes}, new files {new}, left {left}: {said}")
    return False


sys.exit(0 if all([one_try() for _ in range(TRIES)]) else 1)
