"""Judges each claim and its answers alone.

`duplicate-claim`, `bad-need`, `unasked-grant`, `double-grant`, `duplicate-lease`, `grant-and-fail`,
`all-or-nothing`, `same-unit-twice`, `unknown-unit`, `no-fence`.
"""

from collections import Counter
from collections.abc import Iterator

from holdall.checker.reading import Line
from holdall.checker.records import Claim, Grant, Need, PoolSize
from holdall.checker.stories import ClaimStory, History, LeaseStory
from holdall.checker.verdict import Violation


def judge_outcomes(history: History) -> Iterator[Violation]:
    """All violations of these rules."""
    for story in history.claims.values():
        yield from _asked_twice(history, story)
        yield from _bad_need(history, story)
        yield from _contradictions(history, story)
        for grant in story.grants:
            if story.asked:
                yield from _not_what_was_asked(history, story.asked[0].record, grant)
            yield from _units(history, grant)
    for lease in history.leases.values():
        yield from _two_claims_one_lease(history, lease)


def _asked_twice(history: History, story: ClaimStory) -> Iterator[Violation]:
    for again in story.asked[1:]:
        yield Violation(
            rule="duplicate-claim",
            at=again.record.at,
            text=(
                f"claim {story.claim} of {again.record.client} at {history.when(again.record.at)} has the id of "
                f"a claim of {story.asked[0].record.client} at {history.when(story.asked[0].record.at)}"
            ),
            lines=(str(story.asked[0].place), str(again.place)),
        )


def _bad_need(history: History, story: ClaimStory) -> Iterator[Violation]:
    """A need that nothing can meet must be refused; that is no violation of anybody's."""
    if not story.asked or not history.setups:
        return
    asked = story.asked[0]
    faults = [
        fault for need in _needs_of(asked.record) if (fault := _fault_of(need, history.pools)) is not None
    ]
    if len(faults) < len(_needs_of(asked.record)):
        return
    refused = any(fail.record.definite for fail in story.fails)
    unknown = bool(story.fails) or history.crash_after(asked.record.client, asked.record.at) is not None
    if story.grants or story.queued or not (refused or unknown):
        did = "granted" if story.grants else "queued" if story.queued else "left without an answer"
        yield Violation(
            rule="bad-need",
            at=asked.record.at,
            text=f"claim {story.claim} of {asked.record.client} was {did}, though {faults[0]}",
            lines=(str(asked.place), *(str(line.place) for line in (*story.grants, *story.queued))),
        )


def _needs_of(claim: Claim) -> tuple[Need, ...]:
    return (claim.need, *claim.alternatives)


def _fault_of(need: Need, pools: dict[str, PoolSize]) -> str | None:
    """Why nothing can meet the need."""
    if not need:
        return "it asks for nothing"
    for pool, number in sorted(need.items()):
        if pool not in pools:
            return f"there is no pool {pool}"
        if number != "all" and number < 1:
            return f"it asks for {number} of {pool}"
        if number != "all" and number > pools[pool].size:
            return f"it asks for {number} of {pool}, which has {pools[pool].size}"
    return None


def _contradictions(history: History, story: ClaimStory) -> Iterator[Violation]:
    if not story.grants:
        return
    first = story.grants[0]
    if not story.asked or first.record.at + history.tolerance < story.asked[0].record.at:
        later = f"; it was asked at {history.when(story.asked[0].record.at)}" if story.asked else ""
        yield Violation(
            rule="unasked-grant",
            at=first.record.at,
            text=f"claim {story.claim} was granted at {history.when(first.record.at)} before anybody asked{later}",
            lines=(str(first.place), *(str(line.place) for line in story.asked)),
        )
    for again in story.grants[1:]:
        yield Violation(
            rule="double-grant",
            at=again.record.at,
            text=(
                f"claim {story.claim} was granted at {history.when(first.record.at)} (lease "
                f"{first.record.lease_id}) and again at {history.when(again.record.at)} (lease "
                f"{again.record.lease_id})"
            ),
            lines=(str(first.place), str(again.place)),
        )
    for fail in story.fails:
        if fail.record.definite:
            yield Violation(
                rule="grant-and-fail",
                at=max(fail.record.at, first.record.at),
                text=(
                    f"claim {story.claim} was granted at {history.when(first.record.at)} and definitely not "
                    f"granted at {history.when(fail.record.at)}"
                ),
                lines=(str(first.place), str(fail.place)),
            )
            break


def _two_claims_one_lease(history: History, lease: LeaseStory) -> Iterator[Violation]:
    for again in lease.grants[1:]:
        if again.record.claim != lease.grants[0].record.claim:
            yield Violation(
                rule="duplicate-lease",
                at=again.record.at,
                text=(
                    f"lease {lease.lease} was given to claim {lease.grants[0].record.claim} at "
                    f"{history.when(lease.grants[0].record.at)} and to claim {again.record.claim} at "
                    f"{history.when(again.record.at)}"
                ),
                lines=(str(lease.grants[0].place), str(again.place)),
            )


def _not_what_was_asked(history: History, claim: Claim, grant: Line[Grant]) -> Iterator[Violation]:
    given: Counter[str] = Counter()
    for unit in grant.record.units:
        given[unit.pool] += 1 if unit.count is None else unit.count
    if any(_meets(given, need, history.pools) for need in _needs_of(claim)):
        return
    asked = " or ".join(_shown(need) for need in _needs_of(claim))
    yield Violation(
        rule="all-or-nothing",
        at=grant.record.at,
        text=(
            f"claim {claim.claim} of {claim.client} asked for {asked} and was given {_shown(given)} at "
            f"{history.when(grant.record.at)}"
        ),
        lines=(str(grant.place),),
    )


def _meets(given: Counter[str], need: Need, pools: dict[str, PoolSize]) -> bool:
    """`all` is fixed when the claim is granted: any number up to what the pool has."""
    if given.keys() != need.keys():
        return False
    for pool, number in need.items():
        if number == "all":
            if pool in pools and given[pool] > pools[pool].size:
                return False
        elif given[pool] != number:
            return False
    return True


def _shown(need: Need | Counter[str]) -> str:
    return "{" + ", ".join(f"{pool}: {number}" for pool, number in sorted(need.items())) + "}"


def _units(history: History, grant: Line[Grant]) -> Iterator[Violation]:
    """Each entry of the grant by itself."""
    seen: set[tuple[str, str]] = set()
    lease = f"lease {grant.record.lease_id}"
    for unit in grant.record.units:
        name = f"{unit.pool}/{unit.unit}" if unit.unit is not None else f"{unit.count} of {unit.pool}"
        size = history.pools.get(unit.pool)
        listed = size is not None and (
            unit.unit in size.units
            if unit.unit is not None and size.units is not None
            else size.units is None
        )
        if history.setups and not listed:
            yield Violation(
                rule="unknown-unit",
                at=grant.record.at,
                text=f"{lease} was given {name}, which does not exist",
                lines=(str(grant.place),),
            )
        if unit.unit is None:
            continue
        if (unit.pool, unit.unit) in seen:
            yield Violation(
                rule="same-unit-twice",
                at=grant.record.at,
                text=f"{lease} was given {name} twice",
                lines=(str(grant.place),),
            )
        seen.add((unit.pool, unit.unit))
        if unit.fence is None:
            yield Violation(
                rule="no-fence",
                at=grant.record.at,
                text=f"{lease} was given {name} without a fence",
                lines=(str(grant.place),),
            )
