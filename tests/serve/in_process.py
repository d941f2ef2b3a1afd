"""The service without a server: an application in this process, asked through httpx."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx

from segmax.serve.server import create_app
from segmax.serve.settings import Settings

BASE = "http://127.0.0.1:8080"
LONGEST = 600.0  #: Seconds after which a scenario that waits for something fails, rather than hang.


@contextlib.asynccontextmanager
async def asked(settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    """Start an application, and return a client of it."""
    app = create_app(settings)
    await app.start()
    try:
        transport = httpx.ASGITransport(app=app)  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
            yield client
    finally:
        await app.stop()


def ask(settings: Settings, scenario: Callable[[httpx.AsyncClient], Awaitable[Any]]) -> Any:
    """Run a scenario with a client of a service."""

    async def run() -> Any:
        async with asyncio.timeout(LONGEST), asked(settings) as client:
            return await scenario(client)

    return asyncio.run(run())


def post(settings: Settings, path: str, body: Any, **options: Any) -> httpx.Response:
    """Send one request."""
    return ask(settings, lambda client: client.post(path, json=body, **options))


def get(settings: Settings, path: str, **options: Any) -> httpx.Response:
    """Ask for one address."""
    return ask(settings, lambda client: client.get(path, **options))


def settings_for(**paths: Path) -> Settings:
    """Settings that serve some folders, read-only."""
    return Settings(paths=paths)
