"""Shared by the benchmarks: where the tree and the program are, and what is said of the machine."""

import os
import platform
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COLLCTL = os.path.abspath(os.environ.get("COLLCTL", f"{ROOT}/build/collctl"))


def forget_settings(keep=()):
    """No variable of collctl changes what is measured, but those whose names begin with `keep`."""
    for v in list(os.environ):
        if v.startswith("COLLCTL") and not v.startswith(keep):
            del os.environ[v]


def output(*command):
    """What a command prints; "unknown" if it fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def machine():
    cpu = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo", encoding="utf8")
                if line.startswith("model name")), platform.machine())
    return f"{len(os.sched_getaffinity(0))} processors, {cpu}, Linux {platform.release()}"


def congestion():
    """TCP's congestion control that the system has."""
    with open("/proc/sys/net/ipv4/tcp_congestion_control", encoding="utf8") as f:
        return f.read().strip()
