"""Hosts that are far from each other, without netem: network namespaces, each with a line of its own to
a router (delay_line.c). What they have in common with those on a bridge is in predict.py."""

import os
import subprocess

import predict
from common import ROOT
from predict import Net, Unavailable, command

LINE = f"{ROOT}/build/bench/delay_line"


class Wan(Net):
    """P hosts, each @trip seconds there and back from each other; a line carries @mbit Mbit/s each way, and
    a queue that holds what is on the way in @trip waits before it."""

    def __init__(self, size, trip, mbit, loss=0):
        super().__init__(size)
        self.router = f"{self.tag}-router"
        self.line = [LINE, "--delay", str(250 * trip), "--rate", str(mbit), "--loss", str(loss), "--queue",
                     str(int(trip * mbit * 125e3 / 1024))]
        self.lines = []

    def open(self):
        if not os.path.exists(LINE):
            raise Unavailable(f"there is no {LINE}: make unit")
        try:
            command("ip", "netns", "add", self.router)
            command("ip", "netns", "exec", self.router, "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
            for r in range(self.size):
                command("ip", "netns", "add", self.space(r))
                self.join(r)
        except (OSError, subprocess.CalledProcessError) as e:
            said = (getattr(e, "stderr", None) or str(e)).strip()
            raise Unavailable(f"network namespaces can't be had here: {said}") from e

    def join(self, r):
        """The line from host @r to the router, with the frames and the long queues of predict.py's links."""
        line = subprocess.Popen([*self.line, "--seed", str(r), self.space(r), "eth0", self.router, f"p{r}"],
                                text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        self.lines.append(line)
        if line.stdout.readline() != "ready\n":
            raise Unavailable(f"no line to a router: {line.stderr.read().strip()}")
        for space, device in ((self.space(r), "eth0"), (self.router, f"p{r}")):
            command("ip", "-n", space, "link", "set", device, "mtu", str(predict.MTU), "txqueuelen", "10000", "up")
        command("ip", "-n", self.space(r), "link", "set", "lo", "up")
        command("ip", "-n", self.space(r), "addr", "add", f"{self.address(r)}/32", "dev", "eth0")
        command("ip", "-n", self.space(r), "route", "add", "default", "dev", "eth0")
        command("ip", "-n", self.router, "route", "add", self.address(r), "dev", f"p{r}")

    def close(self):
        for line in self.lines:
            line.kill()
            line.communicate()
        for space in [self.router, *(self.space(r) for r in range(self.size))]:
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)
