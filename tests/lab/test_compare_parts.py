"""The parts of a comparison: deaths on a ring, cost of a claim alone, published figures, looks, and who can do what."""

import msgspec
import pytest

from holdall.lab.compare.alone import SIZES, SPECIFIED, AloneCase, alone
from holdall.lab.compare.contestants import contestants, plain
from holdall.lab.compare.extent import Extent, ExtentCase, extent
from holdall.lab.compare.look import LOOKS, looks
from holdall.lab.compare.measure import Case, Measured, measure
from holdall.lab.compare.published import LIMIT, Compared, cases, compared, places, turned
from holdall.lab.compare.published_sheets import published_sheets
from holdall.lab.compare.published_tables import TABLES
from holdall.lab.compare.rows import rows
from holdall.lab.compare.suites import FULL_LOADS, QUICK_LOADS
from holdall.simulator.workload import Workload, named_workload


@pytest.mark.parametrize(("victim", "blocked"), [(0, 2), (10, 12), (25, 27), (40, 42)])
def test_without_leases_ordered_blocks_all_who_stand_before_the_dead(victim: int, blocked: int) -> None:
    found = extent(ExtentCase(contestant=plain("ordered"), pools=50, victim=victim, leases=False))
    assert found.violations == []
    assert len(found.blocked) == blocked
    assert victim not in found.blocked
    assert (found.longest, found.back, found.served) == (None, None, None)


def test_without_leases_first_fit_blocks_the_two_neighbours() -> None:
    found = extent(ExtentCase(contestant=plain("central"), pools=50, victim=10, leases=False))
    assert (found.blocked, found.farthest) == ([9, 11], 1)


@pytest.mark.parametrize("name", ["chain", "ordered"])
def test_with_leases_the_units_of_the_dead_are_with_others_in_time(name: str) -> None:
    found = extent(ExtentCase(contestant=plain(name), pools=12, victim=4, leases=True))
    assert found.violations == []
    assert found.back is not None
    # renewed each third of a ttl, so at least the rest of it passes
    assert found.ttl / 2 <= found.back <= found.ttl + 2 * found.hold
    assert found.recovered
    assert found.served is not None
    assert found.served >= found.back


def test_a_death_that_comes_late_is_watched_longer() -> None:
    # on a long ring the token comes by seldom: this client holds nothing until its five ttls are nearly over
    found = extent(ExtentCase(contestant=plain("token-tickets"), pools=50, victim=25, leases=True))
    assert found.violations == []
    assert found.died > 500
    assert found.back is not None
    assert found.served is not None
    assert found.recovered


@pytest.mark.parametrize("name", ["central", "ordered", "chain", "chain-try"])
@pytest.mark.parametrize("k", [1, 2, 3, 16])
def test_a_claim_alone_costs_what_is_specified(name: str, k: int) -> None:
    (contestant,) = contestants(name)
    found = alone(AloneCase(contestant, k))
    assert found.violations == []
    assert found.grants >= 10
    assert found.messages == found.specified_messages
    assert found.delays == pytest.approx(found.specified_delays)
    assert found.same is True
    assert sum(found.kinds.values()) == pytest.approx(found.messages + found.acknowledgements + found.hops)


def test_the_specified_costs_of_one_to_sixteen_pools_are_whole_numbers_that_never_fall() -> None:
    for cost in SPECIFIED.values():
        counts = [cost.messages(k) for k in SIZES]
        assert counts == sorted(counts)
        assert cost.delays is None or cost.delays(1) >= 2


def test_published_tables_are_rectangular_and_positive() -> None:
    for table in TABLES:
        assert table.rows[0].contestant.name == "ordered"
        for row in table.rows:
            assert len(row.cells) == len(table.columns), (table.name, row.label)
            for cell in row.cells:
                numbers = [text for text in cell.split("/") if text != "-"]
                assert all(float(text) > 0 for text in numbers)
                assert cell == "-" or len(cell.split("/")) == 4


def test_each_run_that_the_tables_need_is_made_once() -> None:
    needed = places(["chain"])
    assert len(needed) == len(set(needed))
    assert {place.contestant.protocol for place in needed} == {"ordered", "chain"}
    assert len(cases(["chain"], seeds=3)) == 3 * len(needed)


def _measured(case: Case, throughput: float) -> Measured:
    return Measured(
        name=case.contestant.name, title=case.title, seed=case.seed, claims=1, grants=1, throughput=throughput,
        mean=10.0, p99=20.0, longest=30.0, messages=5.0, jain=0.5, overtaken=1, passed=None, percentiles=[],
        violations=[], delivered=1, seconds=1.0,
    )  # fmt: skip


def test_differences_from_the_published_ratios_are_flagged_beyond_the_limit() -> None:
    needed = cases(["central"], seeds=2)
    runs = [
        (place, _measured(case, 0.2 if place.contestant.name == "ordered" else 0.6)) for place, case in needed
    ]
    found = [one for one in compared(runs, ["central"]) if one.measure == "throughput"]
    by_column = {(one.table, one.column): one for one in found}
    summary = by_column["summary", "low"]
    assert summary.published == pytest.approx(1.30)
    assert summary.measured == pytest.approx(3.0)
    assert summary.off
    close = by_column["summary", "saturated"]
    assert close.difference == pytest.approx(3.0 / 2.88 - 1)
    assert not close.off
    assert by_column["several pools a node", "8 k2 u1 sat"].published == 0.457


def test_rates_are_compared_as_they_are_and_once_more_by_ordered() -> None:
    needed = cases(["central"], seeds=2)
    runs = [
        (place, _measured(case, 0.2 if place.contestant.name == "ordered" else 0.6)) for place, case in needed
    ]
    found = {
        (one.label, one.measure): one
        for one in compared(runs, ["central"])
        if (one.table, one.column) == ("several pools a node", "8 k2 u1 sat")
    }
    relative = found["central", "relative"]
    assert relative.published == pytest.approx(0.457 / 0.238)
    assert relative.measured == pytest.approx(3.0)
    assert (relative.off, relative.gated) == (True, False)
    assert found["ordered", "throughput"].difference == pytest.approx(0.2 / 0.238 - 1)
    assert found["ordered", "throughput"].off
    assert ("ordered", "relative") not in found


def test_a_run_that_violated_a_property_counts_for_nothing() -> None:
    needed = cases(["central"], seeds=2)
    runs = [(place, _measured(case, 0.3)) for place, case in needed]
    broken = [
        (place, msgspec.structs.replace(one, throughput=0.0, violations=["exclusion: …"]))
        if one.name == "central" and one.seed == 1
        else (place, one)
        for place, one in runs
    ]
    found = [one for one in compared(broken, ["central"]) if one.measure == "throughput"]
    assert found
    assert {round(one.measured, 9) for one in found} == {0.3, 1.0}
    none = [(place, one) for place, one in runs if one.name != "central"]
    assert {one.protocol for one in compared(none, ["central"])} == {"ordered"}


def _rate(label: str, published: float, measured: float, table: str = "several pools a node") -> Compared:
    return Compared(
        table=table, source="s", column="c", label=label, protocol="chain", measure="throughput",
        published=published, measured=measured, seeds=1,
    )  # fmt: skip


def test_pairs_that_are_clearly_apart_as_published_must_come_out_in_that_order() -> None:
    found = [_rate("a", 2.0, 1.0), _rate("b", 1.5, 1.1), _rate("c", 1.4, 0.9)]
    pairs, wrong = turned(found)
    # b and c are too near each other to count
    assert pairs == 2
    assert [(one.first, one.second) for one in wrong] == [("a", "b")]
    assert wrong[0].published == pytest.approx(2.0 / 1.5)
    assert wrong[0].measured == pytest.approx(1.0 / 1.1)
    # where ratios are published, ordered itself takes part with 1
    assert turned([_rate("a", 2.0, 0.9, "summary")])[1][0].second == "ordered"


def test_the_published_tables_show_what_is_off_and_what_is_turned() -> None:
    sheets = published_sheets([_rate("a", 2.0, 1.0), _rate("b", 1.5, 1.5)])
    assert [sheet.rows for sheet in sheets] == [
        [("a", "2 / 1 (0.50) !"), ("b", "1.5 / 1.5 (1.00)")],
        [("a", "b", "several pools a node", "c", "1.33", "0.67")],
    ]
    assert "1 came out in the other order" in sheets[-1].note
    assert published_sheets([]) == []


def test_the_limit_counts_up_and_down() -> None:
    base = Compared(
        table="t", source="s", column="c", label="l", protocol="chain", measure="throughput", published=1.0,
        measured=1.0, seeds=1,
    )  # fmt: skip
    for measured, off in ((1 + LIMIT - 0.01, False), (1 + LIMIT + 0.01, True), (1 - LIMIT - 0.01, True)):
        assert msgspec.structs.replace(base, measured=measured).off is off


def test_seeds_are_set_against_the_same_seeds_of_ordered() -> None:
    workload = Workload(pools=4, nodes=4)
    made = [
        Case(contestant=plain(name), title="t", workload=workload, seed=seed, duration=1000)
        for name in ("ordered", "chain")
        for seed in (1, 2)
    ]
    found = rows(
        [_measured(case, value) for case, value in zip(made, (1.0, 4.0, 2.0, 2.0), strict=True)],
        contestants("ordered,chain"), ["t"],
    )  # fmt: skip
    assert [row.name for row in found] == ["ordered", "chain"]
    assert found[1].relative is not None
    assert found[1].relative.throughput == pytest.approx((2.0 * 0.5) ** 0.5)
    assert found[1].throughput_span == (2.0, 2.0)


def test_one_colour_a_protocol_and_no_two_alike() -> None:
    assert len({look.colour for look in LOOKS.values()}) == len(LOOKS)
    assert len({(look.marker, look.line) for look in LOOKS.values()}) == len(LOOKS)
    some = looks(["chain", "zebra", "ordered", "aardvark"])
    assert list(some) == ["ordered", "chain", "aardvark", "zebra"]
    assert some["chain"] == LOOKS["chain"]
    assert some["zebra"] != some["aardvark"]


@pytest.mark.parametrize("title", [*QUICK_LOADS, *FULL_LOADS])
def test_every_load_of_the_lists_is_a_workload(title: str) -> None:
    assert named_workload(title).client_count > 0


def test_passes_are_counted_in_strict_runs() -> None:
    workload = named_workload("random-8-n1-saturated")
    found = measure(
        Case(contestant=plain("chain"), title="t", workload=workload, seed=1, duration=300, strict=True)
    )
    assert found.violations == []
    assert found.passed is not None
    assert found.passed > 0


def _of(extents: list[Extent]) -> list[int]:
    return [len(one.blocked) for one in extents]


def test_one_seed_is_one_death() -> None:
    case = ExtentCase(contestant=plain("chain"), pools=12, victim=3, leases=False, seed=5)
    assert extent(case) == extent(case)
    assert _of([extent(case)])[0] >= 2
