#!/usr/bin/env python3
"""Pack a program and a shared library of collctl, and the package in python/collctl, as a wheel.

    python/wheel.py --version VERSION --output FOLDER [--local] [--own FOLDER] [--map FILE]... PROGRAM LIBRARY

Prints the wheel's name. The name says the oldest glibc that has all symbols that the two files need, as auditwheel
does (PEP 600). What needs another library than those of glibc runs on this machine only: that is an error, or with --local
a wheel for this machine. The same files give the same bytes. READELF names the program readelf.

--map is a map of the linker: the wheel has the licence of each archive that it names, but of those in the folder --own."""

import argparse
import base64
import hashlib
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

PACKAGE = Path(__file__).parent / "collctl"
README = Path(__file__).parent / "README.md"
TIME = (1980, 1, 1, 0, 0, 0)  # of all members: the oldest that a zip file has
PROCESSORS = {"Advanced Micro Devices X86-64": "x86_64", "AArch64": "aarch64"}
# The parts of glibc: PEP 600 allows them. Other names of this kind are its dynamic linker.
GLIBC = {
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
}

# Archives of the compiler and of glibc, whose licences ask nothing of what is linked with them.
COMPILER = {"libgcc.a", "libgcc_eh.a", "libc_nonshared.a"}

COMMON = "/usr/share/common-licenses"

METADATA = """\
Metadata-Version: 2.1
Name: collctl
Version: {version}
Summary: Collective operations over files and arrays between machines
License: MIT
Keywords: allreduce,broadcast,collective,distributed,checkpoint
Classifier: Environment :: Console
Classifier: License :: OSI Approved :: MIT License
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: C
Classifier: Programming Language :: Python :: 3
Classifier: Topic :: System :: Distributed Computing
Classifier: Typing :: Typed
Requires-Python: >=3.8
Description-Content-Type: text/markdown

{description}"""

WHEEL = """\
Wheel-Version: 1.0
Generator: collctl
Root-Is-Purelib: false
Tag: py3-none-{platform}
"""


def readelf(option, file):
    command = [os.environ.get("READELF", "readelf"), "-W", option, file]
    return subprocess.run(
        command, check=True, stdout=subprocess.PIPE, universal_newlines=True, env={**os.environ, "LC_ALL": "C"}
    ).stdout


def platform_of(files, local):
    """The platform's tag."""
    machines = {re.search(r"Machine: +(.+)", readelf("-h", f)).group(1) for f in files}
    processor = PROCESSORS[machines.pop()]
    if machines:
        sys.exit("wheel.py: the files are for several processors")
    others = sorted({name for f in files for name in re.findall(r"\(NEEDED\).*\[(.+)\]", readelf("-d", f))} - GLIBC)
    if others and not local:
        sys.exit(f"wheel.py: libraries that other machines may lack are needed: {', '.join(others)}")
    if others:
        return f"linux_{processor}"
    needs = [readelf("-V", f) for f in files]
    # A mark of a property, such as packed relocations: glibc 2.36 is the first that has one.
    minor = max(int(v) for text in needs for v in re.findall(r"Name: GLIBC_2\.(\d+)", text))
    if any("GLIBC_ABI_" in text for text in needs):
        minor = max(minor, 36)
    return f"manylinux_2_{minor}_{processor}"


def licence_of(archive):
    """The text of the licence: beside what lib/static.sh has compiled, else that of Debian's package."""
    compiled = archive.parent.parent / "licenses" / archive.name
    if compiled.exists():
        return compiled.resolve()
    found = subprocess.run(
        ["dpkg", "-S", archive.resolve()], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, universal_newlines=True, check=False
    )
    package = found.stdout.split(":")[0]
    text = Path("/usr/share/doc") / package / "copyright"
    if not package or not text.exists():
        sys.exit(f"wheel.py: {archive}: no licence is known: neither {compiled} nor that of a package of Debian")
    return text


def licences(maps, own):
    """{name: text} of the libraries of whose archives the two files have parts, and of the licences that these texts name
    as files of Debian."""
    archives = {
        Path(name) for m in maps for name in re.findall(r"^(\S+\.a)\(", m.read_text(errors="replace"), re.MULTILINE)
    }
    texts = {}
    for a in sorted(archives):
        if a.name not in COMPILER and not (own and own.resolve() in a.resolve().parents):
            text = licence_of(a)
            texts[text.parent.name if text.name == "copyright" else text.name] = text.read_bytes()
    for name in {n.decode().rstrip(".") for t in texts.values() for n in re.findall(COMMON.encode() + rb"/([\w.+-]+)", t)}:
        texts[f"common-licenses/{name}"] = Path(COMMON, name).read_bytes()
    return texts


def members(version, platform, texts, program, library):
    """(name, bytes, executable) of each member but RECORD."""
    info = f"collctl-{version}.dist-info"
    for file in sorted(PACKAGE.iterdir()):
        if file.suffix == ".py" or file.name == "py.typed":
            yield f"collctl/{file.name}", file.read_bytes(), False
    yield f"collctl/{library.name}", library.read_bytes(), True
    yield f"collctl-{version}.data/scripts/{program.name}", program.read_bytes(), True
    yield f"{info}/LICENSE", (PACKAGE.parent.parent / "LICENSE").read_bytes(), False
    for name in sorted(texts):
        yield f"{info}/licenses/{name}", texts[name], False
    yield f"{info}/METADATA", METADATA.format(version=version, description=README.read_text()).encode(), False
    yield f"{info}/WHEEL", WHEEL.format(platform=platform).encode(), False


def pack(path, version, contents):
    record = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:

        def add(name, data, executable=False):
            member = zipfile.ZipInfo(name, TIME)
            member.compress_type = zipfile.ZIP_DEFLATED
            member.create_system = 3  # Unix, whatever packs it
            member.external_attr = (0o100755 if executable else 0o100644) << 16
            z.writestr(member, data)

        for name, data, executable in contents:
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}\n")
            add(name, data, executable)
        name = f"collctl-{version}.dist-info/RECORD"
        add(name, "".join([*record, f"{name},,\n"]).encode())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", required=True)
    parser.add_argument("--output", required=True, type=Path)
    parser.add_argument("--local", action="store_true")
    parser.add_argument("--own", type=Path)
    parser.add_argument("--map", type=Path, action="append", default=[])
    parser.add_argument("program", type=Path)
    parser.add_argument("library", type=Path)
    a = parser.parse_args()
    platform = platform_of([a.program, a.library], a.local)
    path = a.output / f"collctl-{a.version}-py3-none-{platform}.whl"
    pack(path, a.version, members(a.version, platform, licences(a.map, a.own), a.program, a.library))
    print(path)


if __name__ == "__main__":
    main()
