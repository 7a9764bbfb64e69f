"""The blocking twin against a scripted node, and what both faces share: addresses, units, histories."""

# ruff: noqa: PT012, SIM117 - what a body does until it is stopped is the test

import itertools
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest
from client.scripted_node import ScriptedNode, lease_view

import holdall
from holdall.client.address import candidates, find_socket, socket_of_url
from holdall.client.recorder import whole_needs
from holdall.client.units import drop_names
from holdall.client.wishes import any_of
from holdall.model import frames
from holdall.model.spec import parse_needs

Answer = TypeVar("Answer")


@pytest.fixture
def beside() -> Iterator[Callable[[Callable[[], Answer]], "Future[Answer]"]]:
    """Runs something in another thread: the node's part of a conversation."""
    with ThreadPoolExecutor(4) as pool:
        yield pool.submit


def grants(node: ScriptedNode, **more: object) -> frames.Granted:
    return node.grant(node.hear(frames.Claim), lease_view(), **more)


def answers_release(node: ScriptedNode) -> frames.Release:
    release = node.hear(frames.Release)
    node.say(frames.Released(release.n, lease_view().lease, "released"))
    return release


def test_a_lease_for_the_time_of_a_with(
    node: ScriptedNode, beside: Callable[..., "Future[frames.Release]"]
) -> None:
    with holdall.sync.connect(node.url) as hub:
        beside(grants, node)
        with hub.lease("gpu:1", reason="x") as lease:
            assert lease.units["gpu"][0].fence == 5
            release = beside(answers_release, node)
        assert release.result().key == lease.key
        with pytest.raises(holdall.NotHolder):
            _ = lease.units


def test_the_body_is_stopped_on_loss(node: ScriptedNode, beside: Callable[..., "Future[object]"]) -> None:
    with holdall.sync.connect(node.url) as hub:
        beside(grants, node)
        endless = itertools.count()
        with pytest.raises(holdall.LeaseLost, match="lease 7K4M-Q2 lost: taken away"):
            with hub.lease("gpu:1") as lease:
                node.say(frames.Lost(lease.info.lease, "taken away"))
                for _ in endless:
                    time.sleep(0.001)
        assert next(endless) < 60_000
        end = time.monotonic() + 0.2
        while time.monotonic() < end:  # nothing is struck any more when the body is over
            pass
    assert node.hears_nothing_more()


def test_the_body_sees_why_when_it_catches_the_loss_itself(
    node: ScriptedNode, beside: Callable[..., "Future[object]"]
) -> None:
    with holdall.sync.connect(node.url) as hub:
        beside(grants, node)
        caught = ""
        with pytest.raises(holdall.LeaseLost), hub.lease("gpu:1") as lease:
            try:
                node.say(frames.Lost(lease.info.lease, "taken away"))
                while True:
                    time.sleep(0.001)
            except holdall.LeaseLost as loss:
                caught = str(loss)
        assert caught == "lease 7K4M-Q2 lost: taken away"


def test_with_event_the_body_is_left_alone(
    node: ScriptedNode, beside: Callable[..., "Future[object]"]
) -> None:
    with holdall.sync.connect(node.url) as hub:
        beside(grants, node)
        with hub.lease("gpu:1", on_loss="event") as lease:
            node.say(frames.Lost(lease.info.lease, "taken away"))
            assert lease.lost.wait(20)
            with pytest.raises(holdall.LeaseLost):
                lease.check()


def test_c8_each_use_looks_at_the_clock_before_any_message(
    node: ScriptedNode, beside: Callable[..., "Future[object]"]
) -> None:
    node.answers_beats = False
    with holdall.sync.connect(node.url) as hub:
        beside(lambda: grants(node, valid_for_ms=300))
        with pytest.raises(holdall.LeaseLost, match="no renewal confirmed"):
            with hub.lease("gpu:1", on_loss="event") as lease:
                time.sleep(0.35)
                lease.check()


def test_c7_an_interrupt_while_waiting_cancels_the_claim(
    node: ScriptedNode, beside: Callable[..., "Future[frames.Claim]"]
) -> None:
    def interrupts() -> frames.Claim:
        claim = node.hear(frames.Claim)
        os.kill(os.getpid(), signal.SIGINT)
        return claim

    with holdall.sync.connect(node.url) as hub:
        claim = beside(interrupts)
        with pytest.raises(KeyboardInterrupt):
            hub.lease("gpu:1")
        cancel = node.hear(frames.Cancel)
        assert cancel.claim == f"#{claim.result().n}"
        node.say(frames.Released(cancel.n, "", "cancelled"))


def test_a_claim_whose_place_was_given_up_while_its_client_was_stopped_is_asked_again(
    node: ScriptedNode, beside: Callable[..., "Future[list[frames.Claim]]"], tmp_path: Path
) -> None:
    def gives_up_its_place_once() -> list[frames.Claim]:
        first = node.hear(frames.Claim)
        node.say(frames.Denied(first.n, "not-granted", "claim lost its place", retry_after_ms=0))
        second = node.hear(frames.Claim)
        node.grant(second, lease_view())
        return [first, second]

    file = tmp_path / "history"
    with holdall.sync.connect(node.url, history=file) as hub:
        asked = beside(gives_up_its_place_once)
        lease = hub.lease("gpu:1", wait="10m", reason="soak")
        beside(answers_release, node)
        lease.release()
    first, second = asked.result()
    assert second.n != first.n
    assert second.reason == "soak"
    assert first.wait_ms is not None
    assert second.wait_ms is not None
    assert second.wait_ms <= first.wait_ms, "it waits for what is left of its time"
    said = [json.loads(line)["t"] for line in file.read_text().splitlines()]
    assert said == ["claim", "grant", "release", "release"], "one claim, served"


def test_a_claim_that_does_not_wait_is_not_asked_again(
    node: ScriptedNode, beside: Callable[..., "Future[object]"]
) -> None:
    with holdall.sync.connect(node.url) as hub:
        beside(
            lambda: node.say(
                frames.Denied(node.hear(frames.Claim).n, "not-granted", "lost its place", retry_after_ms=0)
            )
        )
        assert hub.try_lease("gpu") is None
        assert node.hears_nothing_more()


def test_try_lease_gives_none(node: ScriptedNode, beside: Callable[..., "Future[object]"]) -> None:
    with holdall.sync.connect(node.url) as hub:
        beside(lambda: node.say(frames.Denied(node.hear(frames.Claim).n, "not-granted", "busy")))
        assert hub.try_lease("gpu") is None


def test_several_threads_share_a_hub(node: ScriptedNode, beside: Callable[..., "Future[int]"]) -> None:
    with holdall.sync.connect(node.url) as hub:
        both = threading.Barrier(2)

        def asks(what: str) -> int:
            both.wait(20)
            return len(hub.who()) if what == "who" else len(hub.pools())

        answers = [beside(asks, "who"), beside(asks, "pools")]
        for _ in answers:
            question = node.hear(frames.Ask)
            row = frames.PoolRow("gpu", "lab-1", {}, "host", 1, 1, 0, 0, 0, ())
            part = frames.Listing(question.n, pools=(row,), more=True)
            node.say(part if question.what == "pools" else frames.Listing(question.n, leases=(lease_view(),)))
            if question.what == "pools":
                node.say(frames.Listing(question.n, pools=(row,)))
        assert [answer.result() for answer in answers] == [1, 2]


def test_a_history_tells_what_the_client_believed(
    node: ScriptedNode, beside: Callable[..., "Future[object]"], tmp_path: Path
) -> None:
    file = tmp_path / "history"
    with holdall.sync.connect(node.url, agent="ann", history=file) as hub:
        beside(grants, node)
        with hub.lease("gpu:1"):
            beside(answers_release, node)
    said = [json.loads(line) for line in file.read_text().splitlines()]
    claim, grant, releasing, released = said
    assert [line["t"] for line in said] == ["claim", "grant", "release", "release"]
    assert (claim["client"], claim["need"]) == ("ann", {"gpu": 1})
    assert grant["units"] == [{"pool": "gpu", "unit": "gpu-0@lab-1", "fence": 5}]
    assert claim["at"] <= grant["at"]
    assert grant["call"] - claim["at"] > -2_000_000  # stamps of two clocks, rounded to a millisecond
    assert grant["valid_until"] <= grant["call"] + grant["ttl"] + 2_000_000
    assert releasing["lease"] == released["lease"] == grant["lease"]
    assert released["ok"] is True


def test_all_ways_to_meet_needs_are_said_in_a_history() -> None:
    needs = (any_of("gpu:2", "tpu:1"), *parse_needs(["a+b:2", "c:all"]))
    assert list(whole_needs(needs)) == [
        {"gpu": 2, "a": 2, "c": "all"},
        {"gpu": 2, "a": 1, "b": 1, "c": "all"},
        {"gpu": 2, "b": 2, "c": "all"},
        {"tpu": 1, "a": 2, "c": "all"},
        {"tpu": 1, "a": 1, "b": 1, "c": "all"},
        {"tpu": 1, "b": 2, "c": "all"},
    ]


def test_needs_on_one_pool_add_up_in_a_history() -> None:
    assert list(whole_needs(parse_needs(["gpu:1", "gpu,model=x:1"]))) == [{"gpu": 2}]


def test_what_to_drop_may_be_named_by_pool_unit_or_both() -> None:
    units = (frames.HeldUnit("psu", "psu-1", "lab-1", 3), frames.HeldUnit("psu", "psu-2", "lab-1", 4))
    unit = holdall.Unit("psu-2", "lab-1", 4)
    assert drop_names(units, ("psu",)) == ("psu/psu-1", "psu/psu-2")
    assert drop_names(units, ("psu-1", "psu/psu-1")) == ("psu/psu-1",)
    assert drop_names(units, (unit,)) == ("psu/psu-2",)
    assert drop_names(units, ("psu:1",)) == ("psu/psu-2",)
    assert drop_names(units, ("board+psu,@lab-1:2",)) == ("psu/psu-1", "psu/psu-2")
    assert drop_names(units, ("psu:all",)) == ("psu/psu-1", "psu/psu-2")
    for nothing in ("psu:3", "psu,@lab-2", "psu,model=x", "board", ""):
        with pytest.raises(holdall.BadSpec, match="It holds: psu/psu-1, psu/psu-2"):
            drop_names(units, (nothing,))
    with pytest.raises(holdall.BadSpec):
        drop_names(units, (holdall.Unit("psu-2", "lab-1", 3),))


@pytest.mark.parametrize(
    "url", ["/run/x.sock", "unix://host/x", "unix:x", "https://h:1", "unix:///" + "x" * 200, ""]
)
def test_a_url_that_names_no_socket_is_refused(url: str) -> None:
    with pytest.raises(holdall.BadSpec, match=r"unix:///|sockets allow"):
        socket_of_url(url)


def test_a_named_node_is_the_only_candidate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOLDALL_URL", "unix:///b/holdall.sock")
    assert candidates("unix:///a/holdall.sock") == (Path("/a/holdall.sock"),)
    assert candidates() == (Path("/b/holdall.sock"),)
    monkeypatch.delenv("HOLDALL_URL")
    monkeypatch.setenv("HOLDALL_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert candidates() == (tmp_path / "run/holdall.sock", tmp_path / "state/holdall/holdall.sock")


def test_of_the_usual_places_the_first_where_a_node_listens_is_taken(
    node: ScriptedNode, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("HOLDALL_URL", raising=False)
    monkeypatch.setenv("HOLDALL_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "holdall").mkdir()
    (tmp_path / "holdall" / "holdall.sock").symlink_to(node.path)
    assert find_socket() == tmp_path / "holdall" / "holdall.sock"
    node.go_away()
    with pytest.raises(
        holdall.Unreachable, match=r"no socket there.*nobody listens.*Start one: holdall serve"
    ):
        find_socket()


def test_public_names_are_there_and_nothing_else() -> None:
    assert set(dir(holdall)) == set(holdall.__all__)
    assert all(getattr(holdall, name) is not None for name in holdall.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = holdall.nothing
