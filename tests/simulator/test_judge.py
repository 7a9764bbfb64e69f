"""The judge finds what it is there for: machines, books and drivers with a rule taken away."""

from collections.abc import Mapping

import msgspec
import pytest

from holdall.leases.book import LeaseBook
from holdall.leases.holder import Deadlines
from holdall.machine.contract import BOOT_KEY, Boot, Received, Record
from holdall.machine.trace import Step
from holdall.protocols.chain.counting import Counts
from holdall.protocols.hooks import Effects
from holdall.protocols.vocabulary import Acquire, ClaimId, UnitGrant
from holdall.simulator.faults import Faults
from holdall.simulator.judge import Judge
from holdall.simulator.overtaking import Overtaking
from holdall.simulator.run import Report, Run
from holdall.simulator.setup import Setup
from holdall.simulator.systems import Chain
from holdall.simulator.workload import Workload

GPU = ("n1", "gpu")


def unit(number: int, fence: int) -> UnitGrant:
    return UnitGrant("n1", "gpu", f"u{number}", fence)


def judge() -> Judge:
    return Judge({GPU: 2})


def test_a_unit_for_two_clients_is_an_exclusion_violated() -> None:
    found = judge()
    found.granted(1, [unit(0, 5)], {GPU: 1})
    found.stopped(1, [unit(0, 5)])
    found.granted(2, [unit(0, 6)], {GPU: 1})
    assert found.violations == []
    found.granted(3, [unit(0, 7)], {GPU: 1})
    assert found.violations == ["exclusion: gpu/u0@n1 has clients 2 and 3"]


def test_a_fence_that_does_not_grow_is_found() -> None:
    found = judge()
    found.granted(1, [unit(0, 5)], {GPU: 1})
    found.stopped(1, [unit(0, 5)])
    found.granted(2, [unit(0, 5)], {GPU: 1})
    assert found.violations == ["fence: gpu/u0@n1 was given with 5 after 5"]


def test_less_than_was_asked_for_is_found() -> None:
    found = judge()
    found.granted(1, [unit(0, 5)], {GPU: 2})
    assert len(found.violations) == 1
    assert found.violations[0].startswith("all or nothing: client 1 asked for")


def test_a_client_that_goes_on_after_its_units_were_given_to_another_is_found() -> None:
    found = judge()
    found.granted(1, [unit(0, 5)], {GPU: 1})
    found.stopped(1, [unit(0, 5)])
    found.used_again(1, [unit(0, 5)])
    assert found.violations == []
    found.stopped(1, [unit(0, 5)])
    found.granted(2, [unit(0, 6)], {GPU: 1})
    found.stopped(2, [unit(0, 6)])
    found.used_again(1, [unit(0, 5)])
    assert found.violations[0].startswith("exclusion: client 1 goes on with gpu/u0@n1")


def test_more_units_given_than_there_are_is_found() -> None:
    found = judge()
    found.used("n1", {"gpu": 2})
    assert found.violations == []
    found.used("n1", {"gpu": 3})
    assert found.violations == ["capacity: pool gpu of n1 has given 3 of 2 units"]


def test_a_unit_in_use_that_its_node_has_not_set_aside_is_found() -> None:
    judge = Judge({("n0", "gpu"): 1})
    judge.granted(0, [UnitGrant("n0", "gpu", "0", 7)], {("n0", "gpu"): 1})
    judge.set_aside("n0", {("gpu", "0"): 7})
    judge.set_aside("n1", {})
    assert judge.violations == []
    judge.set_aside("n0", {("gpu", "0"): 6})
    assert judge.violations == ["set aside: client 0 uses gpu/0@n0 with fence 7, and the node has 6 for it"]


def test_what_is_left_at_the_end_is_found() -> None:
    found = judge()
    found.at_the_end([], {"n1": 0})
    assert found.violations == []
    found.granted(1, [unit(0, 5)], {GPU: 1})
    found.at_the_end([4, 2], {"n1": 1, "n2": 0})
    assert found.violations == [
        "starvation: clients [2, 4] still wait at the end",
        "left over: n1 has 1 entries at the end",
        "left over: units in use at the end: [('n1', 'gpu', 'u0')]",
    ]


# Rules taken away


FREE = Counts.free


def one_too_many(self: Counts, pool: str) -> int:
    return FREE(self, pool) + 1


def struck(faults: Faults, *, seeds: range = range(1, 9), hold: float = 40.0, nodes: int = 2) -> list[Report]:
    """Runs until one has a violation."""
    reports: list[Report] = []
    for seed in seeds:
        workload = Workload(pools=4, nodes=nodes, load="saturated", hold=hold, think=3)
        setup = Setup(workload=workload, faults=faults, seed=seed, duration=400, strict=True)
        reports.append(Run(setup).run())
        if reports[-1].violations:
            break
    return reports


def without_quarantine(monkeypatch: pytest.MonkeyPatch) -> None:
    recover = LeaseBook.recover

    def at_once(self: LeaseBook, records: Mapping[str, Record], out: Effects) -> None:
        boot = records[BOOT_KEY]
        assert isinstance(boot, Boot)
        recover(self, {**records, BOOT_KEY: msgspec.structs.replace(boot, quarantine_ms=0)}, out)

    monkeypatch.setattr(LeaseBook, "recover", at_once)


def not_looked_at(judge: Judge, node: str, held: Mapping[tuple[str, str], int]) -> None:
    del judge, node, held


def test_no_quarantine_after_a_wipe_gives_a_unit_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    faults = Faults(wipe=3)
    assert struck(faults)[-1].violations == []
    without_quarantine(monkeypatch)
    # The node may grant what it does not know to be in use, ...
    assert struck(faults)[-1].violations[0].startswith("set aside: ")
    # ... and does.
    monkeypatch.setattr(Judge, "set_aside", not_looked_at)
    assert struck(faults)[-1].violations[0].startswith("exclusion: ")


def test_a_restart_that_forgets_its_leases_gives_a_unit_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    faults = Faults(restart=8)
    assert struck(faults)[-1].violations == []
    recover = Chain.host

    def forgetful(self: Chain, name: str) -> object:
        host = recover(self, name)
        whole = host.recover

        def part(records: Mapping[str, Record], boot: Boot) -> object:
            return whole(
                {key: value for key, value in records.items() if "/lease/" not in key and "!row/" not in key},
                boot,
            )

        monkeypatch.setattr(host, "recover", part)
        return host

    monkeypatch.setattr(Chain, "host", forgetful)
    assert struck(faults)[-1].violations != []


def test_a_holder_that_does_not_stop_in_time_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    faults = Faults(pause=20)
    assert struck(faults)[-1].violations == []

    def never(_self: Deadlines, _timer: str) -> None:
        return None

    monkeypatch.setattr(Deadlines, "fired", never)
    assert struck(faults)[-1].violations[0].startswith("exclusion: ")


def test_a_manager_that_counts_one_unit_too_many_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counts, "free", one_too_many)
    violations = struck(Faults())[-1].violations
    assert violations
    assert "refused: 1 units of p00" in violations[0] or violations[0].startswith("capacity: ")


def test_more_passing_than_the_bound_is_found() -> None:
    workload = Workload(pools=4, load="saturated")
    run = Run(Setup(workload=workload, duration=400, strict=True, passes=8, passes_per_ahead=1))
    assert isinstance(run.system, Chain)
    run.system._meters["n000"] = Overtaking("n000", passes=2, passes_per_ahead=0)
    assert "was passed 3 times at n000; its bound is 2" in run.run().violations[0]


@pytest.mark.parametrize(("passes", "per_ahead"), [(0, 0), (1, 0), (2, 1), (8, 1)])
def test_the_bound_shown_to_users_holds(passes: int, per_ahead: int) -> None:
    for seed in (1, 2):
        setup = Setup(
            workload=Workload(pools=6, load="saturated"),
            duration=500,
            strict=True,
            passes=passes,
            passes_per_ahead=per_ahead,
            seed=seed,
        )
        run = Run(setup)
        assert run.run().violations == []
        assert isinstance(run.system, Chain)
        most = run.system.most_passed()
        print(f"passes {passes} + {per_ahead} a: one row was passed at most {most} times")
        assert (most == 0) == (passes + per_ahead == 0)


def test_a_claim_id_is_never_used_twice() -> None:
    seen: set[ClaimId] = set()
    setup = Setup(workload=Workload(pools=2), duration=300, faults=Faults(departure=0.3, loss=0.05))

    def look(step: Step) -> None:
        for event in (arrival.event for arrival in step.arrivals):
            if not isinstance(event, Received) or event.sender.part != "agent":
                continue
            if isinstance(event.message, Acquire):
                assert event.message.claim not in seen
                seen.add(event.message.claim)

    assert Run(setup, on_step=look).run().violations == []
    assert len(seen) > 10
