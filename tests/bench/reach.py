#!/usr/bin/env python3
"""check against iperf3 and ping over shaped links; run -H against ssh.

  tests/bench/reach.py [--rounds 5] [--mbit 100,1000]

Hosts are network namespaces on a bridge (predict.py); a token bucket shapes both ends of each link.
Each round runs check and iperf3 -P 1 (3 s) over the link from host 0 to host 1, in turn, and ping
-A -c 50 against the least round trip of check, both between kernels. The medians and their ratios are printed.

Then each round starts four `ssh HOST true` at once, and `run -H` of the same four hosts with a barrier,
in turn. Needs root, iproute2, iperf3, ping and sshd; without them it says so and ends with 77.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import predict
from common import COLLCTL
from predict import Net, Unavailable, command


def checked(net, folder, *options):
    """A check of hosts 0 and 1: what rank 0 printed."""
    started = [net.start(r, COLLCTL, "check", "-r", str(r), "-H", f"{folder}/hosts", "--secret-file",
                         f"{folder}/key", "--json", *options) for r in (0, 1)]
    said = [p.communicate(timeout=predict.LIMIT) for p in started]
    for p, (_, err) in zip(started, said):
        if p.returncode:
            sys.exit(f"reach: check: exit code {p.returncode}\n{err}")
    return json.loads(said[0][0])["links"][0]


def iperf(net):
    server = net.start(1, "iperf3", "-s", "-1", "--forceflush")
    server.stdout.readline()
    out = subprocess.run(["ip", "netns", "exec", net.space(0), "iperf3", "-c", net.address(1), "-P", "1",
                          "-t", "3", "-J"], capture_output=True, text=True, check=False).stdout
    server.communicate(timeout=predict.LIMIT)
    return json.loads(out)["end"]["sum_received"]["bits_per_second"]


def pinged(net):
    """The least of 50 pings, each sent when the former was answered."""
    out = subprocess.run(["ip", "netns", "exec", net.space(0), "ping", "-A", "-c", "50", net.address(1)],
                         capture_output=True, text=True, check=True).stdout
    return min(float(ms) / 1e3 for ms in re.findall(r"time=([0-9.]+) ms", out))


def compare_links(net, folder, mbit, rounds):
    ours, theirs, trips, pings = [], [], [], []
    net.shape(mbit)
    with open(f"{folder}/hosts", "w", encoding="utf8") as f:
        f.writelines(f"{net.address(r)}\n" for r in (0, 1))
    for _ in range(rounds):
        link = checked(net, folder)
        ours.append(8 * link["bandwidth"])
        trips.append(link["round_trip"]["min"])
        theirs.append(iperf(net))
        pings.append(pinged(net))
    a, b = statistics.median(ours), statistics.median(theirs)
    c, d = statistics.median(trips), statistics.median(pings)
    print(f"{mbit:6} Mbit/s  check {a / 1e6:7.1f} Mbit/s, iperf3 {b / 1e6:7.1f} Mbit/s: {a / b:.2f}   "
          f"check {c * 1e6:5.0f} us, ping {d * 1e6:5.0f} us: {c / d:.2f}", flush=True)


def open_sshd(net, folder, start=lambda net, r, words: net.start(r, *words)):
    """sshd on the first four hosts, by @start; (processes, the words of ssh). SHLVL: bash then does not read the user's .bashrc, which may
    take longer than ssh itself."""
    os.makedirs("/run/sshd", exist_ok=True)
    command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{folder}/host")
    command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{folder}/user")
    shutil.copy(f"{folder}/user.pub", f"{folder}/authorized")
    os.chmod(f"{folder}/authorized", 0o600)
    started = []
    for r in range(4):
        with open(f"{folder}/sshd.{r}", "w", encoding="utf8") as f:
            f.write(f"ListenAddress {net.address(r)}\nHostKey {folder}/host\nPidFile none\nStrictModes no\n"
                    f"AuthorizedKeysFile {folder}/authorized\nUsePAM no\nPermitRootLogin yes\nSetEnv SHLVL=2\n"
                    "Subsystem sftp internal-sftp\n")
        started.append(start(net, r, [shutil.which("sshd"), "-D", "-f", f"{folder}/sshd.{r}"]))
    ssh = (f"ssh -T -o BatchMode=yes -i {folder}/user -o UserKnownHostsFile={folder}/known "
           "-o StrictHostKeyChecking=accept-new -o LogLevel=ERROR").split()
    for r in range(4):  # until sshd listens; and its key is known
        while subprocess.run(["ip", "netns", "exec", net.space(net.size - 1), *ssh, net.address(r), "true"],
                             check=False, capture_output=True).returncode:
            time.sleep(0.05)
    return started, ssh


def compare_start(net, ssh, rounds):
    hosts = [net.address(r) for r in range(4)]
    ours, theirs = [], []
    for _ in range(rounds):
        began = time.perf_counter()
        for p in [net.start(4, *ssh, host, "true") for host in hosts]:
            p.communicate()
        theirs.append(time.perf_counter() - began)
        began = time.perf_counter()
        command("ip", "netns", "exec", net.space(4), COLLCTL, "run", "-H", ",".join(hosts), "--ssh",
                " ".join(ssh), "--remote-path", COLLCTL, "--", "barrier", "-q")
        ours.append(time.perf_counter() - began)
    a, b = statistics.median(ours), statistics.median(theirs)
    print(f"four hosts     run -H -- barrier {a:.3f} s, four ssh true {b:.3f} s: {a / b:.2f}", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--mbit", default="100,1000")
    o = p.parse_args()
    net, folder, daemons = Net(5), tempfile.mkdtemp(), []
    try:
        net.open()
        predict.environment(None)
        command(COLLCTL, "keygen", f"{folder}/key")
        for mbit in o.mbit.split(","):
            compare_links(net, folder, int(mbit), o.rounds)
        for r in range(net.size):  # the starts are not shaped
            command("tc", "-n", net.space(r), "qdisc", "del", "dev", "eth0", "root")
            command("tc", "qdisc", "del", "dev", f"{net.tag}v{r}", "root")
        daemons, ssh = open_sshd(net, folder)
        compare_start(net, ssh, o.rounds)
    except Unavailable as e:
        print(f"reach: {e}")
        return 77
    finally:
        for d in daemons:
            d.kill()
        net.close()
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
