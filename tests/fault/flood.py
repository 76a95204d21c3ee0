#!/usr/bin/env python3
"""flood.py PORT READY [hold]: connect to 127.0.0.1:PORT and close, again and again, until killed; with
`hold` up to 500 silent connections stay open. Writes a line to READY at the first attempt."""

import collections
import socket
import sys

HELD = 500


def main():
    at = ("127.0.0.1", int(sys.argv[1]))
    hold = sys.argv[3:] == ["hold"]
    held = collections.deque()
    with open(sys.argv[2], "w") as f:
        f.write("ready\n")
    while True:
        s = socket.socket()
        s.setblocking(False)
        s.connect_ex(at)  # refused where nobody listens yet
        if hold:
            held.append(s)
            if len(held) > HELD:
                held.popleft().close()
        else:
            s.close()


if __name__ == "__main__":
    main()
