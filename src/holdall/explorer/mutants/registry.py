"""All mutants, by protocol and name; see `mutant` for how to add some."""

from collections.abc import Iterator

from holdall.explorer.mutants.chain import CHAIN_MUTANTS
from holdall.explorer.mutants.game import GAME_MUTANTS
from holdall.explorer.mutants.lanes import LANES_MUTANTS
from holdall.explorer.mutants.leases import LEASE_MUTANTS
from holdall.explorer.mutants.link import LINK_MUTANTS
from holdall.explorer.mutants.mutant import LinkMutant, Mutant
from holdall.explorer.mutants.strong_weak import STRONG_WEAK_MUTANTS
from holdall.explorer.mutants.token import TOKEN_MUTANTS
from holdall.world.plan import BadWorld

_GROUPS: tuple[tuple[Mutant, ...], ...] = (
    CHAIN_MUTANTS,
    GAME_MUTANTS,
    LANES_MUTANTS,
    LEASE_MUTANTS,
    STRONG_WEAK_MUTANTS,
    TOKEN_MUTANTS,
)
"""One tuple for each file of mutants of protocols with claims."""


def _by_protocol() -> dict[str, dict[str, Mutant]]:
    found: dict[str, dict[str, Mutant]] = {}
    for mutant in (mutant for group in _GROUPS for mutant in group):
        named = found.setdefault(mutant.protocol, {})
        if mutant.name in named:
            raise ValueError(f"two mutants of {mutant.protocol} are named {mutant.name!r}")
        named[mutant.name] = mutant
    return found


_MUTANTS = _by_protocol()


def mutants_of(protocol: str) -> dict[str, Mutant]:
    """The mutants of a protocol with claims, by name, in the order of their files; none for an unknown protocol."""
    return _MUTANTS.get(protocol, {})


def mutant_of(protocol: str, name: str) -> Mutant:
    """One mutant. Raises BadWorld."""
    found = mutants_of(protocol).get(name)
    if found is None:
        known = ", ".join(mutants_of(protocol)) or "none"
        raise BadWorld(f"no mutant {name!r} of {protocol}; there are {known}")
    return found


def all_mutants() -> Iterator[Mutant | LinkMutant]:
    """Every mutant of every protocol, those of the link last."""
    for named in _MUTANTS.values():
        yield from named.values()
    yield from LINK_MUTANTS.values()
