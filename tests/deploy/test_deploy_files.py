"""The files in examples/deploy are valid for the programs that read them, and agree with segmax and with the docs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "examples" / "deploy"
DOCUMENT = (ROOT / "docs" / "deploying.md").read_text()
EXCERPTS = re.findall(
    r"^From \[[^]]+\]\(\.\./examples/deploy/(\S+?)\).*?:\n\n```text\n(.*?)^```$", DOCUMENT, re.M | re.S
)


def run(*command: str | Path) -> str:
    """The output of a program that must succeed; skips where the program is not installed."""
    if shutil.which(str(command[0])) is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_every_file_is_in_the_document() -> None:
    """docs/deploying.md shows a part of each file."""
    assert {name for name, _ in EXCERPTS} == {path.name for path in DEPLOY.iterdir()}


@pytest.mark.parametrize(("name", "excerpt"), EXCERPTS)
def test_excerpts_are_in_the_files(name: str, excerpt: str) -> None:
    """Each line that the document shows is in the file, and in the same order."""
    lines = iter((DEPLOY / name).read_text().splitlines())
    missing = [line for line in excerpt.splitlines() if not any(line == other for other in lines)]
    assert missing == []


def test_options_exist() -> None:
    """Whatever the document and the files pass to `segmax serve` is an option of it."""
    pytest.importorskip("uvicorn")
    done = subprocess.run([sys.executable, "-m", "segmax.cli", "serve", "--help"], capture_output=True, text=True)
    known = set(re.findall(r"--[a-z][a-z-]+", done.stdout))
    texts = [*(path.read_text() for path in DEPLOY.iterdir()), (ROOT / "Dockerfile").read_text(), DOCUMENT]
    commands = [
        line
        for text in texts
        for line in text.replace("\\\n", " ").splitlines()
        if re.search(r"segmax(\", \"| )serve", line)
    ]
    used = {option for line in commands for option in re.findall(r"--[a-z][a-z-]+", line)}
    assert len(commands) > 5
    assert used <= known


def test_nginx_takes_the_configuration(tmp_path: Path) -> None:
    """`nginx -t` accepts it, with a certificate of our own."""
    if shutil.which("nginx") is None or os.geteuid() != 0:
        pytest.skip("nginx is not installed, or has no right to its folders")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    run(
        *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=search.example.org"),
        *("-keyout", key, "-out", certificate),
    )
    site = (DEPLOY / "nginx.conf").read_text()
    site = site.replace("/etc/ssl/segmax/fullchain.pem", str(certificate)).replace(
        "/etc/ssl/segmax/privkey.pem", str(key)
    )
    site = site.replace("/var/log/nginx/segmax.log", str(tmp_path / "access.log"))
    site = re.sub(r" *listen \[::\].*\n", "", site)
    site = re.sub(r"listen (80|443)", rf"listen unix:{tmp_path}/\1", site)
    whole = f"error_log {tmp_path}/error.log;\npid {tmp_path}/pid;\nevents {{}}\nhttp {{\n{site}\n}}\n"
    (tmp_path / "nginx.conf").write_text(whole)
    run("nginx", "-t", "-p", tmp_path, "-c", tmp_path / "nginx.conf")


def test_caddy_takes_the_configuration() -> None:
    """`caddy adapt` accepts it, and it is formatted as Caddy wants it."""
    run("caddy", "adapt", "--adapter", "caddyfile", "--config", DEPLOY / "Caddyfile")
    assert run("caddy", "fmt", DEPLOY / "Caddyfile") == (DEPLOY / "Caddyfile").read_text()


def test_prometheus_takes_the_configuration(tmp_path: Path) -> None:
    """`promtool` accepts it, and the alerts."""
    (tmp_path / "key").write_text("0123456789abcdef")
    text = (DEPLOY / "prometheus.yml").read_text().replace("/etc/prometheus/segmax-key", str(tmp_path / "key"))
    (tmp_path / "prometheus.yml").write_text(text)
    shutil.copy(DEPLOY / "alerts.yml", tmp_path)
    run("promtool", "check", "config", tmp_path / "prometheus.yml")


def test_metrics_exist() -> None:
    """Whatever the alerts and the document name is a metric of the service."""
    metrics = pytest.importorskip("segmax.serve.metrics")
    known = {family.name for family in metrics.Metrics().registry.collect()}
    used = set(re.findall(r"segmax_[a-z_]+", (DEPLOY / "alerts.yml").read_text() + DOCUMENT))
    used -= {"segmax_request_id"}  # of nginx
    assert {re.sub(r"_(total|bucket)$", "", name) for name in used} <= known
    assert known <= {re.sub(r"_total$", "", name) for name in re.findall(r"`(segmax_[a-z_]+)`", DOCUMENT)}


def test_defaults_of_limits() -> None:
    """The table of limits has those with which the service starts."""
    settings = pytest.importorskip("segmax.serve.settings")
    serve = pytest.importorskip("segmax.cli.serve")
    rows = re.findall(r"^\| `(--[a-z-]+)` \| ([\d,]+)", DOCUMENT, re.M)
    shown = {option: float(number.replace(",", "")) for option, number in rows}
    limits = settings.Limits()
    expected = {option: float(getattr(limits, name)) for name, option in serve.NAMES.items()}
    for option in ("--max-body-mb", "--max-answer-mb", "--max-unread-mb"):
        expected[option] /= 1 << 20
    assert shown == expected


def test_names_of_snapshots() -> None:
    """They look as the service makes them: time, number of the last write, and a suffix."""
    names = re.findall(r"papers-\d[-\w]*", DOCUMENT)
    assert len(names) > 2
    assert all(re.fullmatch(r"papers-\d{8}-\d{6}-\d+-[0-9a-f]{4}", name) for name in names)


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    """`systemd-analyze verify` finds nothing wrong with it, and little to attack."""
    unit = tmp_path / "segmax.service"
    unit.write_text(
        (DEPLOY / "segmax.service").read_text().replace("/opt/segmax/bin/segmax", shutil.which("true") or "")
    )
    assert run("systemd-analyze", "verify", unit) == ""
    run("systemd-analyze", "security", "--offline=yes", "--threshold=20", unit)
