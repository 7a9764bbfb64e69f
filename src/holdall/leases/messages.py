"""What a lease book is told about its pools, and the orders that it gives to the runner of hooks."""

from typing import Annotated, Literal, TypeAlias

import msgspec

from holdall.machine.codec import CODEC
from holdall.protocols.vocabulary import ClaimId, UnitGrant

HOOKS = "hooks"
"""Part of a node that runs the commands of a pool: receives `RunHook`, answers `HookDone` to the asking part."""

AGENT = "agent"
MANAGER = "manager"
CLAIMANT = "claimant"

EndWord: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[a-z-]{0,24}$")]
Hook: TypeAlias = Literal["on_grant", "on_release", "check"]


class PoolSpec(msgspec.Struct, frozen=True):
    """One pool of this node as it is configured."""

    pool: str
    """Pool id: `model.names.pool_id(name, labels)`, unique on the node."""
    name: str
    labels: tuple[tuple[str, str], ...] = ()
    """(key, value), ascending."""
    units: tuple[str, ...] = ()
    """Unit names, in the order in which they are given."""
    reach: Literal["system", "host"] = "system"
    max_for_ms: int | None = None
    cooldown_ms: int = 0
    """Pause after an unclean end (expiry, kick by force, a holder that died)."""
    on_grant: str = ""
    """Command with `{unit}` in it, run before the holder is told; empty: none. Likewise the next two."""
    on_release: str = ""
    """Run after each end; a failure puts the unit in quarantine."""
    check: str = ""
    """Run after on_release; a failure puts the unit in quarantine."""
    hook_limit_ms: int = 60_000
    """A command that takes longer is killed and has failed."""


class RunHook(msgspec.Struct, frozen=True, tag="run_hook"):
    """Order to `hooks`: run `command` for this unit, at most `limit_ms`, and answer `HookDone(run, …)`.

    The runner puts the unit's name in place of `{unit}` (quoted for the shell) and sets `HOLDALL_POOL`,
    `HOLDALL_UNIT`, `HOLDALL_FENCE`, `HOLDALL_CLAIM`. `run` is unique in this process start; after a restart the order
    comes again, so commands must bear being run twice.
    """

    run: int
    hook: Hook
    pool: str
    unit: str
    fence: int
    command: str
    limit_ms: int
    claim: str = ""
    """Printed id of the claim it is run for."""


class HookDone(msgspec.Struct, frozen=True, tag="hook_done"):
    """Answer of `hooks`. `text` for people: exit status or "not done within 60 s", and the last line printed."""

    run: int
    ok: bool
    text: str = ""


class Prepared(msgspec.Struct, frozen=True, tag="prepared"):
    """A manager to the agent of the claim: all `on_grant` commands of this claim here have ended.

    `failed` are the units whose command failed: they are in quarantine, the claim can't be told as granted.
    """

    claim: ClaimId
    attempt: int
    failed: tuple[UnitGrant, ...] = ()
    text: str = ""


class AskPrepared(msgspec.Struct, frozen=True, tag="ask_prepared"):
    """The agent of a claim to a manager that has units of it: answer `Prepared` as soon as none is being prepared.

    Asked again and again, as neither side can know what the other has missed.
    """

    claim: ClaimId
    attempt: int


class UnitTrouble(msgspec.Struct, frozen=True, tag="unit_trouble"):
    """A manager to its own node's agent: a unit went into quarantine (or came out), for log and listings."""

    pool: str
    unit: str
    kind: Literal["quarantined", "cleared"]
    text: str


END_REACHED, EXPIRED = "end reached", "expired"
"""Reasons of a lease that the book ended: at its hard end, and for silence."""


# Agent -> manager of the same node, about units rather than order


class UnitsBack(msgspec.Struct, frozen=True, tag="units_back"):
    """A manager to its own node's agent: units of these pools came back or left by themselves (cleaned, cleared, reloaded)."""

    pools: tuple[str, ...]


class Confirmed(msgspec.Struct, frozen=True, tag="confirmed"):
    """Claimant's side to the agent, after a restart: all nodes of this lease have said that it lives."""

    claim: ClaimId


class LostAt(msgspec.Struct, frozen=True, tag="lost_at"):
    """Claimant's side to the agent, just before `Gone`: at which node the lease was lost.

    `quiet_ms`: how long ago that renewal was sent which the node answered last.
    """

    claim: ClaimId
    node: str
    quiet_ms: int


class EndsAs(msgspec.Struct, frozen=True, tag="ends_as"):
    """Before the Release of the same turn: why the lease ends, where its holder does not just give it back.

    The first that is said of a lease counts. `unclean`: the holder did not stop in order, so the units cool down.
    """

    claim: ClaimId
    why: EndWord = ""
    """As in the node's history: `expired`, `kicked`, `lost`, …"""
    unclean: bool = False


class RaiseFence(msgspec.Struct, frozen=True, tag="raise_fence"):
    """New fences for the claim's units at once: what guards a unit by fence refuses the holder from now on."""

    claim: ClaimId


class DrainUnits(msgspec.Struct, frozen=True, tag="drain_units"):
    """No unit of this node is given any more (on), or they are again (off). Held ones leave when they come back."""

    on: bool


class ClearUnit(msgspec.Struct, frozen=True, tag="clear_unit"):
    """A person has looked at this unit: out of quarantine."""

    pool: str
    unit: str


class Reload(msgspec.Struct, frozen=True, tag="reload"):
    """The pools as configured now: the driver to the agent, which passes it on to the manager.

    Held units are never touched; units (or pools) that are gone from the configuration drain.
    """

    pools: tuple[PoolSpec, ...]


BetweenNodes: TypeAlias = EndsAs | RaiseFence | AskPrepared | Prepared
"""What an agent and another node's manager tell each other about a lease."""

CODEC.register("leases between nodes", BetweenNodes)
# Its agent is on the same host, but a host without one, as in `holdall.simulator`, writes them to its traces.
CODEC.register("leases told to an agent", UnitTrouble | UnitsBack | Confirmed | LostAt)
