"""A guardian with a negotiated lease: what it tells its node, what each renewal changes, and what it does before the end."""

import json
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest
from client.scripted_node import ScriptedNode
from guardian.guarded import WITHIN_S, Guarded, until

from holdall.guardian import orders
from holdall.guardian.enforcement.figures import Limits
from holdall.model import frames
from holdall.model import location_frames as f
from holdall.model.terms import LeaseDocument, TermStatus

MIB = 1 << 20
Question = TypeVar("Question", bound=f.FromClient)
SLEEPS = ("sleep", "1000")


def document(mem: int = 300 * MIB, *, revision: int = 1, stay: int = 600_000) -> LeaseDocument:
    terms = (TermStatus("mem", "capacity", mem, mem), TermStatus("stay", "time", stay, stay))
    return LeaseDocument(
        "L-prague-a-1.1", "prague", "lab-1", 1, "ann@lab-1", "active", revision, 60_000, "r", terms
    )


class Place:
    """The node's part in the lease: hears the guardian, and says whatever `answer` is now."""

    def __init__(self, node: ScriptedNode) -> None:
        self.node = node
        self.document = document()
        self.valid_for_ms = 60_000
        self.knows, self.reason, self.warned = True, "", ""
        self.refusals: list[f.ToClient] = []
        """Of those who want the lease taken up."""
        self.uses: list[f.TellUse] = []
        self.said: list[f.FromClient] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._thread.join(WITHIN_S)

    def _serve(self) -> None:
        while not self._over.is_set():
            if self.node.heard.empty():
                self._over.wait(0.005)
                continue
            asked = self.node.heard.get()
            assert isinstance(asked, frames.Negotiate), asked
            answer = self._answer(f.read_question(asked.body))
            self.node.say(frames.Negotiated(asked.n, f.pack(answer)))

    def _answer(self, question: f.FromClient) -> f.ToClient:
        self.said.append(question)
        match question:
            case f.TellUse(lease):
                self.uses.append(question)
                if not self.knows:
                    return f.Held((f.HeldLease(lease, reason=self.reason or "unknown"),))
                return f.Held((f.HeldLease(lease, self.valid_for_ms, self.document, warned=self.warned),))
            case f.RenewLease() if self.refusals:
                return self.refusals.pop(0)
            case f.RenewLease():
                self.knows = True
                return f.LeaseIs(self.document, self.valid_for_ms)
            case f.EndLease(lease):
                return f.Over(lease, "released")
            case _:
                raise AssertionError(question)


@pytest.fixture
def place() -> Iterator[Place]:
    with ScriptedNode() as node:
        made = Place(node)
        yield made
        made.close()


def guarded(place: Place, *command: str, grace_ms: int = 0, **more: object) -> Guarded:
    return Guarded(
        place.node,
        *command,
        ttl_ms=60_000,
        grace_ms=grace_ms,
        negotiated=place.document,
        limits=Limits(mem=place.document.term("mem").granted),  # type: ignore[arg-type]
        **more,  # type: ignore[arg-type]
    )


def test_a_command_is_held_to_the_terms_its_use_is_told_and_the_lease_given_back_after_it(
    place: Place, tmp_path: Path
) -> None:
    hog = "import time; held = bytearray(30 << 20); time.sleep(1000)"
    with guarded(place, sys.executable, "-c", hog, folder=tmp_path) as command:
        started = command.report(orders.Started)
        assert started.enforced["mem"] in {"kernel", "process"}
        until(lambda: place.uses[-1].uses and place.uses[-1].uses[0].used.rate_1s > 30 * MIB, "use is told")
        mem, stay = place.uses[-1].uses
        assert (mem.name, mem.enforced, mem.state) == ("mem", started.enforced["mem"], "ready.processing")
        assert (stay.name, stay.enforced, stay.state) == ("stay", "process", "ready.processing")
        assert all(one.guarded and one.meter == place.uses[0].meter for one in place.uses)
        until(
            lambda: "mem" in json.loads((tmp_path / "lease.json").read_text())["terms"], "it is in the file"
        )
        told = json.loads((tmp_path / "lease.json").read_text())
        assert told["terms"] == {"mem": 300 * MIB, "stay": 600_000}
        command.tell(orders.StopCommand("enough"))
        assert command.report(orders.Stopping).text == "enough"
        assert command.report(orders.Ended).released == "released"
    assert place.said[-1] == f.EndLease("L-prague-a-1.1")
    last = place.uses[-1].uses[0]
    assert last.used.peak_1s > 30 * MIB


@pytest.mark.parametrize("mem", [200 * MIB, 400 * MIB])
def test_a_renewal_that_grants_less_or_more_is_passed_on_to_the_running_command(
    place: Place, mem: int
) -> None:
    with guarded(place, *SLEEPS) as command:
        command.report(orders.Started)
        place.document = document(mem, revision=2, stay=500_000)
        again = command.report(orders.Regranted)
        assert (again.limits, again.stay_ms) == (Limits(mem=mem), 500_000)
        assert again.enforced["mem"] in {"kernel", "process"}
        command.tell(orders.StopCommand("enough"))
        command.report(orders.Stopping)
        command.report(orders.Ended)


def test_a_command_that_has_more_than_a_renewal_leaves_it_is_ended_and_that_is_told(place: Place) -> None:
    hog = "import time; held = bytearray(b'x') * (80 << 20); time.sleep(1000)"
    with guarded(place, sys.executable, "-c", hog) as command:
        command.report(orders.Started)
        until(lambda: place.uses[-1].uses and place.uses[-1].uses[0].used.rate_1s > 80 * MIB, "it has much")
        place.document = document(20 * MIB, revision=2)
        assert command.report(orders.Regranted).limits == Limits(mem=20 * MIB)
        while True:
            report = orders.read_report(command.wrapper.recv(orders.ORDER_BYTES_MAX))
            if isinstance(report, orders.Ended):
                break
        # By the guardian that looks on, or by the kernel.
        assert report.reason == "over-limit" or report.exit.signal == signal.SIGKILL


def test_the_time_to_stay_is_the_leases_and_a_renewal_may_shorten_it(place: Place) -> None:
    with guarded(place, *SLEEPS) as command:
        command.report(orders.Started)
        place.document = document(revision=2, stay=1)
        command.report(orders.Regranted)
        stopping = command.report(orders.Stopping)
        assert (stopping.reason, stopping.text) == (
            "stay-over",
            "it has run for 0.001 s, which is as long as it may",
        )
        assert command.report(orders.Ended).released == "released"


def test_before_the_end_of_a_lease_that_is_not_renewed_the_signal_comes_and_the_node_is_told(
    place: Place, tmp_path: Path
) -> None:
    # The lead is bounded by a quarter of the duration: 3 s. A busy machine starts the command in the other nine.
    before = orders.BeforeEnd(lead_ms=500_000, signal=signal.SIGUSR1)
    place.document = msgspec.structs.replace(document(stay=10**9), duration=12_000)
    place.valid_for_ms = 12_000
    script = (
        f"trap 'echo saved >> {tmp_path}/saved' USR1; echo > {tmp_path}/ready; while :; do sleep 0.05; done"
    )
    with guarded(place, "sh", "-c", script, before_end=before, deadline_in_ms=12_000) as command:
        command.report(orders.Started)
        until((tmp_path / "ready").exists, "the command has set its trap")
        assert not (tmp_path / "saved").exists()
        # From now on the node has no renewal to tell.
        place.valid_for_ms = 0
        until((tmp_path / "saved").exists, "the signal has come")
        until(lambda: place.uses[-1].before_end == "signal SIGUSR1 was sent", "the node is told")
        # Renewed after all: the command runs on, and is not told of that end again.
        place.valid_for_ms = 12_000
        told = len(place.uses)
        until(lambda: len(place.uses) > told + 2, "it is renewed")
        assert (tmp_path / "saved").read_text() == "saved\n"
        command.tell(orders.StopCommand("enough"))
        command.report(orders.Stopping)
        assert command.report(orders.Ended).before_end == "signal SIGUSR1 was sent"


def test_before_its_stay_is_over_the_outcome_is_told_at_once(place: Place, tmp_path: Path) -> None:
    # A second would be enough for the trap but on a busy machine.
    place.document = document(stay=9000)
    before = orders.BeforeEnd(lead_ms=3000, signal=signal.SIGUSR1)
    script = "trap 'exit 0' USR1; while :; do sleep 0.05; done"
    with guarded(place, "sh", "-c", script, before_end=before) as command:
        command.report(orders.Started)
        ended = command.report(orders.Ended)
    assert (ended.before_end, ended.exit.code) == ("signal SIGUSR1 was sent", 0)
    assert place.uses[-1].before_end == "signal SIGUSR1 was sent"
    assert place.uses[0].before_end == ""


def test_a_node_that_has_begun_anew_is_asked_to_take_the_lease_up(place: Place) -> None:
    with guarded(place, *SLEEPS) as command:
        command.report(orders.Started)
        place.knows = False
        until(lambda: f.RenewLease("L-prague-a-1.1", 60_000) in place.said, "it is asked")
        until(lambda: isinstance(place.said[-1], f.TellUse), "and used on")
        command.tell(orders.StopCommand("enough"))
        command.report(orders.Stopping)
        assert command.report(orders.Ended).released == "released"


def test_a_location_that_has_begun_anew_and_does_not_know_the_lease_yet_ends_nothing(place: Place) -> None:
    place.refusals = [f.Over("L-prague-a-1.1", "unknown")]
    with guarded(place, *SLEEPS) as command:
        command.report(orders.Started)
        place.knows = False
        until(lambda: place.knows and isinstance(place.said[-1], f.TellUse), "it is asked again, and used on")
        assert place.said.count(f.RenewLease("L-prague-a-1.1", 60_000)) == 2
        command.tell(orders.StopCommand("enough"))
        assert command.report(orders.Stopping).reason == "asked"
        assert command.report(orders.Ended).released == "released"


def test_a_lease_that_is_being_taken_away_as_its_node_begins_anew_ends_its_command(place: Place) -> None:
    place.refusals = [f.NoOffer("revoking")]
    with guarded(place, *SLEEPS) as command:
        command.report(orders.Started)
        place.knows = False
        stopping = command.report(orders.Stopping)
        assert (stopping.reason, stopping.text) == ("revoked", "the lease is being taken away")
        command.report(orders.Ended)


def test_a_lease_that_somebody_shortens_counts_for_less_from_then_on(place: Place) -> None:
    """What was confirmed before it was shortened does not keep the command alive when its node is silent."""
    place.document = document(stay=10**9)
    with guarded(place, *SLEEPS, grace_ms=5_000, deadline_in_ms=600_000) as command:
        command.report(orders.Started)
        told = len(place.uses)
        until(lambda: len(place.uses) > told + 2, "the long time is confirmed")
        place.document = msgspec.structs.replace(place.document, duration=4_000, revision=2)
        place.valid_for_ms = 4_000
        told = len(place.uses)
        until(lambda: len(place.uses) > told + 8, "it is renewed for the short time, again and again")
        place.valid_for_ms = 0
        stopping = command.report(orders.Stopping)
        assert stopping.reason == "not-renewed"
        command.report(orders.Ended)


@pytest.mark.parametrize(
    ("change", "reason", "text"),
    [
        ({"knows": False, "reason": "expired"}, "lease-gone", "the lease is over: expired"),
        ({"warned": "rule short of the host's policy"}, "revoked", "rule short of the host's policy"),
    ],
)
def test_a_lease_that_is_lost_or_taken_away_ends_its_command(
    place: Place, change: dict[str, object], reason: str, text: str
) -> None:
    with guarded(place, *SLEEPS) as command:
        command.report(orders.Started)
        for name, value in change.items():
            setattr(place, name, value)
        stopping = command.report(orders.Stopping)
        assert (stopping.reason, stopping.text) == (reason, text)
        command.report(orders.Ended)


def test_an_order_of_a_negotiated_lease_fits_a_packet() -> None:
    terms = tuple(TermStatus("x" * 60 + f"{n}", "capacity", 2**53 - 1, 2**53 - 1) for n in range(32))
    start = orders.Start(
        key="",
        lease=frames.LeaseView("L", "a", "a", 1, "", "active", (), (), 0, 0, 1, None, 1, renewing=True),
        node="/s",
        ttl_ms=1,
        deadline_ms=None,
        negotiated=msgspec.structs.replace(document(), terms=terms),
    )
    assert len(orders.pack(start)) < orders.ORDER_BYTES_MAX // 8
    assert orders.read_order(orders.pack(start)) == start
