"""`segmax serve`: put indexes and collections on a port, with an API and a page."""

from __future__ import annotations

import argparse
import os
import socket
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from segmax.base.display import counted, printable
from segmax.base.errors import ConfigError
from segmax.base.system import claim_port
from segmax.cli.parser import CommandParser, real_number, whole_number
from segmax.serve.needed import need_packages

if TYPE_CHECKING:
    from segmax.serve.settings import Settings

# Lines of at most 80 characters: argparse shows these texts as they are.
_HELP = """\
Serve indexes and collections over HTTP: an API for programs, described at
/v1/openapi.json, and a page for people, at /. Each is served under the name of
its folder, without .segmax; NAME=PATH chooses another name.

The service listens on this machine only, and nobody can change anything. Other
machines need --host, and then keys (--api-keys) or an explicit --no-auth;
changes to collections need --writable.

PATH may be ray://PATH for a sharded index, whose shards are opened on a Ray
cluster. Options follow as in a URL: ray:///data/docs.sharded?replicas=2. They
are replicas, address, deadline_s, allow_partial, hedge, num_cpus, threads,
cache and start_s, as for segmax.ray.open.
"""
_EXAMPLES = """\
  segmax serve docs.segmax
  segmax serve docs.segmax papers --writable --snapshots backups --workers 4
  segmax serve bm25=docs.segmax splade=splade.segmax --encoder splade=stored
  segmax serve docs.segmax --host 0.0.0.0 --api-keys keys.txt
  segmax serve 'ray:///data/docs.sharded?replicas=2&address=auto&deadline_s=5'
"""

#: Options that have another name in Python than on the command line.
NAMES = {
    "body_bytes": "--max-body-mb",
    "answer_bytes": "--max-answer-mb",
    "unread_bytes": "--max-unread-mb",
    "k": "--max-k",
    "batch": "--max-batch",
    "terms": "--max-terms",
    "connections": "--max-connections",
    "wait_ms": "--max-wait-ms",
    "header_seconds": "--header-timeout",
}


def parser() -> argparse.ArgumentParser:
    """Return the parser of `segmax serve`."""
    made = CommandParser("serve", _HELP, _EXAMPLES, usage="segmax serve [options] [NAME=]PATH ...")
    made.add_argument("paths", metavar="[NAME=]PATH", nargs="+", help="an index or a collection, or ray://PATH")
    made.add_argument("--host", metavar="ADDRESS", default="127.0.0.1", help="where to listen (default: %(default)s)")
    made.add_argument("--port", metavar="N", type=whole_number, default=8080, help="0: any free one (default: 8080)")
    made.add_argument(
        "--workers", metavar="N", type=whole_number, default=1, help="processes that answer requests (default: 1)"
    )
    made.add_argument(
        "--threads",
        metavar="N",
        type=whole_number,
        help="threads for searches in each worker (default: cores / workers)",
    )
    made.add_argument("--writable", action="store_true", help="let requests change collections")
    made.add_argument("--snapshots", metavar="FOLDER", help="folder for the copies that POST .../snapshot makes")
    made.add_argument(
        "--encoder",
        metavar="[NAME=]X",
        action="append",
        default=[],
        help="what encodes texts: a model's name or folder, or 'stored' for the model that an index names, "
        "if you trust the index (default: BM25 where an index was built with it)",
    )
    keys = made.add_argument_group("access")
    keys.add_argument("--api-keys", metavar="FILE", help="a key per line: 'read KEY' or 'write KEY'")
    keys.add_argument("--no-auth", action="store_true", help="let everybody in who can reach the port")
    keys.add_argument(
        "--allow-host",
        metavar="NAME",
        action="append",
        default=[],
        help="a name by which clients address the service, such as that of a proxy",
    )
    limits = made.add_argument_group("limits")
    limits.add_argument(
        "--max-body-mb", metavar="X", type=real_number, default=16.0, help="size of a request (default: %(default)s)"
    )
    limits.add_argument(
        "--max-answer-mb", metavar="X", type=real_number, default=64.0, help="size of an answer (default: %(default)s)"
    )
    limits.add_argument(
        "--max-unread-mb",
        metavar="X",
        type=real_number,
        default=256.0,
        help="size of the answers that a worker keeps until clients have read them (default: %(default)s)",
    )
    limits.add_argument(
        "--max-k", metavar="N", type=whole_number, default=10_000, help="results of a search (default: %(default)s)"
    )
    limits.add_argument(
        "--max-batch", metavar="N", type=whole_number, default=1024, help="queries of a batch (default: %(default)s)"
    )
    limits.add_argument(
        "--max-terms", metavar="N", type=whole_number, default=4096, help="terms of a query (default: %(default)s)"
    )
    limits.add_argument(
        "--max-connections",
        metavar="N",
        type=whole_number,
        default=1000,
        help="open connections of a worker (default: %(default)s)",
    )
    limits.add_argument(
        "--max-wait-ms",
        metavar="X",
        type=real_number,
        default=2.0,
        help="how long a search may have to wait for others before it gets status 503 (default: %(default)s)",
    )
    limits.add_argument(
        "--header-timeout",
        metavar="SECONDS",
        type=real_number,
        default=10.0,
        help="for the head of a request (default: %(default)s)",
    )
    made.add_argument("--access-log", action="store_true", help="log every request to standard error, without queries")
    return made


def run(args: argparse.Namespace) -> None:
    """Run `segmax serve`."""
    with tempfile.TemporaryDirectory(prefix="segmax-serve-") as folder:  # which nobody else may read
        if args.workers > 1:
            # Prometheus' library looks for this when it is loaded: where processes keep figures for each other.
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
            # Workers take turns accepting connections, so that none of them gets most.
            os.environ.setdefault("UV_TCP_SINGLE_ACCEPT", "1")
        # One thread is enough for what numpy does here.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        _serve(args, Path(folder))


def _serve(args: argparse.Namespace, folder: Path) -> None:
    if args.workers == 1:
        need_packages()  # of several processes, those import them that use them
    settings = settings_of(args)
    sock = _bound(args.host, args.port)
    address = _address(args.host, sock)

    def on_ready() -> None:
        _say_ready(settings, address)

    if settings.workers == 1:
        from segmax.serve.server import run_server

        run_server(settings, sock, None, on_ready)
    else:
        from segmax.serve.workers import Processes

        Processes(settings, sock, folder).run(on_ready)


def settings_of(args: argparse.Namespace) -> Settings:
    """Return what the arguments ask for, checked."""
    from segmax.serve.security import HostCheck, Keys, checked_host
    from segmax.serve.settings import Limits, Settings

    keys = None if args.api_keys is None else Keys.from_file(Path(args.api_keys))
    checked_host(args.host, keys, no_auth=args.no_auth)
    paths = _named_paths(args.paths)
    return Settings(
        paths=paths,
        encoders=_named_encoders(args.encoder, list(paths)),
        writable=args.writable,
        snapshots=None if args.snapshots is None else _snapshots(Path(args.snapshots)),
        keys=keys,
        hosts=HostCheck.of(args.host, args.allow_host, has_keys=keys is not None),
        threads=args.threads,
        workers=args.workers,
        access_log=args.access_log,
        limits=Limits(
            body_bytes=int(args.max_body_mb * (1 << 20)),
            answer_bytes=int(args.max_answer_mb * (1 << 20)),
            unread_bytes=int(args.max_unread_mb * (1 << 20)),
            k=args.max_k,
            batch=args.max_batch,
            terms=args.max_terms,
            connections=args.max_connections,
            wait_ms=args.max_wait_ms,
            header_seconds=args.header_timeout,
        ),
    )


def _named_paths(given: list[str]) -> dict[str, Path | str]:
    """Return folders and addresses by name; a name may stand before the path."""
    from segmax.ray.address import is_ray_address, parse_ray_address
    from segmax.serve.settings import name_of

    found: dict[str, Path | str] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if not (equals and name and "/" not in name and not Path(text).exists()):
            name, path = name_of(text), text
        if name in found:
            raise ConfigError(
                expected="a name of its own for each path",
                got=f"'{found[name]}' and '{path}', both named {name!r}",
                hint="write NAME=PATH to name one of them",
            )
        if is_ray_address(path):
            parse_ray_address(path)  # raises here for what is wrong with it
        found[name] = path if is_ray_address(path) else Path(path)
    return found


def _named_encoders(given: list[str], names: list[str]) -> dict[str, object]:
    """Return encoders by the name of the index; without a name, an encoder is for all of them."""
    found: dict[str, object] = {}
    for text in given:
        name, equals, encoder = text.partition("=")
        if not equals or Path(text).exists():
            found |= dict.fromkeys(names, text)
        elif name in names:
            found[name] = encoder
        else:
            raise ConfigError(option="encoder", expected=f"for one of {', '.join(names)}", got=f"one for {name!r}")
    return found


def _snapshots(folder: Path) -> Path:
    if not folder.is_dir():
        raise ConfigError(option="snapshots", expected="a folder", got=f"'{folder}', which is not a folder")
    return folder.absolute()


def _bound(host: str, port: int) -> socket.socket:
    """Return a socket that listens."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        claim_port(sock)
        sock.bind((host.strip("[]"), port))
        sock.listen(2048)
    except (OSError, OverflowError) as error:
        sock.close()
        raise ConfigError(
            expected="an address and a port to listen on",
            got=f"{host} and {port} ({error})",
            hint="choose another {port}, or 0 for any that is free",
        ) from error
    return sock


def _address(host: str, sock: socket.socket) -> str:
    port = sock.getsockname()[1]
    shown = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"http://{shown}:{port}"


def _say_ready(settings: Settings, address: str) -> None:
    names = ", ".join(printable(name) for name in settings.paths)
    changes = "writable" if settings.writable else "read-only"
    workers = counted(settings.workers, "worker")
    sys.stdout.write(f"Serving {names} at {address} ({changes}, {workers}). Press Ctrl-C to stop.\n")
    sys.stdout.flush()
