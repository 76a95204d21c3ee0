"""Runs the oracles' main functions for the tests of a bats file: most of the time of a short Python program
that uses numpy goes into importing it, so one process imports it, and forks for each request.

  python_server.py REQUESTS

REQUESTS is a FIFO. A request is a line of fields between \\x1f: the caller's folder, process and FIFO for the
exit code, the module, its arguments. What the module prints goes where the caller's stdout and stderr go. The server
ends when the FIFO is gone.
"""

import os
import select
import signal
import sys
import traceback

sys.dont_write_bytecode = True
MODULES = {name: __import__(name) for name in ("oracle", "dtypes", "checkpoint", "convert", "merge", "torch_oracle", "consolidate")}


def run(module, arguments):
    sys.argv = [module, *arguments]
    try:
        return int(MODULES[module].main() or 0)
    except SystemExit as e:
        if isinstance(e.code, str):
            print(e.code, file=sys.stderr)
        return e.code if isinstance(e.code, int) else int(e.code is not None)
    except BaseException:  # whatever it is, the caller learns of it
        traceback.print_exc()
        return 1


def answer(request):
    folder, caller, reply, module, *arguments = os.fsdecode(request).split("\x1f")
    for fd in (1, 2):
        target = os.open(f"/proc/{caller}/fd/{fd}", os.O_WRONLY | os.O_APPEND)
        os.dup2(target, fd)
        os.close(target)
    os.chdir(folder)
    code = run(module, arguments)
    sys.stdout.flush()
    sys.stderr.flush()
    with open(reply, "w", encoding="ascii") as f:
        print(code, file=f)


def main():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    requests = os.open(sys.argv[1], os.O_RDWR)  # so it never ends
    pending = b""
    while True:
        if not select.select([requests], [], [], 60)[0]:
            if not os.path.exists(sys.argv[1]):
                return
            continue
        pending += os.read(requests, 65536)
        *whole, pending = pending.split(b"\n")
        for request in whole:
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                answer(request)
                os._exit(0)


if __name__ == "__main__":
    main()
