"""Pythons of Debian for any suite and architecture, unpacked into a folder instead of installed.

They run where they lie: those of x86-64 by their own loader, those of aarch64 by an emulator. Needs apt but not root;
the mirror comes from the configuration of apt.
"""

import functools
import shutil
import subprocess
from pathlib import Path

from docker_steps import mirrors, quietly

WORK = Path(__file__).resolve().parents[1] / "build" / "debian"
VERSIONS = {"bookworm": "3.11", "trixie": "3.13"}
TRIPLETS = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}


@functools.cache
def unpacked_python(suite: str, arch: str) -> str | None:
    """Return the command of a Python in a virtual environment without pip, or None where it cannot be had."""
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb") and mirrors()):
        return None
    if arch == "arm64" and not shutil.which("qemu-aarch64"):
        return None
    version = VERSIONS[suite]
    root = WORK / f"{suite}-{arch}"
    if not (root / "complete").exists():
        shutil.rmtree(root, ignore_errors=True)
        # numpy wants the C++ library of the system, as every Debian has it.
        packages = download(suite, arch, [f"python{version}", "libstdc++6"], [f"libpython{version}-dev"])
        unpack(packages, root)
        # The header that Debian has here only finds the real one in /usr/include.
        headers = root / "usr" / "include"
        shutil.copy(headers / TRIPLETS[arch] / f"python{version}" / "pyconfig.h", headers / f"python{version}")
        (root / "complete").touch()
    return environment(root, arch, version)


def download(suite: str, arch: str, packages: list[str], alone: list[str]) -> list[Path]:
    """Fetch packages with what they depend on, and those in `alone` without; the apt of this machine stays as it is."""
    state = WORK / f"apt-{suite}-{arch}"
    for name in ("lists/partial", "archives/partial", "files"):
        (state / name).mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    keys = "/usr/share/keyrings/debian-archive-keyring.gpg"
    (state / "sources.list").write_text(f"deb [signed-by={keys}] {mirrors()['Debian']} {suite} main\n")
    options = {
        "APT::Architecture": arch,
        "APT::Architectures": arch,
        "APT::Sandbox::User": "root",  # the user _apt cannot write here
        "Acquire::Languages": "none",
        "Dir::Cache::archives": state / "archives",
        "Dir::Cache::pkgcache": "",
        "Dir::Cache::srcpkgcache": "",
        "Dir::Etc::sourcelist": state / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": state / "lists",
        "Dir::State::status": state / "status",
    }
    apt = ["apt-get", *(f"-o{name}={value}" for name, value in options.items())]
    quietly([*apt, "update"])
    quietly([*apt, "install", "--download-only", "--yes", "--no-install-recommends", *packages])
    script = 'cd "$0" && exec "$@"'
    quietly(["/bin/sh", "-c", script, str(state / "files"), *apt, "download", *alone])
    return [*(state / "archives").glob("*.deb"), *(state / "files").glob("*.deb")]


def unpack(packages: list[Path], root: Path) -> None:
    """Unpack packages; folders such as /lib are links to those in /usr, as in every Debian."""
    for name in ("bin", "lib", "lib64", "sbin"):
        (root / "usr" / name).mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(f"usr/{name}")
    for package in packages:
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE) as content:
            tar = ["tar", "-x", "--keep-directory-symlink", "--no-same-owner", "-C", str(root)]
            subprocess.run(tar, stdin=content.stdout, check=True)
        if content.returncode:
            raise SystemExit(f"{package} cannot be unpacked")


def environment(root: Path, arch: str, version: str) -> str:
    """Make a virtual environment whose `python` is a script, which any program can start, also one that runs inside."""
    folder = root / "env"
    program = root / "usr" / "bin" / f"python{version}"
    if arch == "arm64":
        # With the default CPU of qemu 7.2, numpy warned of divisions by zero in matrix products; not with this one.
        run = f'qemu-aarch64 -cpu cortex-a72 -L {root} -0 "$0" {program}'
    else:
        libraries = root / "usr" / "lib" / TRIPLETS[arch]
        run = f'{root}/lib64/ld-linux-x86-64.so.2 --argv0 "$0" --library-path {libraries} {program}'
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    (folder / "lib" / f"python{version}" / "site-packages").mkdir(parents=True, exist_ok=True)
    (folder / "pyvenv.cfg").write_text(f"home = {root}/usr/bin\ninclude-system-site-packages = false\n")
    python = folder / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {run} "$@"\n')
    python.chmod(0o755)
    return str(python)
