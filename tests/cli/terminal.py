"""terminal.py UNTIL COLUMNS COMMAND...: run COMMAND on a terminal of that width, as its controlling one.

Prints what the terminal was sent, as Python's repr, then the lines that stand on its screen at the
end, and ends with the command's exit code. UNTIL is when the command is ended with SIGINT: a
number of seconds, a regular expression of what has been sent, or "" for never.
Understands what a bar needs: carriage return, newline, erase to the end of the line.
"""
import errno
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time


def screen(sent, columns):
    lines, column = [""], 0
    text = sent.decode("utf-8", "replace")
    at = 0
    while at < len(text):
        if text.startswith("\033[K", at):
            lines[-1] = lines[-1][:column]
            at += 3
            continue
        c = text[at]
        at += 1
        if c == "\r":
            column = 0
        elif c == "\n":
            lines.append("")
            column = 0
        else:
            if column == columns:
                lines.append("")
                column = 0
            lines[-1] = lines[-1][:column].ljust(column) + c + lines[-1][column + 1:]
            column += 1
    return lines


def main():
    until, columns, command = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # for the child, until the command has begun
    pid, fd = pty.fork()
    if pid == 0:
        os.execvp(command[0], command)
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    timed = re.fullmatch(r"[0-9.]+", until)
    end = time.monotonic() + float(until) if timed else None
    pattern = re.compile(until.encode()) if until and not timed else None
    sent = b""
    while True:
        left = max(0, end - time.monotonic()) if end else None
        if not select.select([fd], [], [], left)[0]:
            os.kill(pid, signal.SIGINT)
            end = None
            continue
        try:
            got = os.read(fd, 65536)
        except OSError as e:  # Linux says so where others say "end of file"
            if e.errno != errno.EIO:
                raise
            break
        if not got:
            break
        sent += got
        if pattern and pattern.search(sent):
            os.kill(pid, signal.SIGINT)
            pattern = None
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    print(repr(sent.decode("utf-8", "replace")))
    print("\n".join(screen(sent, columns)))
    sys.exit(status if status >= 0 else 128 - status)


main()
