"""A policy out of a TOML file. What can't be read is refused with file, line, rule and what to write; nothing is guessed.

```toml
[policy]
access = "deny"                     # for terms that no rule allows; also "allow"

[[grant]]                           # the short form of an allow rule
who = "group:ci"
may = ["claim"]
pools = ["board", "psu"]

[[rule]]
name = "each-1MB"
limit = "net.tx"
per = "holder"
max = "1MB/s"
```

Source: lease negotiation, section 6.1. Time zones and how long conditions take are checked by the caller, which may ask
the system.
"""

import difflib
import re
import tomllib
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, NoReturn, cast, get_args

from holdall.model.errors import BadConfig
from holdall.model.names import is_name
from holdall.model.quantities import BaseUnit, parse_quantity
from holdall.model.refusals import Refusal
from holdall.model.terms import DURATION
from holdall.policy.entry import Entry
from holdall.policy.rules import (
    RULES_MAX,
    Allow,
    AnyRule,
    Attribute,
    Deny,
    Expression,
    Fair,
    Limit,
    Policy,
    Rank,
    TermUnit,
)

FILE_BYTES_MAX = 1024 * 1024
KINDS = ("allow", "deny", "limit", "fair", "rank")
_COMMON = ("name", "who", "when", "zone")
_KEYS: dict[str, tuple[str, ...]] = {
    "allow": (*_COMMON, "allow"),
    "deny": (*_COMMON, "deny", "revoke"),
    "limit": (*_COMMON, "limit", "per", "max", "fraction", "revoke"),
    "fair": ("name", "fair", "group", "weights", "scope", "weight_by"),
    "rank": ("name", "rank", "host"),
}
_UNITS: tuple[TermUnit, ...] = (*get_args(BaseUnit), "function")
_WHO_RE = re.compile(r"(agent|affiliation|group|role):(\S.{0,126}\S|\S)")
_LATER_MAY = ("see", "kick", "drain", "admin")
_FRACTION_RE = re.compile(r"([0-9]{1,6})/([0-9]{1,6})|([0-9]{1,6})", re.ASCII)
_WEIGHT_MAX = 1000


def parse_policy(text: str, *, name: str = "policy.toml") -> Policy:
    """The policy in the text of a file that is shown as `name`. Raises BadConfig."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadConfig(f"{name}: not TOML: {error}") from None
    except (RecursionError, ValueError):
        # Thousands of digits, or of brackets.
        raise BadConfig(f"{name}: not TOML: nested too deeply, or a number without end") from None
    return policy_of(values, text=text, name=name)


def policy_of(values: Mapping[str, Any], *, text: str, name: str) -> Policy:
    """The policy in tables that have been read; keys other than policy, grant and rule are refused."""
    top = Entry(name, text, "", values)
    top.only("policy", "grant", "rule")
    general = Entry(name, text, "[policy]", top.table("policy"))
    general.only("access", "zone", "terms")
    reader = _Reader(_terms(general), general.text("zone", "UTC"))
    rules: list[AnyRule] = []
    for header, read in (("grant", reader.grant), ("rule", reader.rule)):
        for index, item in enumerate(top.tables(header)):
            entry = Entry(name, text, f"[[{header}]]", item, index)
            rules.append(read(entry))
            if len(rules) > RULES_MAX:
                entry.bad("", f"more than {RULES_MAX:,} rules; join some by listing several terms in one")
            _check_new(rules, entry)
    return Policy(
        name=name,
        rules=tuple(rules),
        access=general.choice("access", "deny", ("allow", "deny")),
        terms=tuple(sorted(reader.terms.items())),
    )


def _terms(general: Entry) -> dict[str, TermUnit]:
    terms: dict[str, TermUnit] = {}
    for term, unit in general.table("terms").items():
        if not is_name(term) or term == DURATION:
            general.bad("terms", f'{term[:64]!r} is no name of a term; write e.g. "net.tx" = "B/s"')
        if unit not in _UNITS:
            general.bad("terms", f"{term} = {str(unit)[:40]!r}: write one of {', '.join(_UNITS)}")
        terms[term] = unit
    return terms


def _check_new(rules: list[AnyRule], entry: Entry) -> None:
    """Refuse a second rule of one name, and a second one where only one can be obeyed."""
    new = rules[-1]
    for other in rules[:-1]:
        if other.name == new.name:
            entry.bad("name", f'there is a rule of this name in line {other.line}; call it "{new.name}-2"')
        if isinstance(new, Rank) and isinstance(other, Rank) and new.host == other.host:
            entry.bad("host", f'host "{new.host}" has a rank from rule "{other.name}"; keep one of them')
        if isinstance(new, Fair) and isinstance(other, Fair):
            same = (new.term, new.scope) == (other.term, other.scope)
            if same:
                entry.bad("fair", f'"{new.term}" is divided by rule "{other.name}" already; keep one of them')


class _Reader:
    """Reads rules, with what the file says in general."""

    def __init__(self, terms: dict[str, TermUnit], zone: str) -> None:
        self.terms, self._zone = terms, zone

    def rule(self, entry: Entry) -> AnyRule:
        """One `[[rule]]`."""
        kinds = [kind for kind in KINDS if entry.has(kind)]
        # A rank names its host with the key `rank` alone, so no two kinds share a key.
        if len(kinds) != 1:
            found = "none of them" if not kinds else " and ".join(kinds)
            entry.bad("", f"a rule has one of allow, deny, limit, fair, rank; this one has {found}")
        kind = kinds[0]
        entry.only(*_KEYS[kind])
        entry.name()
        readers: dict[str, Callable[[Entry], AnyRule]] = {
            "allow": self._allow,
            "deny": self._deny,
            "limit": self._limit,
            "fair": self._fair,
            "rank": self._rank,
        }
        return readers[kind](entry)

    def grant(self, entry: Entry) -> AnyRule:
        """One `[[grant]]`: an allow rule whose `who` is an attribute and its value."""
        entry.only("name", "who", "may", "pools")
        who = entry.text("who", "")
        short = _WHO_RE.fullmatch(who)
        if short is None and who != "*":
            entry.bad(
                "who",
                f'who = "{who[:60]}": write "*", "agent:ID", "affiliation:NAME", "group:NAME" or "role:NAME"',
            )
        actions = entry.texts("may")
        if not actions:
            entry.bad("may", 'may names nothing; write may = ["claim"]')
        for action in actions:
            if action in _LATER_MAY:
                entry.bad("may", f'"{action}" is not available in this version; write may = ["claim"]')
            if action != "claim":
                entry.bad("may", f'"{action[:60]}" is unknown; write may = ["claim"]')
        name = entry.name(default=f"grant-{entry.index + 1}")
        condition = None
        if short is not None:
            attribute = cast("Any", "id" if short[1] == "agent" else short[1])
            condition = Attribute(attribute, short[2])
        terms = self._patterns(entry, "pools")
        return Allow(name=name, line=entry.line, who=condition, terms=terms)

    def _allow(self, entry: Entry) -> Allow:
        return Allow(terms=self._patterns(entry, "allow"), **self._common(entry))

    def _deny(self, entry: Entry) -> Deny:
        return Deny(
            terms=self._patterns(entry, "deny"), revoke=entry.boolean("revoke"), **self._common(entry)
        )

    def _limit(self, entry: Entry) -> Limit:
        term = entry.text("limit", "")
        unit: TermUnit | None = "ms" if term == DURATION else self._unit(entry, "limit", term)
        if unit == "function":
            entry.bad("limit", f'"{term}" is a function and has no amount; use allow and deny')
        per = entry.choice(
            "per", "holder" if term != DURATION else "lease", ("holder", "affiliation", "all", "lease")
        )
        if not entry.has("max") and not entry.has("fraction"):
            entry.bad("", 'a limit needs max or fraction, e.g. max = "1MB/s" or fraction = "1/2"')
        if term == DURATION and (per != "lease" or entry.has("fraction")):
            entry.bad("", 'a limit of duration is per = "lease" and has max, e.g. max = "60 s"')
        most, found = _amount(entry, unit) if entry.has("max") else (None, None)
        fraction = _fraction(entry, "fraction", entry.raw("fraction")) if entry.has("fraction") else None
        if fraction is not None and not 0 < fraction <= 1:
            entry.bad("fraction", f'fraction = "{fraction}" must lie above 0 and be at most 1')
        return Limit(
            term=term,
            per=per,
            max=most,
            unit=found,
            fraction=fraction,
            revoke=entry.boolean("revoke"),
            **self._common(entry),
        )

    def _fair(self, entry: Entry) -> Fair:
        term = entry.text("fair", "")
        if self._unit(entry, "fair", term) in {"function", "unit", "ms"}:
            entry.bad("fair", f'"{term}" is no capacity; only capacities are divided')
        weights: list[tuple[str, Fraction]] = []
        for group, raw in entry.table("weights").items():
            weight = _fraction(entry, "weights", raw)
            if not 0 < weight <= _WEIGHT_MAX:
                entry.bad(
                    "weights", f"{group[:60]} = {weight}: weights lie above 0 and are at most {_WEIGHT_MAX}"
                )
            weights.append((group, weight))
        group_by = entry.choice("group", "", ("", "affiliation", "role"))
        if weights and not group_by:
            entry.bad(
                "weights", 'weights are of groups; say of which: group = "affiliation" or group = "role"'
            )
        return Fair(
            name=entry.name(),
            line=entry.line,
            term=term,
            group=group_by,
            weights=tuple(sorted(weights)),
            scope=entry.choice("scope", "host", ("host", "location")),
            weight_by=entry.choice("weight_by", "equal", ("equal", "sqrt")),
        )

    def _rank(self, entry: Entry) -> Rank:
        rank = entry.raw("rank")
        if isinstance(rank, bool) or not isinstance(rank, int) or abs(rank) > 1000:
            entry.bad("rank", "rank must be a whole number from -1000 to 1000")
        host = entry.text("host", "")
        if not is_name(host):
            entry.bad("host", f'host = "{host[:64]}" is no name of a host; write e.g. host = "h2"')
        return Rank(name=entry.name(), line=entry.line, host=host, rank=rank)

    def _common(self, entry: Entry) -> dict[str, Any]:
        zone = entry.text("zone", self._zone)
        conditions = {
            key: Expression(entry.expression(key), zone) for key in ("who", "when") if entry.has(key)
        }
        if entry.has("zone") and not conditions:
            entry.bad("zone", "zone is where `now` of who and when is read; leave it out, or add when")
        return {"name": entry.name(), "line": entry.line, **conditions}

    def _patterns(self, entry: Entry, key: str) -> tuple[str, ...]:
        patterns = entry.texts(key)
        if not patterns:
            entry.bad(key, f'{key} names no term; write e.g. {key} = ["gpu", "net.*"]')
        for pattern in patterns:
            entry.pattern(key, pattern)
            if self.terms and not entry.known_pattern(pattern, self.terms):
                self._unknown(entry, key, pattern)
        return patterns

    def _unit(self, entry: Entry, key: str, term: str) -> TermUnit | None:
        if not is_name(term) or (key == "fair" and term == DURATION):
            entry.bad(key, f'{key} = "{term[:64]}" is no name of a term; write e.g. {key} = "net.tx"')
        if self.terms and term not in self.terms:
            self._unknown(entry, key, term)
        return self.terms.get(term)

    def _unknown(self, entry: Entry, key: str, term: str) -> NoReturn:
        near = difflib.get_close_matches(term, [*self.terms, DURATION], n=1)
        hint = f'Did you mean "{near[0]}"?' if near else f"There are: {', '.join(sorted(self.terms))}."
        entry.bad(key, f'there is no term "{term}". {hint}')


def read_amount(value: object, unit: TermUnit | None, *, what: str) -> tuple[int, BaseUnit | None]:
    """An amount in base units, and the unit that was said; without a known `unit` the text decides. Raises Refusal."""
    units = get_args(BaseUnit) if unit is None else (unit,)
    for one in cast("tuple[BaseUnit, ...]", units):
        try:
            found = parse_quantity(value, one, what=what)
        except Refusal as error:
            if error.reason != "quantity.wrong_unit" or one == units[-1]:
                raise
            continue
        said = isinstance(value, str) and not value.isdigit()
        return found, one if unit is not None or said else None
    raise AssertionError(units)


def _amount(entry: Entry, unit: TermUnit | None) -> tuple[int, BaseUnit | None]:
    try:
        return read_amount(entry.raw("max"), unit, what="max")
    except Refusal as error:
        entry.bad("max", f'{error.text}. Write a whole number, or e.g. "1MB/s", "4 cpu"')


def _fraction(entry: Entry, key: str, value: object) -> Fraction:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**6:
        return Fraction(value)
    found = _FRACTION_RE.fullmatch(value) if isinstance(value, str) else None
    if found is None or (found[2] is not None and int(found[2]) == 0):
        shown = f"{value[:40]!r}" if isinstance(value, str) else type(value).__name__
        entry.bad(key, f'{key}: {shown} is no fraction; write a whole number or e.g. "1/2"')
    return Fraction(int(found[1]), int(found[2])) if found[1] else Fraction(int(found[3]))
