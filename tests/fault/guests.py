#!/usr/bin/env python3
"""guests.py PORT N VERSION READY: say HELLO of protocol VERSION to an --insecure coordinator at 127.0.0.1:PORT
on N connections, one after the other, and close none. Writes a line to READY when all have said it, and
stays until it is killed."""

import signal
import socket
import struct
import sys
import time

from proxy import LOOPBACK, frame

PATIENCE = 120


def connect(port):
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return socket.create_connection((LOOPBACK, port), PATIENCE)
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise


def main():
    port, n, version = (int(x) for x in sys.argv[1:4])
    hello = b"CCTLCTL1" + struct.pack("<III", version, 1, 0)
    held = []
    for _ in range(n):
        s = connect(port)
        s.sendall(frame(0, hello.ljust(64, b"\0")))
        held.append(s)
    with open(sys.argv[4], "w") as f:
        f.write("ready\n")
    signal.pause()


if __name__ == "__main__":
    main()
