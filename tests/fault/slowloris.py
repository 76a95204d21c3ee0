#!/usr/bin/env python3
"""slowloris.py PORT N: N connections that send a byte a second each, until the listener has dropped
all of them. Exit code 1 if one is still open after 100 seconds."""

import selectors
import socket
import sys
import time

HELLO = b"\x16\x03\x01\x02\x00\x01" + bytes(500)  # the beginning of a TLS record
LIMIT = 100


def main():
    port, n = int(sys.argv[1]), int(sys.argv[2])
    poll = selectors.DefaultSelector()
    for _ in range(n):
        s = socket.create_connection(("127.0.0.1", port))
        s.setblocking(False)
        poll.register(s, selectors.EVENT_READ)
    begin = time.monotonic()
    sent = 0
    while poll.get_map() and (now := time.monotonic() - begin) < LIMIT:
        for key, _ in poll.select(max(0, sent - now)):
            drop(poll, key.fileobj)
        if time.monotonic() - begin >= sent:
            for key in list(poll.get_map().values()):
                try:
                    key.fileobj.send(HELLO[sent : sent + 1])
                except OSError:
                    drop(poll, key.fileobj)
            sent += 1
    left = len(poll.get_map())
    print(f"{left} of {n} left after {time.monotonic() - begin:.0f} s")
    return 1 if left else 0


def drop(poll, s):
    try:
        if s.recv(4096):
            return  # an alert: its end comes next
    except OSError:
        pass
    poll.unregister(s)
    s.close()


if __name__ == "__main__":
    sys.exit(main())
