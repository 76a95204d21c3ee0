"""A member that says it is another rank: other_rank.py PORT CA CERT KEY RANK SIZE [JOB].

Connects to a coordinator with a certificate, sends HELLO as RANK, and prints the answer.
"""
import hashlib
import os
import re
import socket
import ssl
import struct
import sys

HEADER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "lib", "job", "proto.h")


def version():
    return int(re.search(r"#define PROTO_VERSION\s+(\d+)", open(HEADER).read()).group(1))


def exactly(link, n):
    got = b""
    while len(got) < n:
        piece = link.recv(n - len(got))
        if not piece:
            sys.exit("the coordinator closed the connection")
        got += piece
    return got


def main():
    port, ca, cert, key, rank, size = sys.argv[1:7]
    job = sys.argv[7] if len(sys.argv) > 7 else "default"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(ca)
    context.load_cert_chain(cert, key)
    with context.wrap_socket(socket.create_connection(("127.0.0.1", int(port)), 60)) as link:
        tag = hashlib.sha256(job.encode()).digest()[:8]
        hello = b"CCTLCTL1" + struct.pack("<III", version(), int(rank), int(size)) + tag
        link.sendall(hello.ljust(64, b"\0"))
        length, kind = struct.unpack("<IB", exactly(link, 5))
        body = exactly(link, length)
        if kind != 4:
            sys.exit(f"message {kind}")
        code, _, _, text = struct.unpack("<HIBH", body[:9])
        print(f"ABORT {code}: {body[9:9 + text].decode()}")


main()
