"""What the clients of a run want: pools on nodes, and a closed loop of claims, holds and thinking times.

Each client draws from a generator of its own, so every protocol meets the same claims, holds and pauses. Times
are in mean message delays. Source: common specification, section 4, and chain specification, section 10.

A workload has a name, e.g. `ring-50-saturated` or `random-8-k3-u2-n4-low` (`named_workload`), or is a TOML file with
the fields of `Workload` (`load_workload`).
"""

import random
import re
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import msgspec

from holdall.protocols.vocabulary import Visit

Load: TypeAlias = Literal["low", "medium", "saturated"]
Shape: TypeAlias = Literal["random", "ring", "line", "star", "hot"]
"""Which pools a claim names: any `k`; `k` neighbours on a ring or a line, always the same for a client (two of them:
the dining philosophers); the first pool and `k` - 1 of the client's own; or any, with the first among them for the
share `hot` of the claims."""

THINK: dict[Load, float] = {"low": 30.0, "medium": 15.0, "saturated": 1.0}
"""Mean pause between the end of a client's lease and its next claim, by load."""
CLIENTS_PER_POOL: dict[Load, int] = {"low": 1, "medium": 2, "saturated": 3}
POOLS_MAX = 100_000
CLIENTS_MAX = 1_000_000
HOLD = 5.0
"""Mean time that a client holds what it got."""


class Workload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Pools `p000`, `p001`, … in blocks on `nodes` nodes `n000`, …; clients that claim for ever.

    `local` is the share of claims that lie on one node (of those with enough pools); with `wide` the first client
    wants every pool, and all others one each. Raises ValueError for what makes no sense.
    """

    shape: Shape = "random"

    pools: int = 8
    k: int = 2
    """Pools of a claim."""
    k_least: int | None = None
    """Shape random: claims have `k_least` to `k` pools; None: `k`."""
    units: int = 1
    """Units of a pool; with more than one a claim takes 1 to `units` of each of its pools."""
    need_most: int | None = None
    """Most units that a claim takes of a pool; None: `units`."""
    hot: float = 0.5
    """Shape hot: share of claims that name the first pool."""
    load: Load = "medium"
    nodes: int = 1
    local: float | None = None
    wide: bool = False
    hold: float = HOLD
    think: float | None = None
    """None: by `load`."""
    clients: int | None = None
    """None: by `load` and the number of pools."""
    cancel_share: float = 0.0
    """Share of claims whose client gives up while waiting."""
    try_share: float = 0.0
    """Share of claims that do not wait."""

    def __post_init__(self) -> None:
        if not 1 <= self.nodes <= self.pools <= POOLS_MAX or not 1 <= self.k <= self.pools:
            raise ValueError(
                f"a workload needs 1 ≤ nodes ≤ pools ≤ {POOLS_MAX} and 1 ≤ k ≤ pools; "
                f"here nodes={self.nodes}, pools={self.pools}, k={self.k}"
            )
        if not 1 <= self.units <= 1000 or self.hold <= 0 or (self.think or 0) < 0:
            raise ValueError("a workload needs 1 ≤ units ≤ 1000, hold > 0 and think ≥ 0")
        if not 1 <= (self.k_least or 1) <= self.k or not 1 <= (self.need_most or 1) <= self.units:
            raise ValueError("a workload needs 1 ≤ k_least ≤ k and 1 ≤ need_most ≤ units")
        if not 1 <= (1 if self.clients is None else self.clients) <= CLIENTS_MAX:
            raise ValueError(f"a workload needs 1 ≤ clients ≤ {CLIENTS_MAX}")
        shares = (self.hot, self.local or 0.0, self.cancel_share, self.try_share)
        if not all(0 <= share <= 1 for share in shares):
            raise ValueError("a workload needs shares (hot, local, cancel_share, try_share) of 0 to 1")
        if self.shape != "random" and (self.wide or self.local is not None or self.k_least is not None):
            raise ValueError(f"wide, local and k_least are for the shape random; here it is {self.shape}")

    @property
    def think_mean(self) -> float:
        """Mean pause between claims, in message delays; a longer hold stretches the pause as well."""
        return self.think if self.think is not None else THINK[self.load] * self.hold / HOLD

    @property
    def client_count(self) -> int:
        """How many clients take part: by default one for each place of a ring, line or star."""
        if self.clients is not None:
            return self.clients
        if self.shape in {"ring", "line", "star"}:
            return self.places
        return CLIENTS_PER_POOL[self.load] * self.pools

    @property
    def places(self) -> int:
        """Different claims of a ring, line or star; client i has place i, and begins anew behind the last."""
        match self.shape:
            case "line":
                return self.pools - self.k + 1
            case "star":
                return max(1, self.pools - 1)
            case _:
                return self.pools

    def node_of(self, pool: int) -> int:
        """Pools lie on the nodes in blocks."""
        return pool * self.nodes // self.pools

    def node_name(self, node: int) -> str:
        """`n000` and so on: names in the order of the numbers, since nodes are visited in the order of their names."""
        return f"n{node:0{_digits(self.nodes)}d}"

    def pool_name(self, pool: int) -> str:
        """`p000`, `p001` and so on."""
        return f"p{pool:0{_digits(self.pools)}d}"

    def pools_on(self, name: str) -> Mapping[str, int]:
        """Pool -> units of the node with this name; empty for the name of a client."""
        return {self.pool_name(pool): self.units for pool in _placed(self).on.get(name, ())}

    def node_names(self) -> tuple[str, ...]:
        """All nodes that have pools."""
        return tuple(self.node_name(node) for node in range(self.nodes))


def _digits(count: int) -> int:
    return max(3, len(str(count - 1)))


class _Placed:
    """Where the pools of a workload lie; made once for all its clients."""

    def __init__(self, workload: Workload) -> None:
        self.of = [
            (workload.node_name(workload.node_of(pool)), workload.pool_name(pool))
            for pool in range(workload.pools)
        ]
        self.on: dict[str, list[int]] = {}
        for pool, (node, _) in enumerate(self.of):
            self.on.setdefault(node, []).append(pool)
        self.blocks = [block for block in self.on.values() if len(block) >= workload.k]
        """Pools of the nodes that have enough for a claim."""
        self.need_of = lru_cache(maxsize=1024)(self._need_of)

    def _need_of(self, counts: tuple[tuple[int, int], ...]) -> tuple[Visit, ...]:
        """(pool, units), pools ascending, and with them their nodes: so do vectors and visits, as the vocabulary wants it."""
        vectors: dict[str, list[tuple[str, int]]] = {}
        for pool, count in counts:
            node, name = self.of[pool]
            vectors.setdefault(node, []).append((name, count))
        return tuple(Visit(node, (tuple(vector),), 1) for node, vector in vectors.items())


@lru_cache(maxsize=8)
def _placed(workload: Workload) -> _Placed:
    return _Placed(workload)


class Wish(msgspec.Struct, frozen=True):
    """What a client does next: pause, claim, and hold what it gets."""

    think: float
    need: tuple[Visit, ...]
    hold: float
    wait: bool = True
    patience: float | None = None
    """Give up after so long without a grant."""


class Client:
    """One client's endless series of wishes."""

    def __init__(self, workload: Workload, number: int, seed: int) -> None:
        self.workload = workload
        self.number = number
        self._rng = random.Random(f"holdall client {seed} {number}")
        self._placed = _placed(workload)

    def next(self) -> Wish:
        """Draws are made in a fixed order, whatever becomes of the claim."""
        rng, workload = self._rng, self.workload
        mean = workload.think_mean
        think = rng.expovariate(1.0 / mean) if mean else 0.0
        pools = self._pools()
        need = self._need(pools)
        hold = rng.expovariate(1.0 / workload.hold)
        wait, patience = True, None
        if workload.try_share and rng.random() < workload.try_share:
            wait = False
        if workload.cancel_share and rng.random() < workload.cancel_share:
            patience = rng.expovariate(1.0 / (4 * workload.hold))
        return Wish(think, need, hold, wait, patience)

    def _pools(self) -> list[int]:
        rng, workload = self._rng, self.workload
        match workload.shape:
            case "ring" | "line":
                first = self.number % workload.places
                return sorted((first + step) % workload.pools for step in range(workload.k))
            case "star":
                own = self.number % workload.places
                return sorted({0, *(1 + (own + step) % workload.places for step in range(workload.k - 1))})
            case "hot":
                return self._hot()
            case "random":
                pass
        if workload.wide:
            return list(range(workload.pools)) if self.number == 0 else [rng.randrange(workload.pools)]
        if workload.local is not None and self._placed.blocks and rng.random() < workload.local:
            return sorted(rng.sample(rng.choice(self._placed.blocks), workload.k))
        k = workload.k if workload.k_least is None else rng.randint(workload.k_least, workload.k)
        return sorted(rng.sample(range(workload.pools), k))

    def _hot(self) -> list[int]:
        rng, workload = self._rng, self.workload
        if rng.random() < workload.hot:
            return [0, *sorted(rng.sample(range(1, workload.pools), workload.k - 1))]
        # the others leave the first pool alone where there are enough
        first = 1 if workload.k < workload.pools else 0
        return sorted(rng.sample(range(first, workload.pools), workload.k))

    def _need(self, pools: list[int]) -> tuple[Visit, ...]:
        most = self.workload.need_most or self.workload.units
        counts = [(pool, self._rng.randint(1, most) if most > 1 else 1) for pool in pools]
        return self._placed.need_of(tuple(counts))


WORDS = re.compile(r"(k|u|n|c|hold|think|local)(\d+)")
GRAMMAR = (
    "SHAPE-POOLS[-kK][-uUNITS][-nNODES][-cCLIENTS][-holdTIME][-thinkTIME][-localPERCENT][-LOAD], e.g. ring-50-saturated "
    f"or random-8-k3-u2; SHAPE is {', '.join(get_args(Shape))} or wide, LOAD is {', '.join(THINK)}"
)


def named_workload(name: str) -> Workload:
    """The workload of a name such as `ring-50-saturated`; one pool a node where no `-nNODES` says otherwise.

    Raises ValueError with the grammar of names.
    """
    shape, *words = name.split("-")
    if not words or not words[0].isascii() or not words[0].isdigit() or len(words[0]) > 6:
        raise ValueError(f"no workload {name!r}; write {GRAMMAR}")
    pools = int(words[0])
    values: dict[str, object] = {"pools": pools, "nodes": pools}
    if shape == "wide":
        values["wide"] = True
    else:
        values["shape"] = shape
    fields = {"k": "k", "u": "units", "n": "nodes", "c": "clients", "hold": "hold", "think": "think"}
    for word in words[1:]:
        known = WORDS.fullmatch(word)
        if word in THINK:
            values["load"] = word
        elif known is None:
            raise ValueError(f"no workload {name!r}: what is {word!r}? Write {GRAMMAR}")
        elif known[1] == "local":
            values["local"] = int(known[2]) / 100
        else:
            values[fields[known[1]]] = int(known[2])
    try:
        return msgspec.convert(values, Workload)
    except msgspec.ValidationError as error:
        raise ValueError(f"no workload {name!r}: {error}; write {GRAMMAR}") from None


def load_workload(text: str) -> Workload:
    """A workload by its name, or by the path of a TOML file (`….toml`) with the fields of `Workload`.

    Raises ValueError with what is wrong and the next step.
    """
    if not text.endswith(".toml"):
        return named_workload(text)
    try:
        plain = tomllib.loads(Path(text).read_text(encoding="utf-8"))
        return msgspec.convert(plain, Workload)
    except OSError as error:
        raise ValueError(f"can't read the workload {text}: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        known = ", ".join(Workload.__struct_fields__)
        raise ValueError(f"workload {text}: {error}; its fields are: {known}") from None
