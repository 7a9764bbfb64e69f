"""`holdall lab mutants`: every rule that is taken away is found, by the search or by seeded runs, and nothing else is."""

import json

import msgspec
import pytest

from holdall.explorer.mutants import registry
from holdall.explorer.mutants.leases import LEASE_MUTANTS
from holdall.explorer.mutants.mutant import Change, LinkMutant, Mutant, Seeded
from holdall.lab import mutants as lab
from holdall.lab.mutants import hunt, run_mutants
from holdall.leases.book import LeaseBook
from holdall.leases.fences import Fences
from holdall.simulator.run import Run
from holdall.simulator.setup import Setup

FOUND_SEEDED = [mutant.name for mutant in LEASE_MUTANTS]


def test_there_are_at_least_forty_and_each_says_where_it_is_found() -> None:
    found = list(registry.all_mutants())
    assert len(found) >= 40
    assert len({(mutant.protocol, mutant.name) for mutant in found}) == len(found)
    for mutant in found:
        assert mutant.rule
        assert mutant.found_as
        if isinstance(mutant, Mutant):
            by_search = mutant.system is not None and mutant.world is not None
            assert by_search != (mutant.seeded is not None), mutant.name


@pytest.mark.parametrize("name", FOUND_SEEDED)
def test_seeded_runs_see_that_a_rule_of_leases_is_missing_and_the_shipped_machines_are_clean(
    name: str,
) -> None:
    row = hunt(("chain", name))
    assert row.is_found, row.text
    assert row.how == "simulator"
    assert row.seed is not None
    seeded = registry.mutant_of("chain", name).seeded
    assert seeded is not None
    for seed in range(seeded.first, row.seed + 1):
        assert Run(msgspec.convert({**seeded.setup, "seed": seed}, Setup)).run().violations == []


def test_methods_are_as_they_were_when_a_run_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    before = vars(Fences)["following"]
    hunt(("chain", "fence-shared"))
    assert vars(Fences)["following"] is before

    def fails(_: Seeded, __: int) -> list[str]:
        assert vars(Fences)["following"] is not before
        raise RuntimeError

    monkeypatch.setattr(lab, "_seed", fails)
    with pytest.raises(RuntimeError):
        hunt(("chain", "fence-shared"))
    assert vars(Fences)["following"] is before


def test_only_what_a_class_has_of_its_own_can_be_changed() -> None:
    with pytest.raises(ValueError, match="no nothing of its own"):
        Change(LeaseBook, "nothing", None)


def test_people_and_programs_are_told_how_each_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    names = ("wound", "early-kill", "fence-shared")
    assert run_mutants(protocol="chain", names=names, jobs=1) == 0
    out, err = capsys.readouterr()
    assert (
        'chain wound         deadlock, 6 steps (x2): without "older waiting rows call younger ones back"'
        in out
    )
    assert "chain fence-shared  fence, seed 1 (bare)" in out
    assert "3 of 3 mutants found" in err
    assert run_mutants(protocol="link", names=("doubles",), jobs=1, as_json=True) == 0
    (row,) = json.loads(capsys.readouterr().out)["mutants"]
    assert (row["how"], row["broken"], row["steps"], row["where"]) == (
        "explorer",
        "double",
        5,
        "one, duplicate=1",
    )


def test_one_that_is_not_found_fails_the_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shipped = registry.mutant_of("chain", "wound")
    assert shipped.world is not None
    quiet = msgspec.structs.replace(shipped, found_as=("exclusion",))
    monkeypatch.setattr(lab, "all_mutants", lambda: iter([quiet]))
    assert run_mutants(jobs=1) == 1
    out, err = capsys.readouterr()
    assert "NOT FOUND as exclusion: nothing more can happen and somebody is not served" in out
    assert "0 of 1 mutants found" in err


def test_names_that_nobody_has_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_mutants(protocol="chain", names=("nothing",)) == 64
    assert "there are some of" in capsys.readouterr().err


def test_those_of_the_link_are_in_the_list() -> None:
    links = [mutant for mutant in registry.all_mutants() if isinstance(mutant, LinkMutant)]
    assert len(links) == 16
