"""A real browser at the page of a real node."""

import contextlib
import http.client
import json
import shutil
import socket
from collections.abc import Generator
from typing import Any

from node.lab import CONFIG, Lab, lab
from playwright.sync_api import Browser, Page, sync_playwright
from system.many_nodes import free_ports

CHROMIUM = "chromium"
ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
)


class Watched:
    """A page, what it wrote on its console, and every address that it asked for."""

    def __init__(self, page: Page, base: str) -> None:
        self.page = page
        self.base = base
        self.complaints: list[str] = []
        self.asked: list[str] = []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))

    def _console(self, message: Any) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(message.text)

    def open(self, tab: str) -> None:
        """One of its pages."""
        self.page.goto(f"{self.base}/#{tab}")

    def fine(self) -> bool:
        """Nothing to complain of, and nothing asked of anybody but the node."""
        return not self.complaints and all(one.startswith(self.base) for one in self.asked)


class Site:
    """A node with its port, and a browser."""

    def __init__(self, lab: Lab, base: str, browser: Browser) -> None:
        self.lab = lab
        self.base = base
        self._browser = browser

    def post(self, path: str, body: object | None = None) -> dict[str, Any]:
        """Over the node's own socket, as the user of the node."""
        connection = http.client.HTTPConnection("node")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(self.lab.state / "http.sock"))
        connection.request("POST", path, json.dumps(body or {}), {"Content-Type": "application/json"})
        answer: dict[str, Any] = json.loads(connection.getresponse().read())
        connection.close()
        return answer

    @contextlib.contextmanager
    def page(self, *, known: bool = True, **context: Any) -> Generator[Watched]:
        """A browser of its own; logged in unless it is to be nobody's."""
        made = self._browser.new_context(**context)
        watched = Watched(made.new_page(), self.base)
        try:
            if known:
                watched.page.goto(self.base + self.post("/v1/logins")["path"])
            yield watched
        finally:
            made.close()


@contextlib.contextmanager
def chromium() -> Generator[Browser]:
    """A browser without a screen."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which(CHROMIUM) or CHROMIUM, args=[*ARGUMENTS]
        )
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def site(browser: Browser, more: str = "") -> Generator[Site]:
    """A node that serves its page."""
    port = free_ports()
    with lab() as made:
        listening = f'location = "prague"\nlisten = "127.0.0.1:{port}"'
        made.configure(CONFIG.replace('listen = "off"', listening) + more)
        made.start("--new")
        yield Site(made, f"http://127.0.0.1:{port}", browser)
