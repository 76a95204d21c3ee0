"""Who has taken a coordinator's port: impostor.py http|ssh|silent|close PORT, or a store that is
none: impostor.py false|hasty|mute|ill|etcd PORT LOG (each request a line of LOG; port 0: the kernel's choice).
Says its port once it listens."""

import http.server
import json
import socketserver
import sys
import threading

PATIENCE = 120


class Ssh(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.settimeout(PATIENCE)
        self.request.sendall(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n")
        self.request.recv(65536)
        self.request.sendall(b"Invalid SSH identification string.\r\n")


class Silent(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.settimeout(PATIENCE)
        while self.request.recv(65536):
            pass


class Close(socketserver.BaseRequestHandler):
    def handle(self):
        pass


class Http(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


class Store(http.server.BaseHTTPRequestHandler):
    """Says false to every PUT (false), or true and forgets it (hasty); no query waits. Answers nothing
    more after its first PUT, to which it says false (mute), or after its first answer, 500 (ill). Or
    an etcd that has no key, takes none, and lets nobody wait (etcd)."""

    protocol_version = "HTTP/1.1"
    mode = ""
    log = None
    silent = False

    def answer(self, status, text):
        if Store.silent:
            threading.Event().wait()
        Store.silent = Store.mode == "ill" or (Store.mode == "mute" and self.command == "PUT")
        status = 500 if Store.mode == "ill" else status
        Store.log.write(f"{self.command} {self.path}\n")
        Store.log.flush()
        body = text.encode()
        self.send_response(status)
        self.send_header("X-Consul-Index", "7")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(404, "")

    def do_PUT(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(200, json.dumps(Store.mode == "hasty"))

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(200, json.dumps({"header": {"revision": "7"}}))

    def do_DELETE(self):
        self.answer(200, "true")

    def log_message(self, *args):
        pass


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128


def main():
    mode, port = sys.argv[1], int(sys.argv[2])
    handlers = {"http": Http, "ssh": Ssh, "silent": Silent, "close": Close}
    handlers |= dict.fromkeys(("false", "hasty", "mute", "ill", "etcd"), Store)
    if handlers[mode] is Store:
        Store.mode = mode
        Store.log = open(sys.argv[3], "w", encoding="ascii")
    server = Server(("127.0.0.1", port), handlers[mode])
    print(server.server_address[1], flush=True)
    server.serve_forever()


main()
