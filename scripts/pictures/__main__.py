"""Pictures of every page of the dashboard, light and dark, at a desk and on a phone, of three real nodes.

Run: `scripts/screenshots FOLDER [--docs]`. With `--docs` those that the documentation shows are made anew, too.
"""

import argparse
import http.client
import json
import shutil
import socket
import sys
from pathlib import Path
from typing import Any, NamedTuple

from playwright.sync_api import Browser, Page
from scripts.pictures.stage import Stage, stage
from system.dashboard import chromium

STATIC = Path(__file__).resolve().parents[2] / "docs" / "_static"
SIZES = {"desk": (1280, 800), "phone": (390, 844)}
COLOURS = ("light", "dark")
SETTLED = """() => !(document.querySelector('dialog') ?? document.querySelector('main')).innerText.includes('reading…')"""
SETTLED_MS = 600
FOLLOWED_MS = 15_000
"""How long a page has been open that shows how something went."""


class Shot(NamedTuple):
    """One page: where it is, and what to click there."""

    name: str
    at: str
    click: str = ""


SHOTS = (
    Shot("now", "now"),
    Shot("pools", "pools"),
    Shot("pool", "pools/psu@lab-1"),
    Shot("pool-many", "pools/cell@lab-1"),
    Shot("waits", "waits"),
    Shot("claim", "waits", "tbody tr:first-child"),
    Shot("leases", "leases"),
    Shot("lease", "leases", "tbody tr:nth-child(4)"),
    Shot("log", "log"),
    Shot("nodes", "nodes"),
    Shot("jobs", "jobs"),
    Shot("job", "jobs", "tbody tr:first-child"),
    Shot("locations", "locations"),
    Shot("keys", "now", "button[aria-label=keys]"),
)
SHOWN = ("now-desk-light", "waits-desk-light", "job-desk-light", "locations-desk-light", "pools-phone-dark")
"""In the documentation, as dashboard-….png."""


def main() -> int:
    """Make them; 1 when a page has something to complain of."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--docs", action="store_true")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    complaints: list[str] = []
    with stage() as there, chromium() as browser:
        pages = {
            (size, colours): _logged_in(browser, there, size, colours, complaints)
            for size in SIZES
            for colours in COLOURS
        }
        # Open before anything happens: they are to show how it went.
        for page in pages.values():
            page.goto(f"{_base(there)}/#locations")
        there.negotiate()
        next(iter(pages.values())).wait_for_timeout(FOLLOWED_MS)
        for shot in SHOTS:
            for (size, colours), page in pages.items():
                _take(page, there, shot, chosen.folder / f"{shot.name}-{size}-{colours}.png")
        _log_in_pages(browser, there, chosen.folder)
    if chosen.docs:
        for name in SHOWN:
            shutil.copyfile(chosen.folder / f"{name}.png", STATIC / f"dashboard-{name}.png")
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    return 1 if complaints else 0


def _base(there: Stage) -> str:
    return f"http://127.0.0.1:{there.port}"


def _logged_in(browser: Browser, there: Stage, size: str, colours: str, complaints: list[str]) -> Page:
    page = _page(browser, size, colours)
    page.on(
        "console",
        lambda message: complaints.append(message.text) if message.type in {"error", "warning"} else None,
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(_base(there) + _login_path(there))
    page.get_by_text("live", exact=True).wait_for()
    return page


def _page(browser: Browser, size: str, colours: Any) -> Page:
    width, height = SIZES[size]
    return browser.new_context(viewport={"width": width, "height": height}, color_scheme=colours).new_page()


def _login_path(there: Stage) -> str:
    """Made over the node's own socket, by its user."""
    connection = http.client.HTTPConnection("node")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(there.nodes[0].state / "http.sock"))
    connection.request("POST", "/v1/logins", "{}", {"Content-Type": "application/json"})
    path: str = json.loads(connection.getresponse().read())["path"]
    connection.close()
    return path


def _take(page: Page, there: Stage, shot: Shot, into: Path) -> None:
    page.goto(f"{_base(there)}/#{shot.at}")
    page.wait_for_function(SETTLED)
    if shot.click:
        page.locator(shot.click).first.click()
        page.wait_for_function(SETTLED)
    page.wait_for_timeout(SETTLED_MS)
    page.screenshot(path=into)
    dialog = page.get_by_role("dialog")
    if dialog.count():
        dialog.get_by_role("button", name="Close").click()
        dialog.wait_for(state="detached")


def _log_in_pages(browser: Browser, there: Stage, folder: Path) -> None:
    for size in SIZES:
        for colours in COLOURS:
            page = _page(browser, size, colours)
            page.goto(_base(there))
            page.wait_for_timeout(SETTLED_MS)
            page.screenshot(path=folder / f"login-{size}-{colours}.png")


if __name__ == "__main__":
    sys.exit(main())
