"""terminal.py UNTIL COLUMNS[,COLUMNS...] COMMAND...: run COMMAND on a terminal of that width, as its controlling one.

Prints what the terminal was sent, as Python's repr, then the lines that stand on its screen at the
end, and ends with the command's exit code. UNTIL is when the command is ended with SIGINT: a
number of seconds, a regular expression of what has been sent, or "" for never. With several widths,
the terminal gets the next one when the regular expression matches, which is then awaited again; the
screen is printed twice, that of a terminal that wraps lines anew, and that of one that cuts them.
Understands what a bar and colours need: carriage return, newline, erase to the end of the line or of
the screen, styles.
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
import unicodedata


class Screen:
    """Lines as they were written, which the terminal shows as rows of `columns` cells."""

    def __init__(self, columns, wraps_anew):
        self.columns, self.wraps_anew = columns, wraps_anew
        self.lines, self.line, self.at = [[]], 0, 0
        self.full = False  # the cursor is on the last cell of a row, which it has just written

    def rows(self, line):
        return [line[i:i + self.columns] for i in range(0, len(line), self.columns)] or [[]]

    def row_start(self):
        return (self.at - self.full) // self.columns * self.columns

    def resize(self, columns):
        if not self.wraps_anew:
            row, column = self.row_start() // self.columns, self.at - self.row_start()
            row += sum(len(self.rows(line)) for line in self.lines[:self.line])
            self.lines = [r[:columns] for line in self.lines for r in self.rows(line)]
            self.line, self.at = row, min(column, columns - 1)
        self.columns, self.full = columns, False

    def put(self, c):
        width = 0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        line = self.lines[self.line]
        line.extend(" " * (self.at - len(line)))
        if width == 0:
            line[self.at - 1] += c
            return
        line[self.at:self.at + width] = [c, ""][:width]
        self.at += width
        self.full = self.at % self.columns == 0

    def newline(self):
        if self.row_start() + self.columns < len(self.lines[self.line]):
            self.at = self.row_start() + self.columns
        else:
            self.line, self.at = self.line + 1, 0
            if self.line == len(self.lines):
                self.lines.append([])
        self.full = False

    def erase(self, all_below):
        line = self.lines[self.line]
        end = self.row_start() + self.columns
        if all_below or end >= len(line):
            del line[self.at:]
        else:
            line[self.at:end] = [" "] * (end - self.at)
        if all_below:
            del self.lines[self.line + 1:]

    def write(self, text):
        for m in re.finditer(r"\033\[([0-9;]*)([A-Za-z])|(.)", text, re.DOTALL):
            if m[2] in ("K", "J") and not m[1]:
                self.erase(m[2] == "J")
            elif m[2] == "m":
                pass
            elif m[3] == "\r":
                self.at, self.full = self.row_start(), False
            elif m[3] == "\n":
                self.newline()
            else:
                for c in m[0]:
                    self.put(c)

    def text(self):
        return "\n".join("".join(row) for line in self.lines for row in self.rows(line))


def set_width(fd, columns):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


def read(fd):
    """What the terminal was sent; b"" at the end."""
    try:
        return os.read(fd, 65536)
    except OSError as e:  # Linux says so where others say "end of file"
        if e.errno != errno.EIO:
            raise
        return b""


def resize(pid, fd, columns):
    """Resize the terminal while the command stands still; returns what was sent before."""
    sent = b""
    os.kill(pid, signal.SIGSTOP)
    os.waitpid(pid, os.WUNTRACED)
    while select.select([fd], [], [], 0)[0]:
        sent += read(fd)
    set_width(fd, columns)
    os.kill(pid, signal.SIGCONT)
    return sent


def main():
    until, widths, command = sys.argv[1], [int(w) for w in sys.argv[2].split(",")], sys.argv[3:]
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # for the child, until the command has begun
    pid, fd = pty.fork()
    if pid == 0:
        set_width(1, widths[0])  # before the command looks
        os.execvp(command[0], command)
    timed = re.fullmatch(r"[0-9.]+", until)
    end = time.monotonic() + float(until) if timed else None
    pattern = re.compile(until.encode()) if until and not timed else None
    parts = [b""]  # sent at each width
    while True:
        left = max(0, end - time.monotonic()) if end else None
        if not select.select([fd], [], [], left)[0]:
            os.kill(pid, signal.SIGINT)
            end = None
            continue
        got = read(fd)
        if not got:
            break
        parts[-1] += got
        if pattern and pattern.search(parts[-1]):
            if len(parts) < len(widths):
                parts[-1] += resize(pid, fd, widths[len(parts)])
                parts.append(b"")
            else:
                os.kill(pid, signal.SIGINT)
                pattern = None
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    print(repr(b"".join(parts).decode("utf-8", "replace")))
    for wraps_anew in (True, False)[:len(widths)]:
        screen = Screen(widths[0], wraps_anew)
        for k, part in enumerate(parts):
            if k:
                screen.resize(widths[k])
            screen.write(part.decode("utf-8", "replace"))
        print(screen.text())
    sys.exit(status if status >= 0 else 128 - status)


main()
