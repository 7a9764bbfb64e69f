"""C13 at the page of a node among others: holder, host, reason, since, end, place and blocker are those that the commands tell."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from node.lab import Client
from node.waiting import until
from playwright.sync_api import Page
from system.dashboard import Watched, chromium
from system.many_nodes import NodeProcess, free_ports, system
from system.test_listings import lease, look
from system.web import Http

from holdall.model import frames
from holdall.model.names import short_id
from holdall.model.spec import parse_needs

pytestmark = [pytest.mark.system, pytest.mark.requires("browser", "dashboard")]
TTL_MS = 300_000
"""Longer than the test: those who wait need not say that they live."""
DEFAULTS = '[defaults]\nttl = "30s"\nttl_max = "5m"\nmargin = "200ms"\n'
ROWS = """() => {
  const table = [...document.querySelectorAll('main table')].at(-1);
  const names = [...(table?.tHead.rows[0].cells ?? [])].map((cell) => cell.innerText);
  const told = (row) => Object.fromEntries([...row.cells].map((cell, place) => [names[place], cell.innerText]));
  return [...(table?.tBodies[0].rows ?? [])].map(told);
}"""


@pytest.fixture
def nodes() -> Iterator[tuple[NodeProcess, NodeProcess, str]]:
    """lab-a, lab-b, and the address of lab-a's page, which has been logged in."""
    port = free_ports()
    with system() as hosts:
        a, b = (hosts.node(folder, f"lab-{folder}", f"psu-{folder}", defaults=DEFAULTS) for folder in "ab")
        a.config.write_text(a.config.read_text().replace('listen = "off"', f'listen = "127.0.0.1:{port}"'))
        a.serve("--new")
        b.join(a.join_line())
        for node in (a, b):
            until(lambda node=node: len(look(node, "pools")["pools"]) == 4, "it knows all")  # type: ignore[misc]
        yield a, b, f"http://127.0.0.1:{port}"


def rows(page: Page) -> dict[str, dict[str, str]]:
    """Of the list on the page, by the first column: what stands in each of its columns."""
    told: list[dict[str, str]] = page.evaluate(ROWS)
    return {next(iter(row.values())): row for row in told}


def units(row: Any) -> set[str]:
    return {f"{one['pool']}/{one['name']} #{one['fence']}" for one in row["units"]}


def test_c13_the_page_tells_what_the_commands_tell(nodes: tuple[NodeProcess, NodeProcess, str]) -> None:
    a, b, base = nodes
    lease(b, "psu:2", "soak")
    lease(a, "bench-a:1", "mine")
    waiting = [Client(b.socket, agent=f"{agent}@desk") for agent in ("first", "second")]
    for client in waiting:
        claim = frames.Claim(n=client.n(), needs=parse_needs(["bench-a:1"]), ttl_ms=TTL_MS, reason="next")
        client.send(claim)
        client.wait(frames.Queued)
    with chromium() as browser:
        watched = Watched(browser.new_page(), base)
        watched.page.goto(base + Http(a.state / "http.sock").post("/v1/logins", {})["path"])

        watched.open("leases")
        until(lambda: len(rows(watched.page)) == 2, "both leases are told")
        shown = rows(watched.page)
        for node in (a, b):
            for row in look(node, "who")["leases"]:
                told = shown[short_id(row["lease"])]
                same = (told["holder"], told["reason"], told["node"])
                assert same == (row["holder"], row["reason"], row["node"])
                assert set(told["units"].splitlines()) == units(row)
        (row,) = (one for one in look(a, "who")["leases"] if one["reason"] == "soak")
        watched.page.get_by_role("button", name=short_id(row["lease"])).click()
        dialog = watched.page.get_by_role("dialog")
        dialog.get_by_text("kept alive by").wait_for()
        in_full = dialog.inner_text()
        for at_ms in (row["since_ms"], row["until_ms"]):
            assert time.strftime("%H:%M:%S", time.localtime(at_ms / 1000)) in in_full

        # They wait at another node than where they were made.
        watched.open("waits")
        until(lambda: len(rows(watched.page)) == 2, "both claims are told")
        shown = rows(watched.page)
        for node in (a, b):
            for row in look(node, "queue")["waiting"]:
                told = shown[short_id(row["claim"])]
                place = f"{row['position']} of {row['waiting']} at lab-a"
                assert (told["holder"], told["reason"], told["place"]) == (
                    row["holder"],
                    row["reason"],
                    place,
                )
                assert told["blocked by"].splitlines() == [one["holder"] for one in row["blockers"][:2]]
                assert told["can be passed by"] == f"{row['passes_left']} more"
                (line,) = (
                    one
                    for one in node.command("queue").stdout.splitlines()
                    if one.startswith(short_id(row["claim"]))
                )
                assert place in line
        watched.open("pools/bench-a@lab-a")
        standing = watched.page.locator("ol.line li .who")
        until(lambda: standing.count() == 2, "both stand in its line")
        assert [one.split()[0] for one in standing.all_inner_texts()] == ["first@desk", "second@desk"]
        assert watched.fine(), watched.complaints
    for client in waiting:
        client.close()
