"""What a user asks for, in the user's words, as the frame that asks for it."""

import os
from collections.abc import Iterable
from typing import Literal, TypeAlias

from holdall.client import scope
from holdall.model import frames
from holdall.model.durations import finite_duration, parse_duration
from holdall.model.spec import parse_need, parse_needs

NeedLike: TypeAlias = str | frames.Need
"""A SPEC such as `gpu:2`, or several of them as alternatives: `any_of("gpu:2", "tpu:1")`."""
Duration: TypeAlias = str | float
"""Seconds, or text as `30s`, `10m`, `1h30m`, `inf`."""
OnLoss: TypeAlias = Literal["cancel", "event", "ignore"]
"""What happens to the body of a lease that is lost."""


def any_of(*specs: NeedLike) -> frames.Need:
    """Alternatives, the preferred one first: any of them will do. Raises BadSpec."""
    return frames.Need(options=tuple(option for spec in specs for option in parse_need(spec).options))


def build_claim(
    needs: Iterable[NeedLike],
    *,
    welcome: frames.Welcome,
    wait: Duration | None,
    now: bool,
    ttl: Duration | None,
    hold_for: Duration | None,
    reason: str,
    independent: bool,
    allow_future: bool,
    guarded: bool = False,
) -> frames.Claim:
    """The claim for the running code: in the scope of the lease that it holds, if it holds one. Raises BadSpec.

    None stands for the node's defaults (`wait`, `ttl`) or the pool's `max_for` (`hold_for`).
    """
    return frames.Claim(
        n=0,
        needs=parse_needs(needs),
        wait_ms=welcome.wait_ms if wait is None else parse_duration(wait, what="wait"),
        now=now,
        ttl_ms=welcome.ttl_ms if ttl is None else finite_duration(ttl, what="ttl"),
        for_ms=None if hold_for is None else parse_duration(hold_for, what="for"),
        reason=reason,
        site=scope.call_site(),
        under="" if independent else scope.outer_key(),
        independent=independent,
        allow_future=allow_future,
        guarded=guarded,
    )


def claim_anew(
    lease: frames.LeaseView, needs: tuple[frames.Need, ...], *, welcome: frames.Welcome, wait: Duration | None
) -> frames.Claim:
    """What a lease that was given back is asked for again, with other needs and the same terms.

    To be called when its scope has been left: then it waits as a first claim does.
    """
    until = None if lease.until_ms is None else max(lease.until_ms - lease.since_ms, 0)
    return frames.Claim(
        n=0,
        needs=parse_needs(needs),
        wait_ms=welcome.wait_ms if wait is None else parse_duration(wait, what="wait"),
        ttl_ms=lease.ttl_ms,
        for_ms=until,
        reason=lease.reason,
        site=scope.call_site(),
        under=scope.outer_key(),
    )


def default_agent() -> str:
    """Who this is, for people, where the caller does not say: empty, then the node names the user."""
    return os.environ.get("HOLDALL_AGENT", "")
