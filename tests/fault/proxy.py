#!/usr/bin/env python3
"""A TCP proxy that does wrong: forward, flip a bit, cut, reset, hold, or rewrite frames.

  proxy.py TARGET_PORT ACTION [ARG] [--down] [--on WHICH] [--times N] [--ready FIFO] [--held FIFO --go FIFO]

  forward | flip BIT | cut BYTE | reset BYTE | hold BYTE | replace --old BYTES --new BYTES

`replace` puts other bytes (with Python's escapes), as many, in every plain frame that has the old ones.

The fault hits the first connection (or the first N; --on every, or --on later: all but the first), from the dialler
to the target (--down: the other way), after exactly that many bytes. It listens on a port of the kernel's choice and writes it to --ready. `hold`
writes a line to --held and goes on once a line has come by --go; every other byte is passed on as
it comes. As a module: class Proxy, one thread a direction, so that what one side does not take the
other can't send.
"""

import argparse
import ast
import ctypes
import ctypes.util
import socket
import struct
import threading

LOOPBACK = "127.0.0.1"
HEADER = 20  # of a plain frame: lib/net/PROTOCOL.md
END = 0xFFFFFFFF


def xxh3(data):
    lib = ctypes.CDLL(ctypes.util.find_library("xxhash") or "libxxhash.so.0")
    lib.XXH3_64bits.restype = ctypes.c_uint64
    lib.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    return lib.XXH3_64bits(data, len(data))


def frame_header(length, seq, payload_sum):
    head = struct.pack("<IIQ", length, seq, payload_sum)
    return head + struct.pack("<I", xxh3(head) & 0xFFFFFFFF)


def frame(seq, payload):
    return frame_header(len(payload), seq, xxh3(payload)) + payload


class Fault:
    """What happens to one direction of the first connection: it gets every piece of the stream and
    says what to send. None: nothing more, the rest is to be swallowed."""

    def feed(self, data, link):
        return data


class Record(Fault):
    """Keeps the stream."""

    def __init__(self):
        self.stream = b""

    def feed(self, data, link):
        self.stream += data
        return data


class At(Fault):
    """Acts at one place of the stream."""

    def __init__(self, at):
        self.at, self.pos, self.hit = at, 0, False

    def feed(self, data, link):
        here, self.pos = self.at - self.pos, self.pos + len(data)
        if self.hit or not 0 <= here < len(data):
            return data
        self.hit = True
        return self.act(data, here, link)


class Flip(At):
    def __init__(self, bit):
        super().__init__(bit // 8)
        self.mask = 1 << bit % 8

    def act(self, data, here, link):
        return data[:here] + bytes([data[here] ^ self.mask]) + data[here + 1 :]


class Drip(Fault):
    """Every byte in a packet of its own."""

    hit = True

    def feed(self, data, link):
        link.dst.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(len(data)):
            link.dst.sendall(data[i : i + 1])
        return b""


class Cut(At):
    """The receiver sees the end of the stream, the sender notices nothing."""

    def act(self, data, here, link):
        link.dst.sendall(data[:here])
        return None


class Reset(At):
    def act(self, data, here, link):
        link.dst.sendall(data[:here])
        link.reset()
        return None


class Hold(At):
    def __init__(self, at, held, go):
        super().__init__(at)
        self.held, self.go = held, go

    def act(self, data, here, link):
        link.dst.sendall(data[:here])
        self.held()
        self.go()
        return data[here:]


class Frames(Fault):
    """Plain frames: fn(index, header, payload) gives the bytes to send in a frame's place."""

    def __init__(self, fn):
        self.fn, self.buf, self.index = fn, b"", 0

    def feed(self, data, link):
        self.buf += data
        out = b""
        while len(self.buf) >= HEADER:
            length = struct.unpack("<I", self.buf[:4])[0]
            size = HEADER + (0 if length == END else length)
            if len(self.buf) < size:
                break
            out += self.fn(self.index, self.buf[:HEADER], self.buf[HEADER:size])
            self.buf = self.buf[size:]
            self.index += 1
        return out


class Replace(Frames):
    """Other bytes in every frame that has the old ones."""

    def __init__(self, old, new):
        assert len(old) == len(new)
        super().__init__(lambda _, head, body: self.change(head, body))
        self.old, self.new = old, new

    def change(self, head, body):
        if self.old not in body:
            return head + body
        return frame(struct.unpack("<I", head[4:8])[0], body.replace(self.old, self.new))


class Link:
    def __init__(self, src, dst, fault, pair):
        self.src, self.dst, self.fault = src, dst, fault
        self.pair = pair  # of both directions: not empty as long as neither was reset

    def reset(self):
        self.pair.clear()
        for s in (self.src, self.dst):
            try:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                s.shutdown(socket.SHUT_RD)  # wakes the thread of the other direction
            except OSError:  # its other end has reset it already
                pass
            s.close()

    def pass_on(self, data):
        """Is there more to send? Not after a cut, nor once the receiver has gone: what that one said
        before is still on its way through the other direction, whose end tells the sender."""
        try:
            data = self.fault.feed(data, self)
            if self.pair and data is None:
                self.dst.shutdown(socket.SHUT_WR)
            elif self.pair and data:
                self.dst.sendall(data)
            return data is not None
        except OSError:
            return False

    def pump(self):
        sending = True
        try:
            while data := self.src.recv(1 << 16):
                sending = sending and self.pass_on(data)  # the rest is swallowed
            if self.pair and sending:
                self.dst.shutdown(socket.SHUT_WR)
        except OSError:
            for s in self.pair:  # a loss here is one there
                try:
                    s.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass


class Proxy:
    def __init__(self, target_port, up=None, down=None):
        self.target = (LOOPBACK, target_port)
        self.faults = (up or Fault(), down or Fault())
        self.connections = 0
        self.sockets = []
        self.listener = socket.create_server((LOOPBACK, 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self.target)
            except OSError:
                client.close()
                continue
            self.sockets += [client, server]
            up, down = self.faults_of(self.connections)
            self.connections += 1
            for s in (client, server):
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pair = [client, server]
            for link in (Link(client, server, up, pair), Link(server, client, down, pair)):
                threading.Thread(target=link.pump, daemon=True).start()

    def faults_of(self, connection):
        return self.faults if connection == 0 else (Fault(), Fault())

    def close(self):
        for s in [self.listener, *self.sockets]:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()


class Repeated(Proxy):
    """The fault, a new one from @make, hits every connection from number @first on, or those before @end."""

    def __init__(self, target_port, make, down, first, end=None):
        self.make, self.down, self.first, self.end = make, down, first, end
        super().__init__(target_port)

    def faults_of(self, connection):
        faults = [Fault(), Fault()]
        if connection >= self.first and (self.end is None or connection < self.end):
            faults[self.down] = self.make()
        return faults


def main():
    p = argparse.ArgumentParser()
    p.add_argument("target", type=int)
    p.add_argument("action", choices=["forward", "flip", "cut", "reset", "hold", "replace"])
    p.add_argument("arg", type=int, nargs="?", default=0)
    p.add_argument("--down", action="store_true")
    p.add_argument("--on", choices=["first", "every", "later"], default="first")
    p.add_argument("--times", type=int, default=1)
    p.add_argument("--old", default="")
    p.add_argument("--new", default="")
    p.add_argument("--ready", required=True)
    p.add_argument("--held")
    p.add_argument("--go")
    o = p.parse_args()

    def held():
        with open(o.held, "w") as f:
            f.write("held\n")

    def go():
        with open(o.go) as f:
            f.readline()

    make = {
        "forward": lambda: Fault(),
        "flip": lambda: Flip(o.arg),
        "cut": lambda: Cut(o.arg),
        "reset": lambda: Reset(o.arg),
        "hold": lambda: Hold(o.arg, held, go),
        "replace": lambda: Replace(*(ast.literal_eval(f"b'{text}'") for text in (o.old, o.new))),
    }
    if o.times > 1:
        proxy = Repeated(o.target, make[o.action], o.down, 0, o.times)
    elif o.on == "first":
        fault = make[o.action]()
        proxy = Proxy(o.target, None if o.down else fault, fault if o.down else None)
    else:
        proxy = Repeated(o.target, make[o.action], o.down, int(o.on == "later"))
    with open(o.ready, "w") as f:
        f.write(f"{proxy.port}\n")
    threading.Event().wait()


if __name__ == "__main__":
    main()
