"""python -m collctl: the program collctl."""

import os
import sys

from ._errors import Error
from ._program import program

try:
    path = program()
except Error as e:
    sys.exit(f"collctl: {e}")
os.execv(path, [path, *sys.argv[1:]])
