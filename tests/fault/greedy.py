"""Clients that take no answer: greedy.py URL PID CLIENTS. Fills the store at URL, whose server is
PID; then CLIENTS begin to send large values, or ask for one and read nothing, while the store changes
again and again. Others must be served meanwhile. Prints how many clients were refused, and the peak
of the server's memory, in MiB."""

import base64
import http.client
import json
import resource
import socket
import sys
import urllib.parse

VALUE = 65536


def server_memory(pid, name):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith(name + ":")) / 1024


def exchange(host, method, path, body=None):
    c = http.client.HTTPConnection(host, timeout=60)
    c.request(method, path, body)
    answer = c.getresponse()
    text = answer.read()
    c.close()
    return answer.status, text


def fill(host):
    c = http.client.HTTPConnection(host, timeout=60)
    n = 0
    while True:
        c.request("PUT", f"/v1/kv/full/{n}", bytes([n % 256]) * VALUE)
        answer = c.getresponse()
        answer.read()
        if answer.status != 200:
            c.close()
            return n
        n += 1


def main():
    host = urllib.parse.urlsplit(sys.argv[1]).netloc
    pid, clients = int(sys.argv[2]), int(sys.argv[3])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < clients + 64:
        sys.exit(f"a limit of {hard} descriptors is too low for {clients} clients")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    values = fill(host)
    if values < 500:
        sys.exit(f"the store was full after {values} values")
    exchange(host, "DELETE", "/v1/kv/full/0")  # room for what changes
    full = server_memory(pid, "VmRSS")
    name, port = host.rsplit(":", 1)
    get = "GET /v1/kv/full/%d HTTP/1.1\r\nHost: x\r\n\r\n"  # the answer fits into the kernel's buffers
    put = f"PUT /v1/kv/full/%d HTTP/1.1\r\nHost: x\r\nContent-Length: {VALUE}\r\n\r\n" + "x" * (VALUE - 1)
    held, served = [], 0
    for i in range(clients):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect((name, int(port)))
        ask = put if i % 3 else get
        s.setblocking(False)
        try:
            s.send((ask % (1 + i % (values - 1))).encode())
        except BlockingIOError:
            pass
        held.append(s)
        if i % (clients // 20) == 0:
            status, text = exchange(host, "PUT", "/v1/kv/record", b"%d" % i)
            again, text = exchange(host, "GET", "/v1/kv/record")
            value = base64.b64decode(json.loads(text)[0]["Value"]) if again == 200 else None
            served += status == 200 and value == b"%d" % i
    peak = server_memory(pid, "VmHWM")
    refused = 0
    for s in held:
        try:
            refused += b" 503 " in s.recv(20)
        except OSError:  # it has no answer, or was closed
            pass
        s.close()
    if served != 20:
        sys.exit(f"others were served {served} times of 20")
    print(f"full {full:.0f} refused {refused} peak {peak:.0f}")


main()
