"""A tab of a real browser, and how to know that it has shown everything."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

#: Counts requests whose answers are not there in full, in every page from its start.
COUNTING = """
    window.pending = 0;
    const send = window.fetch;
    window.fetch = async (...parts) => {
        window.pending += 1;
        try {
            const answer = await send(...parts);
            await answer.clone().arrayBuffer();
            return answer;
        } finally {
            window.pending -= 1;
        }
    };
"""
#: Waits until a page shows something and was quiet in ten turns of its own timers, however busy the machine is.
QUIET = """() => new Promise((done) => {
    let quiet = 0;
    const look = () => {
        const isShown = document.querySelector("main > :not(noscript), #notice:not([hidden]), dialog:modal") !== null;
        quiet = window.pending || !isShown ? 0 : quiet + 1;
        if (quiet > 10) requestAnimationFrame(() => requestAnimationFrame(done));
        else setTimeout(look, 10);
    };
    look();
})"""


class Tab:
    """A tab of the browser that keeps an eye on what must not happen: errors, and requests to anybody else."""

    def __init__(self, page: Any, address: str) -> None:
        self.page = page
        self.address = address
        self.errors: list[str] = []
        self.origins: set[str] = set()
        page.add_init_script(COUNTING)
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("dialog", lambda dialog: self.errors.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: self.origins.add(urlsplit(request.url).netloc))

    def open(self, place: str = "") -> Any:
        """Load the page at a place, and wait until it shows it."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.address}/{place}")
        self.settle()
        return self.page

    def settle(self) -> None:
        """Wait until all answers are there and drawn."""
        self.page.evaluate(QUIET)

    def type(self, text: str) -> None:
        """Type into the search box."""
        self.page.fill("#q", "")
        self.page.type("#q", text)
        self.settle()

    def ids(self) -> list[str]:
        """Return the ids of the results."""
        return [item.get_attribute("data-id") for item in self.page.locator(".hit").all()]

    def text(self) -> str:
        """Return what can be read on the screen, without times, which differ from search to search."""
        parts = self.page.evaluate(
            """() => {
                for (const part of document.querySelectorAll(".work, .latency-chart")) part.hidden = true;
                const text = [...document.querySelectorAll("main, #panel[open]")].map((part) => part.innerText);
                for (const part of document.querySelectorAll(".work, .latency-chart")) part.hidden = false;
                return text;
            }"""
        )
        return re.sub(r"[\d.,]+ (ms|s)\b", "", "\n".join(parts))


def new_tab(browser: Any, address: str, **options: Any) -> Tab:
    """Open a tab with nothing stored in it; options are those of a context of Playwright."""
    options.setdefault("viewport", {"width": 1280, "height": 800})
    return Tab(browser.new_context(**options).new_page(), address)
