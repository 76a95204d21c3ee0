"""Fixtures of the package's tests. COLLCTL names the program, PYTHONPATH the package, COLLCTL_LIBRARY the library."""

import os
import subprocess
import sys

import pytest

PROGRAM = os.environ["COLLCTL"]

# Parts of scripts for `ranks` of three: what each rank has, and every collective but allreduce, by run(function, wanted,
# inputs=given, **settings) of the script.
SHARES = """
rank, size = int(os.environ["COLLCTL_RANK"]), 3
of_all = [np.arange(24, dtype="f4").reshape(6, 4) * (r + 1) for r in range(size)]
mine, total = of_all[rank], sum(of_all)
"""
COLLECTIVES = """
run(collctl.reduce, total if rank == 2 else None, root=2)
run(collctl.reduce_scatter, np.array_split(total, [1, 3])[rank], counts=[1, 2, 3])
run(collctl.broadcast, of_all[1], inputs=given if rank == 1 else None, root=1)
run(collctl.scatter, np.array_split(of_all[0], size)[rank])
run(collctl.gather, np.concatenate(of_all) if rank == 0 else None)
run(collctl.allgather, np.concatenate(of_all))
run(collctl.alltoall, np.concatenate([np.array_split(a, size)[rank] for a in of_all]))
run(collctl.scan, sum(of_all[:rank + 1]))
run(collctl.exscan, sum(of_all[:rank], np.zeros_like(mine)))
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def ranks(here):
    """ranks(n, text): run a script as n ranks, which `collctl run` starts."""

    def run(n, text):
        (here / "script.py").write_text("import os, sys\nimport numpy as np\nimport collctl\n" + text)
        done = subprocess.run(
            [PROGRAM, "run", "-n", str(n), "--", sys.executable, "script.py"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            universal_newlines=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    return run


@pytest.fixture
def store(here):
    """The URL of a store."""
    reader, writer = os.pipe()
    server = subprocess.Popen(
        [PROGRAM, "serve", "--listen", "127.0.0.1:0", "--port-file", "port", "--ready-fd", str(writer)],
        pass_fds=[writer],
        stderr=subprocess.DEVNULL,
    )
    os.close(writer)
    os.read(reader, 1)
    os.close(reader)
    yield f"http://127.0.0.1:{(here / 'port').read_text().strip()}"
    server.terminate()
    server.wait()
