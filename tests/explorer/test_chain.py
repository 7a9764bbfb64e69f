"""The shipped chain, searched exhaustively: every order of events, every fault, exact numbers of states."""

import msgspec
import pytest
from explorer import chain_runs
from explorer.chain_runs import LONG_FROM, Run
from explorer.plain_search import PlainSearch

from holdall.explorer.moves import Timers
from holdall.explorer.mutants.chain import KillOfAnyEpoch, KillsGranted, NoWound
from holdall.explorer.search import explore
from holdall.explorer.space import Space
from holdall.protocols.chain.manager import Manager
from holdall.world.chain import ChainSystem
from holdall.world.faults import budget, read_faults
from holdall.world.named import named


def runs(table: list[Run]) -> list[object]:
    long = [pytest.mark.long]
    return [pytest.param(run, id=str(run), marks=long if run.states > LONG_FROM else []) for run in table]


def check(run: Run) -> None:
    world = named(run.world, passes=run.passes, passes_per_ahead=run.ahead)
    match run.variant:
        case "meter":
            world = msgspec.structs.replace(world, meter=True)
        case "leases":
            world = msgspec.structs.replace(world, book="leases")
        case "stamps":
            world = msgspec.structs.replace(world, tell_stamp=True)
        case variant if "@" in variant:
            host, _, node = variant.partition("@")
            world = msgspec.structs.replace(world, expiring=(host, node))
        case _:
            pass
    timers: Timers | None = "any" if run.variant == "any" else None
    reduced = "@" in run.variant
    falling = run.variant.partition("falls-")[2]
    space = Space(
        ChainSystem(world), read_faults(run.faults), timers=timers, falling=falling, reduced=reduced
    )
    result = explore(space)
    assert not result.violations
    assert result.complete
    assert result.states == run.states


@pytest.mark.parametrize("run", runs(chain_runs.FAULT_FREE))
def test_every_order_of_events_is_safe_and_everybody_can_be_served(run: Run) -> None:
    check(run)


@pytest.mark.parametrize("run", runs(chain_runs.OTHER_BOUNDS))
def test_other_bounds_of_overtaking(run: Run) -> None:
    check(run)


@pytest.mark.parametrize("run", runs(chain_runs.TWO_CLAIMS_OF_ONE_NODE))
def test_two_claims_of_one_node_in_any_order(run: Run) -> None:
    check(run)


@pytest.mark.parametrize("run", runs(chain_runs.KEPT_STAMPS))
def test_ch12_stamps_that_claimants_bring(run: Run) -> None:
    check(run)


@pytest.mark.parametrize("run", runs(chain_runs.VERBS))
def test_every_verb_beside_waiting_claims(run: Run) -> None:
    check(run)


@pytest.mark.parametrize("run", runs(chain_runs.METERED))
def test_nobody_is_overtaken_more_often_than_the_bound_says(run: Run) -> None:
    check(run)


@pytest.mark.parametrize("run", runs(chain_runs.LOST_OR_TWICE))
def test_one_message_lost_or_arriving_twice(run: Run) -> None:
    check(run)


@pytest.mark.parametrize("run", runs(chain_runs.CRASHES))
def test_ch15_a_crash_after_each_save_and_each_send(run: Run) -> None:
    check(run)


@pytest.mark.parametrize("run", runs(chain_runs.RESTARTS))
def test_restarts_go_on_from_what_was_saved(run: Run) -> None:
    check(run)


@pytest.mark.parametrize("run", runs(chain_runs.REBOOTS))
def test_ch16_a_reboot_drops_the_queue_and_keeps_who_holds(run: Run) -> None:
    check(run)


@pytest.mark.parametrize("run", runs(chain_runs.WIPES))
def test_a_node_that_lost_everything_waits_for_the_leases_of_before(run: Run) -> None:
    check(run)


@pytest.mark.parametrize("run", runs(chain_runs.EXPIRIES))
def test_a_live_claimants_lease_ends_by_its_own_clock_first(run: Run) -> None:
    check(run)


@pytest.mark.parametrize("run", runs(chain_runs.CANCELS))
def test_a_cancel_at_any_moment(run: Run) -> None:
    check(run)


@pytest.mark.parametrize("run", runs(chain_runs.DEPARTURES))
def test_claimants_that_fall_silent(run: Run) -> None:
    check(run)


@pytest.mark.parametrize("run", runs(chain_runs.TWO_AT_ONCE))
def test_two_faults_at_any_two_moments(run: Run) -> None:
    check(run)


@pytest.mark.parametrize("run", runs(chain_runs.VARIANTS))
def test_the_shipped_lease_book_and_other_settings(run: Run) -> None:
    check(run)


@pytest.mark.parametrize(
    ("name", "faults"), [("x2low", ""), ("n1abc", ""), ("x2low", "loss=1"), ("x2low", "restart=1")]
)
def test_tables_find_exactly_the_states_of_a_plain_search(name: str, faults: str) -> None:
    system = ChainSystem(named(name))
    plain = PlainSearch(system, read_faults(faults), timers=bool(faults)).count()
    assert explore(Space(system, read_faults(faults))).states == plain


@pytest.mark.parametrize(
    ("name", "faults", "full", "reduced"),
    [("x2", "", 387, 375), ("n1abc", "expiry=1", 43104, 19762), ("x2low", "expiry=1", 61620, 27342)],
)
def test_the_reduction_leaves_states_out_and_comes_to_the_same_verdict(
    name: str, faults: str, full: int, reduced: int
) -> None:
    results = [
        explore(Space(ChainSystem(named(name)), read_faults(faults), reduced=first))
        for first in (False, True)
    ]
    assert [result.states for result in results] == [full, reduced]
    assert all(result.complete and not result.violations for result in results)


@pytest.mark.parametrize(("make", "name", "steps"), [(NoWound, "x2", 6), (KillsGranted, "ring3", 10)])
def test_the_reduction_hides_no_violation(make: type[Manager], name: str, steps: int) -> None:
    system = ChainSystem(named(name), manager=make, settled=False)
    (violation,) = explore(Space(system, budget(), reduced=True)).violations
    assert violation.steps == steps


def test_no_reduction_where_messages_may_be_lost() -> None:
    with pytest.raises(ValueError, match="no --reduce late"):
        Space(ChainSystem(named("x2")), budget(loss=1), reduced=True)


@pytest.mark.long
def test_a_kill_for_a_dropped_queue_may_be_answered() -> None:
    """Granted rows outlive a reboot, so the epoch in a Kill is needed for lost journals only."""
    space = Space(ChainSystem(named("kb"), manager=KillOfAnyEpoch), budget(reboot=1))
    result = explore(space)
    assert result.complete
    assert not result.violations
