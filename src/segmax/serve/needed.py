"""The packages that the service is made of, beside segmax's own."""

from __future__ import annotations

from segmax.base.optional import need
from segmax.base.system import EVENT_LOOP


def need_packages() -> None:
    """Import them, or raise an error that shows how to install them."""
    for package in ("uvicorn", EVENT_LOOP, "httptools", "msgspec", "prometheus_client"):
        need(package, "segmax serve", "serve")
