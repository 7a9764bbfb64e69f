"""The page of a node in a real browser: it follows, it bears much and hostile names, it obeys who may."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from node.lab import Client
from node.waiting import until
from playwright.sync_api import Browser
from system.dashboard import Site, Watched, chromium, site
from system.runs import running

from holdall.jobs import client as jobs
from holdall.jobs.file import read_job

pytestmark = [pytest.mark.system, pytest.mark.requires("browser", "dashboard")]

MANY = """
[[pool]]
name = "cell"
count = 10000

[[capacity]]
name = "net.tx"
amount = "100kB/s"
sharing = "fair"
"""
JOB = """
name = "nightly"

[task.build]
run = ["true"]

[task.soak]
after = ["build"]
needs = ["board:1"]
run = ["sleep", "1000"]
"""
HOSTILE = "<img src=x onerror=\"document.title='struck'\"> <b>bold</b> \u202eevil"
AXE = Path(__file__).parents[2] / "dashboard/node_modules/axe-core/axe.min.js"
TABS = ("now", "pools", "waits", "leases", "log", "nodes", "locations", "jobs")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as made:
        yield made


@pytest.fixture(scope="module")
def place(browser: Browser) -> Iterator[Site]:
    with site(browser, MANY) as made:
        yield made


def text(watched: Watched, where: str = "main") -> str:
    return watched.page.inner_text(where)


def test_a_grant_and_an_end_are_seen_within_a_second_without_a_reload(place: Site) -> None:
    with place.page() as watched, place.lab.client(agent="live-holder") as client:
        watched.open("leases")
        watched.page.get_by_text("Nothing is held.").wait_for()
        key = client.lease("psu:2").key
        granted_s = time.monotonic()
        watched.page.get_by_role("cell", name="live-holder").wait_for(timeout=5000)
        seen_s = time.monotonic() - granted_s
        client.release(key)
        watched.page.get_by_text("Nothing is held.").wait_for(timeout=5000)
        assert watched.fine(), watched.complaints
        print(f"a grant was seen after {seen_s:.2f} s")


def test_who_waits_and_why_is_drawn_and_told_in_full(place: Site) -> None:
    with (
        place.page() as watched,
        place.lab.client(agent="holder") as holder,
        place.lab.client(agent="waiter") as waiter,
    ):
        holder.lease("psu:2")
        waiter.claim("psu:1", "board:1")
        watched.open("waits")
        watched.page.get_by_role("cell", name="waiter").wait_for()
        drawn = watched.page.locator("svg .node")
        until(lambda: drawn.count() == 2, "the claim and the lease in its way are drawn")
        watched.page.locator("tbody tr").first.click()
        dialog = watched.page.get_by_role("dialog")
        dialog.get_by_text("blocked by").wait_for()
        told = dialog.inner_text()
        assert "1 of 1" in told
        assert "psu:1 busy" in told
        assert "holder" in told
        watched.page.keyboard.press("Escape")
        watched.open("pools")
        watched.page.get_by_label("pool psu on lab-1").get_by_text("1 claim in line").wait_for()
        assert watched.fine(), watched.complaints


def test_names_are_shown_as_text_whatever_they_are(place: Site) -> None:
    with place.page() as watched, _holder(place, HOSTILE):
        for tab in ("now", "leases", "pools", "log"):
            watched.open(tab)
            watched.page.wait_for_timeout(300)
        watched.open("leases")
        watched.page.get_by_text("<b>bold</b>").first.wait_for()
        assert watched.page.title() == "holdall"
        assert watched.page.locator("main img").count() == 0
        assert watched.fine(), watched.complaints


def _holder(place: Site, agent: str) -> Client:
    client = place.lab.client(agent=agent)
    client.lease("psu:1")
    return client


def test_ten_thousand_units_are_paged_and_searched(place: Site) -> None:
    with place.page() as watched, place.lab.client(agent="one-of-many") as client:
        unit = client.lease("cell:1").lease.units[0].name
        watched.open("pools/cell@lab-1")
        watched.page.get_by_text("of 10\u202f000").last.wait_for()
        assert watched.page.locator("tbody tr").count() == 100
        watched.page.get_by_role("button", name="next").click()
        watched.page.get_by_text("101 to 200").wait_for()
        watched.page.keyboard.press("/")
        watched.page.keyboard.type("one-of-many")
        until(lambda: watched.page.locator("tbody tr").count() == 1, "one unit is found")
        assert unit in text(watched, "tbody")
        assert watched.fine(), watched.complaints


def test_a_lease_is_taken_away_with_a_reason_by_who_may(place: Site) -> None:
    command = ("--need", "board:1", "--reason", "to be taken away", "--", "sleep", "1000")
    with place.page() as watched, running(place.lab, *command):
        watched.open("leases")
        watched.page.get_by_role("cell", name="to be taken away").click()
        dialog = watched.page.get_by_role("dialog")
        force = dialog.get_by_role("button", name="Force release")
        force.wait_for()
        assert force.is_disabled()
        dialog.get_by_label("reason").fill("the board burns")
        force.click()
        watched.page.get_by_text("Nothing is held.").wait_for()
        watched.open("log")
        watched.page.get_by_text("the board burns").first.wait_for()
        assert watched.fine(), watched.complaints


def test_history_has_the_newest_rows_first_though_the_stream_knows_older_ones_than_the_list(
    place: Site,
) -> None:
    with place.page() as watched, place.lab.client(agent="early") as early:
        watched.open("log")
        for _ in range(130):
            early.release(early.lease("psu:1").key)
        with place.lab.client(agent="late") as late:
            late.release(late.lease("psu:1").key)

        def late_first() -> bool:
            shown = watched.page.locator("tbody tr").all_inner_texts()
            return len(shown) == 100 and ["late" in row for row in shown] == [True] * 2 + [False] * 98

        until(late_first, "the newest stand before all others")
        watched.page.wait_for_timeout(1500)
        assert late_first(), "when the list is read again, too"
        assert watched.fine(), watched.complaints


def test_a_job_is_drawn_followed_and_cancelled(place: Site) -> None:
    file = place.lab.folder / "job.toml"
    file.write_text(JOB)
    with place.page() as watched:
        watched.open("jobs")
        watched.page.get_by_text("No job was started on this node").wait_for()
        jobs.begin(str(place.lab.socket), read_job(str(file)))
        watched.page.get_by_role("button").filter(has_text="-").first.wait_for()
        watched.page.locator("tbody tr").first.click()
        drawn = watched.page.locator("svg .node")
        until(lambda: drawn.count() == 2, "both tasks are drawn")
        watched.page.locator("svg .node.done").get_by_text("build", exact=True).wait_for()
        watched.page.locator("svg .node.running").get_by_text("soak", exact=True).wait_for()
        until(lambda: "board/board-1@lab-1#" in text(watched, "tbody"), "what its lease holds is shown")
        watched.page.get_by_label("reason").fill("wrong branch")
        watched.page.get_by_role("button", name="Cancel the job").click()
        watched.page.get_by_text("Cancelled: wrong branch").wait_for()
        until(lambda: "cancelled, 2 of 2 tasks over" in text(watched), "it is over")
        assert watched.fine(), watched.complaints


def test_a_location_shows_its_hosts_shares_and_leases(place: Site) -> None:
    base = "/v1/locations/prague/leases"
    with place.page() as watched:
        watched.open("locations")
        watched.page.get_by_text("Nobody wants a part of it.").wait_for(timeout=30_000)
        until(lambda: "live" in text(watched, "tbody"), "the host is heard")
        lease = place.post(f"{base}?accept=true", {"terms": {"net.tx": "60kB/s"}, "duration": "5m"})["lease"]
        card = watched.page.get_by_label("net.tx of lab-1")
        card.get_by_text("60 kB/s of 100 kB/s given").wait_for()
        card.get_by_text(lease["holder"]).wait_for()
        row = watched.page.get_by_label("negotiated leases")
        row.get_by_text("0 B/s used of 60 kB/s").wait_for()
        assert watched.fine(), watched.complaints


def test_nobody_sees_nothing_and_a_link_works_once(place: Site) -> None:
    path = place.post("/v1/logins")["path"]
    with place.page(known=False) as watched:
        watched.page.goto(place.base)
        watched.page.get_by_text("This node shows itself to people it knows").wait_for()
        watched.page.goto(place.base + path)
        watched.page.get_by_role("heading", name="Now").wait_for()
    with place.page(known=False) as watched:
        answer = watched.page.goto(place.base + path)
        assert answer is not None
        assert answer.status == 401


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize(("device", "width"), [("desk", 1400), ("phone", 390)])
def test_it_is_readable_for_everybody_everywhere(place: Site, colours: str, device: str, width: int) -> None:
    """axe finds nothing, and nothing lies beyond the edge of a narrow screen."""
    size: Any = {"width": width, "height": 850}
    with (
        place.page(color_scheme=colours, viewport=size) as watched,
        _holder(place, "ana@desk") as holder,
        place.lab.client(agent="ci@runner") as waiter,
    ):
        waiter.claim("psu:2")
        found: list[str] = []
        for tab in TABS:
            watched.open(tab)
            watched.page.get_by_role("heading").first.wait_for()
            watched.page.wait_for_timeout(300)
            watched.page.evaluate(AXE.read_text())
            seen = watched.page.evaluate("axe.run()")
            found += [f"{tab}: {one['id']} {one['nodes'][0]['html'][:120]}" for one in seen["violations"]]
            beyond = watched.page.evaluate("document.documentElement.scrollWidth - innerWidth")
            found += [f"{tab}: {beyond} px beyond the edge of a {device}"] if beyond > 0 else []
        assert found == []
        holder.beat()


def test_keys_turn_pages_and_colours(place: Site) -> None:
    with place.page(color_scheme="light") as watched:
        watched.page.get_by_role("heading", name="Now").wait_for()
        watched.page.keyboard.press("2")
        watched.page.get_by_role("heading", name="Pools").wait_for()
        watched.page.keyboard.press("t")
        assert watched.page.evaluate("document.documentElement.dataset.theme") == "dark"
        watched.page.keyboard.press("?")
        watched.page.get_by_role("dialog", name="Keys").wait_for()
        assert watched.fine(), watched.complaints


def test_it_says_when_the_node_is_gone_and_goes_on_when_it_is_back(browser: Browser) -> None:
    with site(browser) as place, place.page() as watched:
        watched.page.get_by_text("live", exact=True).wait_for()
        place.lab.kill()
        watched.page.get_by_text("connection lost").wait_for()
        place.lab.start()
        watched.page.get_by_text("live", exact=True).wait_for(timeout=30_000)
