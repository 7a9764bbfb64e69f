"""A node obeys the files of `[policy]`: read at its start, and again as a whole on SIGHUP."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from node.location.town import Client, net, settled, start, wants
from node.together import Together, together
from node.waiting import until

from holdall.model import location_frames as f
from holdall.model.errors import BadConfig

ALLOW = '[policy]\naccess = "allow"\n'


def limit(name: str, most: str) -> str:
    return f'[[rule]]\nname = "{name}"\nlimit = "net.tx"\nper = "holder"\nmax = "{most}"\n'


@pytest.fixture
def nodes() -> Iterator[Together]:
    with together() as made:
        yield made


def obeying(nodes: Together, *, grace: str = "10s", **files: str) -> dict[str, Path]:
    """A node with these policies: `file` of the host, `location` of its location."""
    paths = {key: nodes.folder / f"{key}.toml" for key in files}
    for key, text in files.items():
        paths[key].write_text(text)
    named = "".join(f'{key} = "{path}"\n' for key, path in paths.items())
    config = nodes.folder / "lab1.toml"
    text = f'{net("100kB/s")}[policy]\nrevoke_grace = "{grace}"\n{named}'
    start(nodes, "lab1", text)
    # To be read again: what the node was started with, from a file.
    service = nodes.nodes["lab1"]
    config.write_text(f'[node]\nname = "lab1"\nlisten = "off"\nlocation = "prague"\n{text}')
    service.settings = service.settings.__class__(
        **{
            field: getattr(service.settings, field)
            for field in service.settings.__struct_fields__
            if field != "path"
        },
        path=config,
    )
    settled(nodes, "lab1", hosts=1)
    return paths


def granted(nodes: Together, name: str, amount: int) -> int | str:
    """What is offered, then declined; or the rule that refuses it."""
    with Client(nodes, "lab1") as client:
        answer = client.offer(wants(name, amount))
        if isinstance(answer, f.NoOffer):
            assert answer.reason == "policy"
            return answer.rule
        assert isinstance(answer, f.OfferIs)
        client.ask(f.DeclineOffer(answer.document.lease))
        found = answer.document.term("net.tx").granted
        assert isinstance(found, int)
        return found


@pytest.mark.parametrize("scope", ["file", "location"])
def test_p1_a_limit_of_host_or_location_is_obeyed_and_read_again(nodes: Together, scope: str) -> None:
    paths = obeying(nodes, **{scope: ALLOW + limit("each", "30kB/s")})
    assert granted(nodes, "r1", 50_000) == 30_000
    paths[scope].write_text(ALLOW + limit("each", "20kB/s"))
    nodes.call(nodes.nodes["lab1"].reload)
    until(lambda: "reloaded" in nodes.logs["lab1"].getvalue(), "it was read again")
    assert granted(nodes, "r2", 50_000) == 20_000
    paths[scope].write_text('[policy]\naccess = "deny"\n')
    nodes.call(nodes.nodes["lab1"].reload)
    until(lambda: nodes.logs["lab1"].getvalue().count('"reloaded"') == 2, "it was read again")
    assert granted(nodes, "r3", 50_000) == "policy.access"


def reloaded(nodes: Together, path: Path, text: str) -> None:
    path.write_text(text)
    log = nodes.logs["lab1"]
    before = log.getvalue().count('"reloaded"')
    nodes.call(nodes.nodes["lab1"].reload)
    until(lambda: log.getvalue().count('"reloaded"') > before, "it was read again")


@pytest.mark.parametrize("scope", ["file", "location"])
def test_n8_a_tighter_policy_counts_for_a_live_lease_when_it_is_renewed(nodes: Together, scope: str) -> None:
    paths = obeying(nodes, **{scope: ALLOW})
    with Client(nodes, "lab1") as client:
        taken = client.offer(wants("r1", 40_000, duration=600_000), take=True)
        assert isinstance(taken, f.LeaseIs), taken
        reloaded(nodes, paths[scope], ALLOW + limit("each", "10kB/s"))
        renewed = client.ask(f.RenewLease(taken.document.lease))
        assert isinstance(renewed, f.LeaseIs), renewed
        assert (renewed.document.revision, renewed.document.term("net.tx").granted) == (2, 10_000)
        reloaded(nodes, paths[scope], '[policy]\naccess = "deny"\n')
        refused = client.ask(f.RenewLease(taken.document.lease))
        assert isinstance(refused, f.NoOffer), refused
        assert (refused.reason, refused.rule) == ("policy", "policy.access")
        stands = client.ask(f.AskStatus(taken.document.lease))
        assert isinstance(stands, f.LeaseIs)
        assert (stands.document.state, stands.document.revision) == ("active", 2)


@pytest.mark.parametrize("scope", ["file", "location"])
def test_a_limit_of_host_or_location_counts_for_who_is_given_a_part(nodes: Together, scope: str) -> None:
    paths = obeying(nodes, **{scope: ALLOW})
    start(nodes, "lab2", net("10kB/s"), location="brno")
    with Client(nodes, "lab1") as client:
        taken = client.offer(wants("r1", 40_000, duration=600_000), take=True)
        assert isinstance(taken, f.LeaseIs), taken
        reloaded(nodes, paths[scope], ALLOW + limit("each", "10kB/s"))
        lease = taken.document.lease
        other = f"{taken.document.holder.partition('@')[0]}@lab2"

        def split(amount: int, request: str) -> f.ToClient:
            return client.ask(f.SplitLease(lease, {"net.tx": amount}, other, request))

        until(lambda: client.row("brno") is not None, "the other node is known")
        refused = split(15_000, "a" * 16)
        assert isinstance(refused, f.NoOffer), refused
        assert (refused.reason, refused.rule, refused.best_possible) == ("policy", "each", {"net.tx": 10_000})
        parted = split(10_000, "b" * 16)
        assert isinstance(parted, f.LeaseParted), parted
        assert (parted.rest.document.term("net.tx").granted, parted.part.holder) == (30_000, other)
        assert isinstance(split(1_000, "c" * 16), f.NoOffer)


@pytest.mark.parametrize("scope", ["file", "location"])
def test_a_rule_with_revoke_ends_the_youngest_lease_and_a_rule_without_none(
    nodes: Together, scope: str
) -> None:
    paths = obeying(nodes, grace="0s", **{scope: ALLOW})
    with Client(nodes, "lab1") as client:
        leases: list[str] = []
        for name in ("r1", "r2"):
            taken = client.offer(wants(name, 40_000, duration=600_000), take=True)
            assert isinstance(taken, f.LeaseIs), taken
            leases.append(taken.document.lease)

        def states() -> list[tuple[str, str]]:
            answers = [client.ask(f.AskStatus(lease)) for lease in leases]
            return [(one.document.state, one.document.why) for one in answers if isinstance(one, f.LeaseIs)]

        tight = limit("half", "1MB/s").replace('max = "1MB/s"', 'fraction = "1/2"')
        reloaded(nodes, paths[scope], ALLOW + tight)
        assert granted(nodes, "r3", 20_000) == "half"
        assert states() == [("active", ""), ("active", "")]
        reloaded(nodes, paths[scope], ALLOW + tight + "revoke = true\n")
        why = f"rule half of the {'host' if scope == 'file' else 'location'}'s policy"
        until(lambda: states() == [("active", ""), ("revoked", why)], "the younger one is over")
        assert granted(nodes, "r4", 20_000) == 10_000


def test_a_capacity_that_shrinks_or_grows_keeps_what_is_granted_until_it_is_renewed(nodes: Together) -> None:
    obeying(nodes, file=ALLOW)
    config = nodes.folder / "lab1.toml"
    with Client(nodes, "lab1") as client:
        taken = client.offer(wants("r1", 80_000, duration=600_000), take=True)
        assert isinstance(taken, f.LeaseIs), taken
        lease = taken.document.lease

        def has() -> int:
            answer = client.ask(f.AskStatus(lease))
            found = answer.document.term("net.tx").granted if isinstance(answer, f.LeaseIs) else 0
            assert isinstance(found, int)
            return found

        reloaded(nodes, config, config.read_text().replace('"100kB/s"', '"50kB/s"'))
        until(lambda: _max(client) == 50_000, "the location's manager knows it")
        assert has() == 80_000
        none = client.offer(wants("r2", 10_000))
        assert isinstance(none, f.NoOffer), none
        renewed = client.ask(f.RenewLease(lease))
        assert isinstance(renewed, f.LeaseIs), renewed
        assert has() <= 50_000
        text = config.read_text().replace('"50kB/s"', '"200kB/s"')
        reloaded(nodes, config, text + '[[function]]\nname = "service.db"\n')
        until(lambda: _max(client) == 200_000, "the location's manager knows it")
        assert granted(nodes, "r3", 100_000) == 100_000


def test_other_weights_of_groups_are_obeyed_at_the_next_renewals(nodes: Together) -> None:
    share = '[[rule]]\nname = "share"\nfair = "net.tx"\ngroup = "affiliation"\nweights = { prague = 3 }\n'
    paths = obeying(nodes, file=ALLOW + share)
    start(nodes, "lab2", "", location="brno")
    with Client(nodes, "lab1") as one, Client(nodes, "lab2") as other:
        until(lambda: other.row("prague") is not None, "lab2 knows prague")
        first = one.offer(wants("r1", 100_000, duration=600_000), take=True)
        assert isinstance(first, f.LeaseIs), first
        assert isinstance(other.offer(wants("r2", 100_000)), f.NoOffer)
        assert _renewed(one, first) == 75_000
        second = other.offer(wants("r3", 100_000, duration=600_000), take=True)
        assert isinstance(second, f.LeaseIs), second
        assert second.document.term("net.tx").granted == 25_000
        reloaded(nodes, paths["file"], ALLOW + share.replace("prague = 3", "brno = 4"))
        assert [_renewed(one, first), _renewed(other, second)] == [20_000, 80_000]


def _renewed(client: Client, lease: f.LeaseIs) -> int:
    answer = client.ask(f.RenewLease(lease.document.lease))
    assert isinstance(answer, f.LeaseIs), answer
    found = answer.document.term("net.tx").granted
    assert isinstance(found, int)
    return found


def _max(client: Client) -> int | None:
    found = client.ask(f.AskTemplates("prague"))
    assert isinstance(found, f.TemplatesAre)
    return found.templates[0].terms["net.tx"].max if found.templates else None


def test_both_policies_apply_and_the_smaller_amount_wins(nodes: Together) -> None:
    obeying(nodes, file=ALLOW + limit("host", "40kB/s"), location=ALLOW + limit("all", "60kB/s"))
    assert granted(nodes, "r1", 90_000) == 40_000


def test_a_file_that_can_not_be_used_changes_nothing(nodes: Together) -> None:
    good = ALLOW + limit("each", "30kB/s")
    paths = obeying(nodes, file=good, location=good)
    paths["file"].write_text(ALLOW + limit("each", "10kB/s"))
    for bad in (
        "no toml",
        ALLOW + '[[rule]]\nname = "x"\nallow = ["*"]\nwho = "agent.role =="\n',
        ALLOW + '[[rule]]\nname = "x"\nallow = ["*"]\nwho = "agent.nobody == 1"\n',
    ):
        paths["location"].write_text(bad)
        log = nodes.logs["lab1"]
        before = log.getvalue().count("not reloaded")
        nodes.call(nodes.nodes["lab1"].reload)
        until(lambda: log.getvalue().count("not reloaded") > before, "it is refused")  # noqa: B023
        assert granted(nodes, f"r{before}", 50_000) == 30_000


def test_a_node_does_not_start_with_a_policy_that_can_not_be_used(nodes: Together) -> None:
    with pytest.raises(BadConfig, match=r"location\.toml"):
        obeying(nodes, location="[[rule]]\n")


def test_a_condition_sees_who_asks_and_the_group_of_the_kernel(nodes: Together) -> None:
    rule = (
        '[[rule]]\nname = "of-here"\nallow = ["net.*"]\n'
        'who = \'agent.affiliation == "prague" && agent.id.endsWith("@lab1") && size(agent.groups) > 0\'\n'
        '[[rule]]\nname = "short"\nlimit = "duration"\nmax = "5 s"\n'
    )
    obeying(nodes, file='[policy]\naccess = "deny"\n' + rule)
    with Client(nodes, "lab1") as client:
        answer = client.offer(wants("r1", 1000))
        assert isinstance(answer, f.OfferIs), answer
        assert answer.document.duration == 5000
