"""Test the wheels of dist/ where there is no compiler, with the tests of the sdist beside them.

x86-64: in fresh Debian roots, made by debootstrap; first, the time from the wheel to a search is measured.
aarch64: under an emulator, with a Python that debian.py unpacks; pip on this machine installs for it.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

from debian import VERSIONS, unpacked_python
from docker_steps import (
    NAMESPACES,
    TEXTS,
    Image,
    make_base,
    mount,
    pip_settings,
    quietly,
    timed,
    visible,
    what_is_missing,
)
from requirements import packages
from wheels import ABIS, DIST, GLIBC, Abi, expect, say, unpack_sdist

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "wheels" / "test"
COMPILERS = ("c++", "cc", "clang", "cmake", "g++", "gcc", "ninja", "zig")
PROMISED_SECONDS = 15
EXTRAS = ("arrow", "client", "evaluate", "ir-datasets", "plot", "serve", "test", "zstd")

#: What CI runs on a wheel for x86-64; otherwise all fast tests run.
QUICK = ("tests/core", "tests/cli/test_cli_startup.py", "tests/search/test_api.py", "tests/storage")
#: What runs under the emulator, which is about ten times slower: the core, files, and every way to search.
EMULATED = (
    "tests/building", "tests/core", "tests/encoders/test_bm25.py", "tests/encoders/test_counting.py", "tests/io",
    "tests/metadata", "tests/paper", "tests/search", "tests/storage", "tests/vectors",
)  # fmt: skip


def main() -> int:
    """Test what is in dist/."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="for x86-64 a named part of the tests")
    parser.add_argument("--arch", choices=["x86_64", "aarch64"], action="append", help="only this architecture")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.inside:
        return test_x86_64(args.quick)
    expect(any(DIST.glob("segmax-*.whl")), "there is no wheel in dist/: make wheels builds them")
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    try:
        for arch in args.arch or ["x86_64", "aarch64"]:
            if arch == "aarch64":
                test_aarch64()
            elif missing := what_is_missing():
                say(f"skipped the wheels for x86-64: fresh Debian roots need {missing}")
            else:
                # All mounts and processes end with these namespaces.
                again = [sys.executable, __file__, "--inside", *(["--quick"] if args.quick else [])]
                subprocess.run([*NAMESPACES, *again], check=True)
    except subprocess.CalledProcessError as error:
        return error.returncode
    finally:
        shutil.rmtree(WORK)
    return 0


def find_wheel(abi: Abi, arch: str) -> Path | None:
    """Return the wheel in dist/, or None if it was not built here."""
    found = sorted(DIST.glob(f"segmax-*-{abi.tag}-manylinux_{GLIBC.replace('.', '_')}_{arch}.whl"))
    expect(len(found) < 2, f"expected one wheel for {abi.tag} and {arch}: {found}")
    if not found:
        say(f"skipped {abi.tag} for {arch}: make wheels has not built it here")
    return found[0] if found else None


def test_packages(quick: bool) -> list[str]:
    """Return the packages that the tests need, beside segmax and what it installs by itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return sorted({package for extra in (("test",) if quick else EXTRAS) for package in packages(project, extra)})


# --- x86-64 ----------------------------------------------------------------------------------------------------------


def test_x86_64(quick: bool) -> int:
    """Install each wheel into a root of its own and test it."""
    for abi in ABIS:
        if not (wheel := find_wheel(abi, "x86_64")):
            continue
        image = Image(abi.suite, WORK / abi.suite)
        with timed(f"a fresh root of Debian {abi.suite} with Python {VERSIONS[abi.suite]} and without a compiler"):
            make_root(image, abi.suite)
        shutil.copy(wheel, image.root / "srv")
        keep_promise(image, wheel.name)
        with timed(f"packages for tests of {wheel.name}"):
            inside(image, ["/srv/env/bin/pip", "install", "-q", "--only-binary", ":all:", *test_packages(quick)])
        image.folder = "/" + str(unpack_sdist(image.root / "srv").relative_to(image.root))
        which = QUICK if quick else ("-n", "auto", "--dist", "worksteal")
        with timed(f"tests of {wheel.name}"):
            inside(image, ["/srv/env/bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *which], show=True)
        subprocess.run(["umount", image.root / "proc", image.root / "dev/shm"], check=True)
        shutil.rmtree(image.root)
    return 0


def make_root(image: Image, suite: str) -> None:
    """Make a root that has Python and no compiler, with a virtual environment in /srv/env."""
    make_base(image.root, suite)
    mount(image.root)
    inside(image, ["/bin/sh", "-ec", "apt-get update; apt-get install -y --no-install-recommends python3-venv"])
    inside(image, ["python3", "-m", "venv", "/srv/env"])
    found = [name for name in COMPILERS if shutil.which(name, path=search_path(image.root))]
    expect(not found, f"expected no compiler in the root, found {found}")


def search_path(root: Path) -> str:
    """Return where a root has its programs."""
    return os.pathsep.join(str(root / name) for name in ("usr/local/bin", "usr/bin", "usr/sbin", "bin", "sbin"))


def keep_promise(image: Image, wheel: str) -> None:
    """Measure the time from the wheel to a search."""
    (image.root / "srv/texts.jsonl").write_text("".join(json.dumps(text) + "\n" for text in TEXTS))
    start, work = time.monotonic(), cpu_seconds()
    inside(image, ["/srv/env/bin/pip", "install", "-q", "--only-binary", ":all:", f"/srv/{wheel}"])
    installed = time.monotonic()
    inside(image, ["/srv/env/bin/segmax", "index", "/srv/texts.jsonl", "/srv/docs.segmax"])
    answer = inside(image, ["/srv/env/bin/segmax", "search", "/srv/docs.segmax", "red"])
    end = time.monotonic()
    expect("red fox" in answer and "red planet" in answer, f"expected the search to find two texts:\n{answer}")
    report = f"{installed - start:.1f} s to install {wheel}, {end - installed:.1f} s to index and search"
    say(f"{end - start:6.1f} s  {report}; promised: {PROMISED_SECONDS} s; CPU: {cpu_seconds() - work:.1f} s")
    busy = os.getloadavg()[0] > (os.cpu_count() or 1) + 1
    if busy:
        say(f"this machine is busy, so the time says little: {os.getloadavg()[0]:.0f} processes want to run")
    expect(busy or end - start < PROMISED_SECONDS, "the promise was not kept")


def cpu_seconds() -> float:
    """Return what all programs took that this process has started and waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def inside(image: Image, command: list[str], *, show: bool = False) -> str:
    """Run a command in a root, with the configuration of pip; return what it printed."""
    variables, places = pip_settings()
    env = {**variables, **image.env, "HOME": "/root", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    with visible(places, image.root):
        output = None if show else subprocess.PIPE
        done = subprocess.run(image.enter(command), env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    if done.returncode:
        raise SystemExit(f"exit code {done.returncode}: {' '.join(command)}\n{done.stdout!r}\n{done.stderr!r}")
    return "" if show else done.stdout.decode()


# --- aarch64 ---------------------------------------------------------------------------------------------------------


def test_aarch64() -> None:
    """Install each wheel for a Python that an emulator runs, and test it."""
    for abi in ABIS:
        if not (wheel := find_wheel(abi, "aarch64")):
            continue
        if not (python := unpacked_python(abi.suite, "arm64")):
            say(f"skipped {wheel.name}: its tests need qemu-aarch64 (Debian's package qemu-user) and apt")
            continue
        version = VERSIONS[abi.suite]
        with timed(f"packages for tests of {wheel.name}, for Python {version}"):
            site = Path(python).parents[1] / "lib" / f"python{version}" / "site-packages"
            shutil.rmtree(site)
            install_for_aarch64([str(wheel), *test_packages(quick=True)], site, version)
        folder = unpack_sdist(WORK / wheel.stem)
        command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *EMULATED]
        with timed(f"tests of {wheel.name}, emulated"):
            subprocess.run(command, cwd=folder, env=without_compilers(), check=True)


def install_for_aarch64(requirements: list[str], site: Path, version: str) -> None:
    """Let pip on this machine choose and unpack wheels for another architecture."""
    platforms = [f"manylinux_2_{number}_aarch64" for number in range(17, 35)] + ["manylinux2014_aarch64"]
    command = [sys.executable, "-m", "pip", "install", "-q", "--target", str(site), "--only-binary", ":all:"]
    command += ["--implementation", "cp", "--python-version", version]
    quietly([*command, *(f"--platform={name}" for name in platforms), *requirements])


def without_compilers() -> dict[str, str]:
    """Return the variables for the emulator: its own folder and this machine's shell are on the path, no compiler."""
    tools = WORK / "bin"
    tools.mkdir(exist_ok=True)
    for name in ("qemu-aarch64", "sh"):
        if not (tools / name).exists():
            (tools / name).symlink_to(str(shutil.which(name)))
    return {"PATH": str(tools), "HOME": str(WORK), "LC_ALL": "C.UTF-8"}


if __name__ == "__main__":
    sys.exit(main())
