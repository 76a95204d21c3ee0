"""peak.py LIMIT COMMAND...: run COMMAND and end as it does, but with 99, and words on stderr, if it
took more than LIMIT MiB of memory at its peak. Its peak is added to the file that PEAKS names."""

import os
import sys

limit, command = int(sys.argv[1]), sys.argv[2:]
pid = os.posix_spawnp(command[0], command, os.environ)
_, status, usage = os.wait4(pid, 0)
peak = usage.ru_maxrss / 1024
code = os.waitstatus_to_exitcode(status)
if "PEAKS" in os.environ:
    with open(os.environ["PEAKS"], "a") as f:
        f.write(f"{peak:.0f} MiB: {' '.join(command[1:])}\n")
if peak > limit:
    print(f"{' '.join(command)}: {peak:.0f} MiB at its peak, more than {limit}", file=sys.stderr)
    code = code or 99
sys.exit(code if code >= 0 else 128 - code)
