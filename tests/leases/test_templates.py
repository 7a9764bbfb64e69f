"""Templates: shown together only when equal; a code for each way not to keep to one."""

import msgspec
import pytest

from holdall.leases.templates import (
    Violation,
    aggregate,
    candidates,
    in_base_units,
    require,
    template_id,
    template_of,
    violations,
)
from holdall.model.refusals import Refusal
from holdall.model.terms import Durations, LeaseRequest, RequestedTerm, Template, TemplateTerm

GIB = 1 << 30
DURATION = Durations(500, 3_600_000, 60_000)
TERMS = {
    "ttl": TemplateTerm("time", max=5_000_000),
    "net.tx": TemplateTerm("capacity", "B/s", min=1, max=100_000, sharing="fair"),
    "service.postgres": TemplateTerm("function", values=(True,)),
    "cpu.arch": TemplateTerm("function", values=("arm64", "amd64")),
    "db": TemplateTerm("function"),
}
TEMPLATE = template_of(TERMS, DURATION)


def machine(cpu: int, mem: int) -> Template:
    terms = {
        "cpu": TemplateTerm("capacity", "mcpu", max=1000 * cpu),
        "mem": TemplateTerm("capacity", "B", max=mem * GIB),
    }
    return template_of(terms, DURATION)


def wish(duration: int | None = None, **terms: object) -> LeaseRequest:
    asked = {
        name.replace("__", "."): term if isinstance(term, RequestedTerm) else RequestedTerm(term)  # type: ignore[arg-type]
        for name, term in terms.items()
    }
    return LeaseRequest("r", asked, duration=duration)


def test_the_id_comes_from_terms_and_duration_alone_and_not_from_their_order() -> None:
    turned = dict(reversed(TERMS.items()))
    assert (
        template_id(turned, DURATION)
        == TEMPLATE.template
        == template_of(TERMS, DURATION, policy_hint="x").template
    )
    assert template_id(TERMS, Durations(501, 3_600_000, 60_000)) != TEMPLATE.template
    assert TEMPLATE.template.startswith("t-")
    assert len(TEMPLATE.template) == 18


def test_the_id_is_the_same_for_ever() -> None:
    assert template_id({"gpu": TemplateTerm("pool", max=4)}, Durations(1, 3, 2)) == GOLDEN


GOLDEN = "t-61605e20000c9e96"


def test_equal_templates_are_shown_once_and_no_others() -> None:
    shown = aggregate([machine(8, 4), machine(2, 64), machine(8, 4)])
    assert sorted((one.hosts, one.terms["cpu"].max) for one in shown) == [(1, 2000), (2, 8000)]
    assert [one.template for one in shown] == sorted(one.template for one in shown)
    assert aggregate([]) == ()


def test_n3_a_time_at_its_limit_and_above_it() -> None:
    assert violations(wish(ttl=5_000_000), TEMPLATE) == ()
    assert violations(wish(ttl=5_001_000), TEMPLATE) == (Violation("constraint.max", "ttl", 5_000_000),)
    with pytest.raises(Refusal, match=r"ttl: .* 5000000") as refused:
        require(wish(ttl=5_001_000), TEMPLATE)
    assert refused.value.reason == "constraint.max"


def test_n6_no_host_has_what_two_hosts_have_together() -> None:
    hosts = {"a": machine(8, 4), "b": machine(2, 64)}
    assert len(aggregate(hosts.values())) == 2
    able, missing = candidates(wish(cpu=8000, mem=64 * GIB), hosts)
    assert able == ()
    assert missing == {"a": "mem", "b": "cpu"}
    assert candidates(wish(cpu=8000, mem=4 * GIB), hosts) == (("a",), {"b": "cpu"})


def test_a_host_without_a_term_is_no_candidate_and_the_term_is_named() -> None:
    plain = template_of({"ttl": TERMS["ttl"]}, DURATION)
    able, missing = candidates(wish(ttl=1, net__tx=5), {"h1": TEMPLATE, "h2": TEMPLATE, "h3": plain})
    assert able == ("h1", "h2")
    assert missing == {"h3": "net.tx"}


@pytest.mark.parametrize(
    ("request_", "code", "term", "bound"),
    [
        (wish(gpu=1), "constraint.unknown_term", "gpu", None),
        (wish(net__tx=100_001), "constraint.max", "net.tx", 100_000),
        (wish(ttl=True), "constraint.kind", "ttl", None),
        (wish(ttl="long"), "constraint.kind", "ttl", None),
        (wish(service__postgres=1), "constraint.kind", "service.postgres", None),
        (wish(service__postgres=False), "constraint.kind", "service.postgres", None),
        (wish(service__postgres="15"), "constraint.values", "service.postgres", None),
        (wish(cpu__arch="sparc"), "constraint.values", "cpu.arch", None),
        (wish(cpu__arch=True), "constraint.values", "cpu.arch", None),
        (wish(db=RequestedTerm(amount=True, floor=1)), "request.floor", "db", None),
        (wish(net__tx=RequestedTerm(10, floor=11)), "request.floor", "net.tx", 10),
        (wish(499, ttl=1), "constraint.min", "duration", 500),
        (wish(3_600_001, ttl=1), "constraint.max", "duration", 3_600_000),
    ],
)
def test_each_violation_has_its_code(request_: LeaseRequest, code: str, term: str, bound: int | None) -> None:
    assert violations(request_, TEMPLATE) == (Violation(code, term, bound),)


def test_minimum_step_and_values() -> None:
    stepped = template_of({"net": TemplateTerm("capacity", "B/s", min=100, max=900, step=50)}, DURATION)
    assert violations(wish(net=150), stepped) == ()
    assert violations(wish(net=160), stepped) == (Violation("constraint.step", "net", 50),)
    assert [one.code for one in violations(wish(net=51), stepped)] == ["constraint.min", "constraint.step"]
    chosen = template_of({"net": TemplateTerm("capacity", "B/s", values=(10, 20))}, DURATION)
    assert violations(wish(net=20), chosen) == ()
    assert violations(wish(net=15), chosen) == (Violation("constraint.values", "net"),)


def test_a_term_without_constraints_may_be_asked_without_limit() -> None:
    free = template_of({"mem": TemplateTerm("capacity", "B"), "db": TemplateTerm("function")}, DURATION)
    assert violations(wish(mem=2**53 - 1, db="postgres-17"), free) == ()


def test_amounts_in_words_are_read_by_the_terms_unit() -> None:
    read = in_base_units(wish(ttl="2000 s", net__tx="50KiB/s", cpu__arch="arm64", other="5"), TERMS)
    assert {name: term.amount for name, term in read.terms.items()} == {
        "ttl": 2_000_000,
        "net.tx": 51_200,
        "cpu.arch": "arm64",
        "other": "5",
    }
    with pytest.raises(Refusal) as refused:
        in_base_units(wish(net__tx="50 s"), TERMS)
    assert (refused.value.reason, refused.value.where) == ("quantity.wrong_unit", "net.tx")


def test_what_is_valid_for_the_shortest_time_counts() -> None:
    longer = msgspec.structs.replace(TEMPLATE, valid_for_ms=9)
    shorter = msgspec.structs.replace(TEMPLATE, valid_for_ms=4, hosts=3)
    (shown,) = aggregate([longer, shorter])
    assert (shown.hosts, shown.valid_for_ms) == (4, 4)
