"""terminal.py SECONDS COLUMNS COMMAND...: run COMMAND on a terminal of that width, as its controlling one.

Prints what the terminal was sent, as Python's repr, then the lines that stand on its screen at the
end. Ends with the command's exit code; ends the command with SIGINT after SECONDS (0: waits).
Understands what a bar needs: carriage return, newline, erase to the end of the line.
"""
import errno
import fcntl
import os
import pty
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
    seconds, columns, command = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    pid, fd = pty.fork()
    if pid == 0:
        os.execvp(command[0], command)
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    end = time.monotonic() + seconds if seconds else None
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
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    print(repr(sent.decode("utf-8", "replace")))
    print("\n".join(screen(sent, columns)))
    sys.exit(status if status >= 0 else 128 - status)


main()
