"""Build and try the image of our Dockerfile without Docker: its steps run in fresh Debian roots.

`debootstrap` makes the base; every stage starts from a copy of it. Then the service starts as the Dockerfile says, as
its user, in a network of its own, and answers a search. Everything happens in namespaces of its own (`unshare`): when
this ends, however it ends, no mount and no process is left. The mirror comes from the configuration of apt, packages
come from where pip's configuration says.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import re
import secrets
import shutil
import signal
import socket
import string
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dockerfile import Stage, Step, is_ignored, read_ignore, read_stages

CONTEXT = Path(__file__).resolve().parents[1]
WORK = CONTEXT / "build" / "docker"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# All of it ends with this process, however this process ends.
NAMESPACES = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
IMAGE = "debian:bookworm-slim"
SUITE = "bookworm"
MACHINE = "/run/machine"  # where the steps see places of this machine


def main() -> int:
    """Run inside new namespaces, and remove the roots afterwards."""
    if missing := what_is_missing():
        say(f"skipped: building the image without Docker needs {missing}")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    try:
        return subprocess.run([*NAMESPACES, sys.executable, __file__, "--inside"]).returncode
    finally:
        shutil.rmtree(WORK)


def what_is_missing() -> str:
    """Name what this machine lacks; empty where everything is there."""
    if os.geteuid() != 0:
        return "root"
    for tool in ("apt-get", "debootstrap", "setpriv", "unshare"):
        if not shutil.which(tool):
            return tool
    if subprocess.run([*NAMESPACES, "--net", "true"], capture_output=True).returncode:
        return "the right to make namespaces"
    return "" if mirrors() else "a mirror of Debian in the configuration of apt"


def inside() -> None:
    """Build the stages, then try the last one."""
    patterns = read_ignore((CONTEXT / ".dockerignore").read_text())
    with timed("debootstrap"):
        base = make_base(WORK / "base", SUITE)
    images: list[Image] = []
    for number, stage in enumerate(read_stages((CONTEXT / "Dockerfile").read_text())):
        image = Image(stage.name, WORK / f"stage{number}")
        build(image, stage, base, images, patterns)
        images.append(image)
    size = subprocess.run(["du", "-smx", images[-1].root], capture_output=True, text=True, check=True).stdout.split()[0]
    say(f"the image has {size} MB")
    with timed("the service"):
        try_service(images[-1])


@contextlib.contextmanager
def timed(what: str) -> Iterator[None]:
    """Print how long a step took."""
    start = time.monotonic()
    yield
    say(f"{time.monotonic() - start:6.1f} s  {what[:100]}")


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


# --- the base: Debian, with the sources of this machine --------------------------------------------------------------


def mirrors() -> dict[str, str]:
    """Return the addresses of Debian by label ("Debian", "Debian-Security"), as apt is configured here."""
    columns = "$(ORIGIN)|$(LABEL)|$(REPO_URI)"
    command = ["apt-get", "indextargets", "--format", columns, "Created-By: Packages"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    rows = [line.split("|") for line in lines]
    return {label: address for origin, label, address in rows if origin == "Debian"}


def make_base(root: Path, suite: str) -> Path:
    """Make what a slim image of Debian is: the packages that every Debian has, without documentation."""
    found = mirrors()
    quietly(["debootstrap", "--variant=minbase", suite, str(root), found["Debian"]])
    sources = [f"deb {found['Debian']} {name} main\n" for name in (suite, f"{suite}-updates")]
    if "Debian-Security" in found:
        sources.append(f"deb {found['Debian-Security']} {suite}-security main\n")
    for name in ("var/cache/apt/archives", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale", "usr/share/man"):
        shutil.rmtree(root / name)
    (root / "etc/apt/sources.list").write_text("".join(sources))
    (root / "etc/apt/apt.conf.d/machine").write_text(apt_settings())
    (root / "etc/dpkg/dpkg.cfg.d/slim").write_text("force-unsafe-io\npath-exclude /usr/share/doc/*\n")
    for name in ("hosts", "resolv.conf"):
        shutil.copy(f"/etc/{name}", root / "etc" / name)
    return root


def apt_settings() -> str:
    """Return what apt is configured with here to reach its mirror, such as a proxy."""
    lines = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=True).stdout.splitlines()
    kept = [line for line in lines if re.match(r"Acquire::(https?::|Check-Valid-Until|Retries)", line)]
    # As in Debian's images, which keep no caches either.
    slim = ['Acquire::Languages "none";', 'Dir::Cache::pkgcache "";', 'Dir::Cache::srcpkgcache "";']
    return "".join(f"{line}\n" for line in [*kept, *slim, 'APT::Keep-Downloaded-Packages "false";'])


def pip_settings() -> tuple[dict[str, str], list[Path]]:
    """Return the configuration of pip as variables, and the places on this machine that it names.

    Inside a root, those places are under `MACHINE`. A local index has its files beside it.
    """
    lines = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True).stdout
    found = re.findall(r"^(?:global|install|:env:)\.([\w-]+)='(.*)'$", lines, flags=re.MULTILINE)
    variables: dict[str, str] = {}
    places: list[Path] = []
    for name, value in found:
        words = value.split()
        for number, word in enumerate(words):
            local = Path(word.removeprefix("file://"))
            if local.is_absolute() and local.exists():
                places.append(local.parent if word.startswith("file:") else local)
                words[number] = word.replace(str(local), f"{MACHINE}{local}")
        variables[f"PIP_{name.upper().replace('-', '_')}"] = " ".join(words)
    return variables, list(dict.fromkeys(places))


def quietly(command: list[str], env: dict[str, str] | None = None) -> None:
    """Run a command; print its output only if it fails."""
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        sys.stdout.buffer.write(done.stdout[-4_000:])
        raise SystemExit(f"exit code {done.returncode}: {' '.join(command)}")


# --- the steps -------------------------------------------------------------------------------------------------------


@dataclass
class Image:
    """A stage while it is built: its root, and what its instructions have set."""

    name: str
    root: Path
    env: dict[str, str] = field(default_factory=lambda: {"PATH": PATH})
    arguments: dict[str, str] = field(default_factory=dict)
    folder: str = "/"
    user: str = "root"
    commands: dict[str, list[str]] = field(default_factory=dict)

    def place(self, name: str) -> Path:
        """Return where a path of the image is on this machine; a relative one starts at WORKDIR."""
        return self.root / os.path.normpath(f"{self.folder}/{name}" if not name.startswith("/") else name).lstrip("/")

    def enter(self, command: list[str]) -> list[str]:
        """Return the command that runs a command inside; its process becomes the command itself."""
        script = 'cd "$0" && exec "$@"'
        return ["chroot", f"--userspec={self.user}", str(self.root), "/bin/sh", "-c", script, self.folder, *command]


def build(image: Image, stage: Stage, base: Path, images: list[Image], patterns: list[str]) -> None:
    """Execute the steps of a stage."""
    if stage.base != IMAGE:
        raise SystemExit(f"FROM {stage.base}: only {IMAGE} can be made here")
    with timed(f"FROM {stage.base} {stage.name}"):
        quietly(["cp", "-a", str(base), str(image.root)])
        mount(image.root)
    for step in stage.steps:
        with timed(f"{step.name} {step.text}"):
            execute(image, step, images, patterns)


def mount(root: Path) -> None:
    """Mount what Docker gives to every container."""
    quietly(["mount", "-t", "proc", "proc", str(root / "proc")])
    quietly(["mount", "-t", "tmpfs", "-o", "size=64m,mode=1777", "shm", str(root / "dev/shm")])


@contextlib.contextmanager
def visible(places: list[Path], root: Path) -> Iterator[None]:
    """Show places of this machine to a step, under `MACHINE`, and leave no trace of them."""
    with contextlib.ExitStack() as stack:
        for place in places:
            inner = Path(f"{root}{MACHINE}{place}")
            (inner if place.is_dir() else inner.parent).mkdir(parents=True, exist_ok=True)
            if place.is_file():
                inner.touch()
            quietly(["mount", "--bind", "-o", "ro", str(place), str(inner)])
            stack.callback(quietly, ["umount", str(inner)])
        yield
    shutil.rmtree(f"{root}{MACHINE}", ignore_errors=True)


def execute(image: Image, step: Step, images: list[Image], patterns: list[str]) -> None:
    """Execute one step."""
    text = string.Template(step.text).safe_substitute({**image.arguments, **image.env})
    filled = Step(step.name, text, step.flags)
    match step.name:
        case "RUN":
            variables, places = pip_settings()
            with visible(places, image.root):
                command = image.enter(["/bin/sh", "-c", step.text])
                quietly(command, env={**variables, **image.arguments, **image.env})
        case "COPY":
            copy(image, filled, images, patterns)
        case "ARG":
            image.arguments.update(filled.pairs())
        case "ENV":
            image.env.update(filled.pairs())
        case "WORKDIR":
            image.place(text).mkdir(parents=True, exist_ok=True)
            image.folder = "/" + str(image.place(text).relative_to(image.root))
        case "USER":
            image.user = text
        case "CMD" | "ENTRYPOINT" | "HEALTHCHECK":
            image.commands[step.name] = step.command()
        case "EXPOSE" | "VOLUME":
            pass  # they change no file and no command


def copy(image: Image, step: Step, images: list[Image], patterns: list[str]) -> None:
    """Copy files of the context, or of an earlier stage."""
    *sources, target = step.words()
    if "from" in step.flags:
        [earlier] = [other for other in images if other.name == step.flags["from"]]
        for source in sources:
            image.place(target).mkdir(parents=True, exist_ok=True)
            quietly(["cp", "-a", f"{earlier.place(source)}/.", str(image.place(target))])
        return
    for source in sources:
        if (CONTEXT / source).is_dir():
            copy_folder(CONTEXT / source, image.place(target), patterns)
        elif is_ignored(source, patterns):
            raise SystemExit(f"COPY {source}: .dockerignore keeps it out")
        else:
            inner = image.place(target) / Path(source).name if target.endswith("/") else image.place(target)
            shutil.copy(CONTEXT / source, inner)


def copy_folder(source: Path, target: Path, patterns: list[str]) -> None:
    """Copy the content of a folder of the context, less what .dockerignore keeps out."""
    for path in sorted(source.rglob("*")):
        if path.is_file() and not is_ignored(path.relative_to(CONTEXT).as_posix(), patterns):
            inner = target / path.relative_to(source)
            inner.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, inner)


# --- the service -----------------------------------------------------------------------------------------------------

TEXTS = [{"id": "a", "text": "a red fox"}, {"id": "b", "text": "a blue whale"}, {"id": "c", "text": "the red planet"}]


def try_service(image: Image) -> None:
    """Start the service as `docker run` would, and use it."""
    own_network()
    start = image.commands["ENTRYPOINT"]
    outcome = inspect(image, [*start, *image.commands["CMD"]])
    expect(outcome.returncode == 0 and "usage: segmax serve" in outcome.stdout, "it prints its help", outcome)
    write_data(image)
    outcome = inspect(image, [*start, "docs.segmax"])
    expect(outcome.returncode != 0 and "--api-keys" in outcome.stderr, "it asks for keys", outcome)
    key = secrets.token_urlsafe()
    keys = image.place("/run/keys")
    keys.write_text(f"read {key}\n")
    shutil.chown(keys, int(inspect(image, ["id", "-u"]).stdout))
    keys.chmod(0o400)
    process = subprocess.Popen(image.enter([*start, "docs.segmax", "--api-keys", "/run/keys"]), env=image.env)
    try:
        wait_until_healthy(image, process)
        expect(search("") == (401, []), "a search without a key is refused")
        expect(search(key) == (200, ["a", "c"]), "a search with a key finds the documents")
        process.send_signal(signal.SIGTERM)
        expect(process.wait(30) == 0, "it ends with exit code 0 after SIGTERM", process.returncode)
        outcome = inspect(image, image.commands["HEALTHCHECK"])
        expect(outcome.returncode == 1, "the health check fails when the service is not there", outcome)
    finally:
        process.kill()


def own_network() -> None:
    """Move this process into a network that has nothing but the loopback device, and start that."""
    new_network, set_flags, up = 0x40000000, 0x8914, 1  # CLONE_NEWNET, SIOCSIFFLAGS, IFF_UP
    if ctypes.CDLL(None, use_errno=True).unshare(new_network):
        raise OSError(ctypes.get_errno(), "unshare")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
        fcntl.ioctl(device, set_flags, struct.pack("16sh14x", b"lo", up))


def write_data(image: Image) -> None:
    """Build an index in WORKDIR with the image itself, as its user."""
    image.place("texts.jsonl").write_text("".join(json.dumps(text) + "\n" for text in TEXTS))
    outcome = inspect(image, ["segmax", "index", "texts.jsonl", "docs.segmax"])
    expect(outcome.returncode == 0, "it builds an index", outcome)


def inspect(image: Image, command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command inside and return what it printed."""
    return subprocess.run(image.enter(command), env=image.env, capture_output=True, text=True, timeout=120)


def wait_until_healthy(image: Image, process: subprocess.Popen[bytes]) -> None:
    """Ask the HEALTHCHECK until it succeeds."""
    for _ in range(60):
        outcome = inspect(image, image.commands["HEALTHCHECK"])
        if outcome.returncode == 0:
            return
        expect(process.poll() is None, "it keeps running", outcome)
        time.sleep(0.5)
    expect(False, "the health check succeeds", outcome)


def search(key: str) -> tuple[int, list[str]]:
    """Search for a word; return the status and the ids that were found."""
    request = urllib.request.Request(
        "http://127.0.0.1:8080/v1/indexes/docs/search",
        data=json.dumps({"text": "red"}).encode(),
        headers={"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})},
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, sorted(hit["id"] for hit in json.load(answer)["hits"])
    except urllib.error.HTTPError as error:
        return error.code, []


def expect(holds: bool, what: str, seen: object = "") -> None:
    """Stop if the image does not do what it should."""
    if not holds:
        raise SystemExit(f"the image should have done this: {what}\n{seen}")


if __name__ == "__main__":
    sys.exit(inside() if "--inside" in sys.argv else main())
