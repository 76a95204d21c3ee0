"""Fixtures of the package's tests. COLLCTL names the program, PYTHONPATH the package, COLLCTL_LIBRARY the library."""

import os
import subprocess
import sys

import pytest

PROGRAM = os.environ["COLLCTL"]


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
