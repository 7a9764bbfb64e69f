"""What another node keeps is ended, extended or cleared there: the refusal says where, and nothing changes."""

import pytest
from parties.joined_nodes import Asker, Net
from parties.party_node import Client, pool

from holdall.model import frames
from holdall.parties.listings.asking import ANSWER_MS
from holdall.parties.listings.questions import PeerAsk
from holdall.parties.state import secret_hash


class Lab:
    """lab-1 is asked; lab-2 has a lease, a waiting claim and a unit in quarantine; lab-3 has nothing."""

    def __init__(self) -> None:
        self.net = Net()
        self.one = self.net.add("lab-1", pool("gpu", "0"))
        self.two = self.net.add("lab-2", pool("bench", "b1"), pool("psu", "p1", check="test {unit}"))
        self.three = self.net.add("lab-3")
        self.holder = Client(self.two, "b")
        self.lease = self.holder.gets("bench:1")
        self.waiting = Client(self.two, "w").waits("bench:1")
        cared = self.holder.gets("psu:1")
        self.holder.releases(cared)
        self.two.hook(self.two.orders[0], ok=False, text="broken")
        self.asker = Asker(self.net, self.one)

    def says(self, frame: frames.ToNode) -> str:
        """The refusal."""
        held, kept = self.two.held(), dict(self.two.records)
        self.asker.say(frame)
        self.net.deliver()
        denied = self.asker.answer()
        assert isinstance(denied, frames.Denied)
        assert denied.n == frame.n  # type: ignore[union-attr]
        assert (self.two.held(), dict(self.two.records)) == (held, kept), "nothing has changed there"
        return denied.text

    def number(self) -> int:
        return self.asker.client.number()


@pytest.mark.parametrize("verb", ["kick", "release", "renew", "cancel"])
def test_a_lease_of_another_node_is_refused_with_its_node(verb: str) -> None:
    lab = Lab()
    short = lab.lease.lease.lease[:6]
    requests: dict[str, frames.ToNode] = {
        "kick": frames.Kick(lab.number(), short, "why not"),
        "release": frames.Release(lab.number(), lab.lease.key),
        "renew": frames.Extend(lab.number(), lab.lease.key, 60_000),
        "cancel": frames.Cancel(lab.number(), lab.waiting.claim),
    }
    printed = lab.waiting.claim if verb == "cancel" else lab.lease.lease.lease
    what, holder = ("claim", "w@lab-2") if verb == "cancel" else ("lease", "b@lab-2")
    assert lab.says(requests[verb]) == (
        f"{what} {printed[:4]}-{printed[4:6]} of {holder} was made on lab-2, not on lab-1: run it there."
    )


def test_a_key_goes_to_nobody_but_its_hash_does() -> None:
    lab = Lab()
    for frame in (
        frames.Release(lab.number(), lab.lease.key),
        frames.Extend(lab.number(), lab.lease.key, 60_000),
        frames.Kick(lab.number(), lab.lease.key, "pasted the wrong thing"),
        frames.Cancel(lab.number(), lab.lease.key),
    ):
        lab.says(frame)
    asked = [message.about for _, _, message in lab.net.sent if isinstance(message, PeerAsk)]
    assert {question.arg for question in asked} == {""}
    assert {question.key for question in asked} == {secret_hash(lab.lease.key)}


def test_a_unit_of_another_node_is_cleared_there() -> None:
    lab = Lab()
    assert lab.says(frames.Clear(lab.number(), "psu/p1")) == "psu/p1 is on lab-2, not on lab-1: run it there."


def test_what_nobody_has_is_refused_as_on_a_node_by_itself_with_whom_could_not_be_asked() -> None:
    lab = Lab()
    assert lab.says(frames.Clear(lab.number(), "psu/p9")) == (
        "no unit is named 'psu/p9'; write pool/unit. See: holdall pools"
    )
    lab.net.state(lab.three, "silent", 40_000)
    assert lab.says(frames.Kick(lab.number(), "ZZZZ-99", "x")) == (
        "no lease is named ZZZZ-99. See: holdall who (not asked: lab-3, silent for 40 s)"
    )


def test_a_refusal_waits_two_seconds_at_most() -> None:
    lab = Lab()
    lab.net.deaf.add(lab.two.id)
    lab.asker.say(frames.Release(lab.number(), lab.lease.key))
    lab.net.pass_ms(ANSWER_MS - 100)
    assert lab.asker.answer() is None
    lab.net.pass_ms(100)
    denied = lab.asker.answer()
    assert isinstance(denied, frames.Denied)
    assert denied.text == (
        "no such lease of yours here: it has ended, or the key is wrong. See: holdall who "
        "(not asked: lab-2, no answer within 2 s)"
    )


def test_a_release_that_is_repeated_after_its_end_asks_nobody() -> None:
    lab = Lab()
    client = Client(lab.one, "a")
    lease = client.gets("gpu:1")
    client.releases(lease)
    lab.net.sent.clear()
    answer = client.releases(lease)
    assert isinstance(answer, frames.Released)
    assert answer.what == "already ended"
    assert lab.net.sent == []
