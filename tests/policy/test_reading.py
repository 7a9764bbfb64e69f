"""A policy's file: what is taken, and for all else file, line, rule and what to write instead."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from policy.asking import policy

from holdall.model.errors import BadConfig
from holdall.policy.reading import parse_policy
from holdall.policy.rules import Allow, Attribute, Deny, Expression, Fair, Limit, Rank

WHOLE = """
[policy]
access = "allow"
zone = "Europe/Amsterdam"
terms = { gpu = "unit", "net.tx" = "B/s", db = "function" }
[[grant]]
who = "group:ci"
may = ["claim"]
pools = ["gpu"]
[[rule]]
name = "a"
allow = ["net.*"]
who = 'agent.id == "x"'
[[rule]]
name = "d"
deny = ["db"]
when = 'now.hour < 9'
zone = "Asia/Tokyo"
revoke = true
[[rule]]
name = "l"
limit = "net.tx"
per = "all"
max = "50KiB/s"
fraction = "2/4"
[[rule]]
name = "f"
fair = "net.tx"
group = "role"
weights = { staff = 2 }
[[rule]]
name = "r"
rank = 3
host = "h1"
"""


def test_each_kind_of_rule_is_read() -> None:
    found = policy(WHOLE)
    assert found.access == "allow"
    assert found.terms == (("db", "function"), ("gpu", "unit"), ("net.tx", "B/s"))
    assert found.rules == (
        Allow(name="grant-1", line=6, who=Attribute("group", "ci"), terms=("gpu",)),
        Allow(name="a", line=10, who=Expression('agent.id == "x"', "Europe/Amsterdam"), terms=("net.*",)),
        Deny(name="d", line=14, when=Expression("now.hour < 9", "Asia/Tokyo"), terms=("db",), revoke=True),
        Limit(name="l", line=20, term="net.tx", per="all", max=51200, unit="B/s", fraction=Fraction(1, 2)),
        Fair(name="f", line=26, term="net.tx", group="role", weights=(("staff", Fraction(2)),)),
        Rank(name="r", line=31, host="h1", rank=3),
    )
    assert [(rule, field) for rule, field, _ in found.conditions()] == [("a", "who"), ("d", "when")]


def test_what_stands_in_a_string_of_a_condition_is_no_code() -> None:
    text = "agent.id != '.all( .all( .all( agent.nosuch' && [1].all(a, [1].exists(b, a == b))"
    found = policy(f'[[rule]]\nname = "a"\nallow = ["gpu"]\nwho = "{text}"')
    assert found.conditions() == (("a", "who", Expression(text)),)


def test_an_empty_file_allows_nothing() -> None:
    assert (policy("").access, policy("").rules) == ("deny", ())


SIX_LOOPS = "".join(f"[{','.join('1' * 20)}].all(x{level}, " for level in range(6)) + "x0 == 1" + ")" * 6


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("allow = ['gpu']\nwhom = 'true'", '"whom". Did you mean "who"?'),
        ("allow = []", 'allow names no term; write e.g. allow = ["gpu", "net.*"]'),
        ("allow = 'gpu'", 'allow must be a list of texts, e.g. ["gpu"]'),
        ("allow = ['GPU']", '"GPU" stands for no term; write "gpu", "net.*" or "*"'),
        ("allow = ['*.tx']", '"*.tx" stands for no term'),
        ("deny = ['duration']", 'duration is no term; bound it with limit = "duration"'),
        ("allow = ['a']\ndeny = ['b']", "this one has allow and deny"),
        ("who = 'true'", "this one has none of them"),
        ("deny = ['gpu']\nrevoke = 1", "revoke must be true or false"),
        ("limit = 'gpu'", 'a limit needs max or fraction, e.g. max = "1MB/s"'),
        ("limit = 'gpu'\nmax = 0", "0 is no amount"),
        ("limit = 'gpu'\nmax = true", "True is no amount"),
        ("limit = 'gpu'\nmax = 1.5", "1.5 is no whole number"),
        ("limit = 'gpu'\nmax = nan", "nan is no whole number"),
        ("limit = 'gpu'\nmax = 1e400", "inf is no whole number"),
        ("limit = 'gpu'\nmax = '1_000'", "write the digits without"),
        ("limit = 'gpu'\nmax = '\u0665'", "digits other than 0 to 9"),
        ("limit = 'gpu'\nmax = 9007199254740992", "beyond 2^53 - 1"),
        ("limit = 'net.tx'\nmax = '1KB/s'", "write 1kB/s (bytes, powers of 1000) or 1KiB/s"),
        ("limit = 'gpu'\nmax = 1\nper = 'user'", 'write one of "holder", "affiliation", "all", "lease"'),
        ("limit = 'gpu'\nfraction = '3/2'", "must lie above 0 and be at most 1"),
        ("limit = 'gpu'\nfraction = '1/0'", 'is no fraction; write a whole number or e.g. "1/2"'),
        ("limit = 'gpu'\nfraction = 0.5", "float is no fraction"),
        ("limit = 'duration'\nmax = '60 s'\nper = 'all'", 'a limit of duration is per = "lease" and has max'),
        ("limit = 'duration'\nmax = '1MB/s'", "counted in ms"),
        ("fair = 'net.tx'\nwho = 'true'", 'unknown key "who"'),
        ("fair = 'net.tx'\nweights = {vu = 2}", 'say of which: group = "affiliation"'),
        ("fair = 'net.tx'\ngroup = 'role'\nweights = {a = 0}", "weights lie above 0"),
        ("fair = 'net.tx'\nweight_by = 'size'", "weight_by"),
        ("rank = 1", "is no name of a host"),
        ("rank = true\nhost = 'h'", "rank must be a whole number from -1000 to 1000"),
        ("allow = ['gpu']\nzone = 'UTC'", "zone is where `now` of who and when is read"),
        ("allow = ['gpu']\nwho = ''", "who must be a condition in quotes"),
        ("allow = ['gpu']\nwho = 'agent.rol == \"x\"'", "who reads agent.rol: did you mean agent.role?"),
        ("allow = ['gpu']\nwhen = 'now.second > 1'", "when reads now.second: there are year, month"),
        (f"allow = ['gpu']\nwho = 'true || {'1' * 2048} == 1'", "who has 2,061 bytes; at most 2,048."),
        (f"allow = ['gpu']\nwho = '{SIX_LOOPS}'", "who has more than 2 loops"),
        (
            'allow = ["gpu"]\nwho = """[1].all //\n(a, [1].all(b, [1]. // c\nexists (c, true)))"""',
            "who has more than 2 loops",
        ),
    ],
)
def test_a_bad_rule_is_refused_with_file_line_rule_and_what_to_write(line: str, said: str) -> None:
    with pytest.raises(BadConfig) as refused:
        policy(f"[policy]\naccess = 'deny'\n[[rule]]\nname = 'mine'\n{line}", "p.toml")
    assert refused.value.text.startswith("p.toml:")
    assert 3 <= int(refused.value.text.split(":")[1]) <= 3 + len(line.splitlines()) + 1
    assert '[[rule]] "mine" ' in refused.value.text
    assert said in refused.value.text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[rule]]\nallow = ['gpu']", 'p.toml:1: [[rule]] name = "": each rule has a name'),
        ("[[rule]]\nname = 'A b'\nallow = ['gpu']", "each rule has a name"),
        ("[[rules]]\nname = 'a'", 'unknown key "rules". Did you mean "rule"?'),
        ("[rule]\nname = 'a'", "write [[rule]] on a line of its own"),
        ("version = 1", 'unknown key "version"'),
        ('"\\u001b[2J" = 1', 'unknown key "\ufffd[2J"'),
        ("[policy]\naccess = 'maybe'", 'write one of "allow", "deny"'),
        ("[policy]\nterms = {gpu = 'pieces'}", "write one of B/s, B, mcpu, ms, unit, function"),
        ("[policy]\nterms = {duration = 'ms'}", "'duration' is no name of a term"),
        ("[[rule]]\nname = 'a'\nallow = ['x']\n[[rule]]\nname = 'a'\nallow = ['x']", 'call it "a-2"'),
        ("[[rule]]\nname='a'\nrank=1\nhost='h'\n[[rule]]\nname='b'\nrank=2\nhost='h'", "p.toml:8: "),
        ("[[rule]]\nname='a'\nfair='x'\n[[rule]]\nname='b'\nfair='x'", 'divided by rule "a" already'),
        ("[policy]\nterms = {gpu = 'unit'}\n[[rule]]\nname='a'\ndeny=['gpus']", 'Did you mean "gpu"?'),
        ("[policy]\nterms = {gpu = 'unit'}\n[[rule]]\nname='a'\nlimit='net.tx'\nmax=1", "There are: gpu."),
        ("[policy]\nterms = {db = 'function'}\n[[rule]]\nname='a'\nlimit='db'\nmax=1", "use allow and deny"),
        ("[policy]\nterms = {gpu = 'unit'}\n[[rule]]\nname='a'\nfair='gpu'", "only capacities are divided"),
        ("[policy]\nterms = {gpu = 'unit'}\n[[rule]]\nname='a'\nlimit='gpu'\nmax='1 s'", "counted in unit"),
        ("[[grant]]\nwho = 'ci'\nmay = ['claim']\npools = ['x']", '"group:NAME"'),
        ("[[grant]]\nwho = '*'\nmay = ['see']\npools = ['x']", '"see" is not available in this version'),
        ("[[grant]]\nwho = '*'\nmay = ['clam']\npools = ['x']", '"clam" is unknown'),
        ("[[grant]]\nwho = '*'\nmay = ['claim']", "pools names no term"),
        ("[[grant]]\nwho = '*'\npools = ['x']", 'may names nothing; write may = ["claim"]'),
        ("a = ", "not TOML"),
        ("a = " + "[" * 10_000, "not TOML"),
        ("a = " + "9" * 10_000, "not TOML"),
    ],
)
def test_a_bad_file_is_refused(text: str, said: str) -> None:
    with pytest.raises(BadConfig) as refused:
        policy(text, "p.toml")
    assert refused.value.text.startswith("p.toml")
    assert said in refused.value.text


def test_a_thousand_rules_and_no_more() -> None:
    rules = "".join(f"[[rule]]\nname = 'r{number}'\nallow = ['x']\n" for number in range(1001))
    with pytest.raises(BadConfig, match="more than 1,000 rules"):
        policy(rules)


SCALARS = st.one_of(
    st.booleans().map(lambda value: str(value).lower()),
    st.integers(-(2**70), 2**70).map(str),
    st.sampled_from(
        ["nan", "inf", "1.5", "0x" + "f" * 5000, "2026-11-27", "'1/2'", "'gpu'", "'*'", "'true'"]
    ),
    st.text(max_size=12).map(
        lambda text: '"' + "".join(f"\\U{ord(c):08x}" for c in text if not 0xD800 <= ord(c) < 0xE000) + '"'
    ),
)
VALUES = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
    SCALARS.map(lambda item: f"{{ vu = {item} }}"),
)
KEYS = st.sampled_from(
    [
        "name",
        "who",
        "when",
        "zone",
        "allow",
        "deny",
        "limit",
        "per",
        "max",
        "fraction",
        "revoke",
        "fair",
        "group",
        "weights",
        "scope",
        "rank",
        "host",
        "may",
        "pools",
        "access",
        "terms",
    ]
)
TABLES = st.tuples(
    st.sampled_from(["[[rule]]", "[[grant]]", "[policy]"]), st.dictionaries(KEYS, VALUES, max_size=5)
).map(lambda table: "\n".join([table[0], *(f"{key} = {value}" for key, value in table[1].items())]))


@settings(max_examples=200, deadline=None)
@given(st.lists(TABLES, max_size=4).map("\n".join) | st.text(max_size=200))
def test_any_file_is_taken_or_refused_with_its_name(text: str) -> None:
    try:
        found = parse_policy(text, name="p.toml")
    except BadConfig as refused:
        assert refused.text.startswith("p.toml")  # noqa: PT017
    else:
        assert len({rule.name for rule in found.rules}) == len(found.rules)
