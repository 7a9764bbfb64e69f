"""The published figures beside those of the shipped code: same loads, same loop, the ratio to ordered, the difference.

Where rates and waits are published, they are compared as they are, and throughput once more as a ratio to ordered in the same
column of the same table; where ratios are published, ratios, and over several workloads their geometric mean. Throughput must
come out within 15 %. The others are shown, too, and scatter more: a p99 of one or two runs rests on a few claims, and a ratio to
ordered on one run of ordered, whose throughput in a crowd of 40 pools differs by a quarter from seed to seed.
"""

from collections.abc import Iterable, Iterator, Sequence
from statistics import geometric_mean, mean
from typing import TypeAlias

import msgspec

from holdall.lab.compare.contestants import Contestant
from holdall.lab.compare.measure import Case, Measured
from holdall.lab.compare.published_tables import TABLES, Row, Scene, Table
from holdall.simulator.systems import SYSTEMS

LIMIT = 0.15
"""Throughput differs from what was published by at most this share, else it is flagged."""
MEASURES = ("throughput", "mean", "p99", "messages")
"""In the order in which a cell has them."""
ABSOLUTE = frozenset(table.name for table in TABLES if table.absolute)
RELATIVE = "relative"
"""Throughput by ordered's, where rates are published."""


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """One published number, and the same measured."""

    table: str
    source: str
    column: str
    label: str
    """As published."""
    protocol: str
    measure: str
    published: float
    """As it is published; `relative`: by ordered's."""
    measured: float
    seeds: int

    @property
    def difference(self) -> float:
        """Share by which the measured number is above the published one."""
        return self.measured / self.published - 1

    @property
    def gated(self) -> bool:
        """Whether it must be within the limit."""
        return self.measure == "throughput"

    @property
    def off(self) -> bool:
        """Beyond the limit."""
        return abs(self.difference) > LIMIT


class Turned(msgspec.Struct, frozen=True, kw_only=True):
    """Two protocols of one column that came out in the other order."""

    table: str
    column: str
    first: str
    """Label of the one with the higher published throughput."""
    second: str
    published: float
    """The first one's throughput by the second one's."""
    measured: float


class Place(msgspec.Struct, frozen=True):
    """Where a run is needed: who, on what."""

    contestant: Contestant
    scene: Scene


def _place(row: Row, scene: Scene) -> Place:
    workload = scene.workload
    if row.nodes is not None:
        workload = msgspec.structs.replace(workload, nodes=row.nodes)
    return Place(row.contestant, Scene(workload, scene.duration))


def chosen_rows(table: Table, protocols: Iterable[str]) -> list[Row]:
    """The baseline, and the rows of the protocols that are wanted and that the simulator has."""
    wanted = set(protocols)
    return [
        row
        for number, row in enumerate(table.rows)
        if row.contestant.protocol in SYSTEMS and (number == 0 or row.contestant.protocol in wanted)
    ]


def _cells(table: Table, row: Row) -> Iterator[tuple[str, list[Scene], dict[str, float]]]:
    """(column, its workloads that this protocol serves, measure -> published figure)."""
    for (column, scenes), cell in zip(table.columns.items(), row.cells, strict=True):
        figures = {
            measure: float(text)
            for measure, text in zip(MEASURES, cell.split("/"), strict=False)
            if text != "-"
        }
        able = [scene for scene in scenes if row.contestant.can(scene.workload)]
        if figures and able:
            yield column, able, figures


def places(protocols: Iterable[str]) -> list[Place]:
    """Every run that the tables need, each once."""
    wanted = list(protocols)
    found: dict[Place, None] = {}
    for table in TABLES:
        for row in chosen_rows(table, wanted):
            for _, scenes, _ in _cells(table, row):
                found.update((_place(who, scene), None) for who in (row, table.rows[0]) for scene in scenes)
    return list(found)


def cases(protocols: Iterable[str], *, seeds: int, share: float = 1.0) -> list[tuple[Place, Case]]:
    """The runs; with a `share` below 1 they are that much shorter."""
    return [
        (
            place,
            Case(
                contestant=place.contestant, title=_title(place), workload=place.scene.workload, seed=seed,
                duration=max(300.0, place.scene.duration * share),
            ),
        )
        for place in places(protocols)
        for seed in range(1, seeds + 1)
    ]  # fmt: skip


def _title(place: Place) -> str:
    workload = place.scene.workload
    return f"{workload.pools} pools on {workload.nodes}, k={workload.k}, {workload.load}"


def compared(runs: Sequence[tuple[Place, Measured]], protocols: Iterable[str]) -> list[Compared]:
    """Each published figure of the wanted protocols, and of ordered, beside the measured one.

    A run that violated a property ended there and counts for nothing; a figure that rests on such runs alone is left out.
    """
    by_place: dict[Place, list[Measured]] = {}
    for place, found in runs:
        if not found.violations:
            by_place.setdefault(place, []).append(found)
    wanted = list(protocols)
    return [
        one
        for table in TABLES
        for row in chosen_rows(table, wanted)
        if table.absolute or row is not table.rows[0]
        for one in _row(table, row, by_place)
    ]


def _row(table: Table, row: Row, by_place: dict[Place, list[Measured]]) -> Iterator[Compared]:
    first = {column: figures for column, _, figures in _cells(table, table.rows[0])}
    for column, scenes, figures in _cells(table, row):
        both = [(_place(row, scene), _place(table.rows[0], scene)) for scene in scenes]
        pairs = [(by_place[mine], by_place[base]) for mine, base in both if {mine, base} <= by_place.keys()]
        if not pairs:
            continue
        found = dict(_as_published(table, figures, pairs))
        if (
            table.absolute
            and row is not table.rows[0]
            and "throughput" in figures.keys() & first[column].keys()
        ):
            published = figures["throughput"] / first[column]["throughput"]
            found[RELATIVE] = (published, _ratio(pairs, "throughput"))
        for measure, (published, measured) in found.items():
            yield Compared(
                table=table.name, source=table.source, column=column, label=row.label,
                protocol=row.contestant.protocol, measure=measure, published=published, measured=measured,
                seeds=len(pairs[0][0]),
            )  # fmt: skip


Pairs: TypeAlias = list[tuple[list[Measured], list[Measured]]]
"""For each workload of a column: the runs of a protocol, and those of the baseline."""


def _as_published(
    table: Table, figures: dict[str, float], pairs: Pairs
) -> Iterator[tuple[str, tuple[float, float]]]:
    """Measure, and what is published and measured of it."""
    for measure, published in figures.items():
        if table.absolute or measure == "messages":
            yield measure, (published, mean(_mean(mine, measure) for mine, _ in pairs))
        else:
            yield measure, (published, _ratio(pairs, measure))


def _ratio(pairs: Pairs, measure: str) -> float:
    return geometric_mean(_mean(mine, measure) / _mean(other, measure) for mine, other in pairs)


def turned(found: Iterable[Compared]) -> tuple[int, list[Turned]]:
    """How many pairs of a column are further apart than the limit as published, and those that came out the other way."""
    columns: dict[tuple[str, str], dict[str, tuple[float, float]]] = {}
    for one in found:
        if one.measure == "throughput":
            # where ratios are published, the baseline has no row of its own
            start = {} if one.table in ABSOLUTE else {"ordered": (1.0, 1.0)}
            column = columns.setdefault((one.table, one.column), start)
            column[one.label] = (one.published, one.measured)
    pairs = 0
    wrong: list[Turned] = []
    for (table, name), column in columns.items():
        for first, (published, measured) in column.items():
            for second, (other_published, other_measured) in column.items():
                if published <= other_published * (1 + LIMIT):
                    continue
                pairs += 1
                if measured <= other_measured:
                    wrong.append(
                        Turned(
                            table=table, column=name, first=first, second=second,
                            published=published / other_published, measured=measured / max(1e-9, other_measured),
                        )
                    )  # fmt: skip
    return pairs, wrong


def _mean(runs: Sequence[Measured], measure: str) -> float:
    return max(1e-9, mean(float(getattr(run, measure)) for run in runs))
