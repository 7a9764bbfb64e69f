"""Needs that can never be met are found before a job begins."""

from pathlib import Path

import pytest

from holdall.jobs.file import parse_job
from holdall.jobs.problems import BadJob
from holdall.jobs.satisfiable import check_needs
from holdall.model.frames import PoolRow


def pool(name: str, total: int, node: str = "n1", reach: str = "system", **labels: str) -> PoolRow:
    return PoolRow(name, node, labels, reach, total, 0, 0, 0, 0, ())


POOLS = [
    pool("gpu", 2, model="a100"),
    pool("gpu", 1, "n2", model="h100"),
    pool("psu", 3),
    pool("cpu", 8, "n2", "host"),
]


def check(needs: str, extra: str = "") -> None:
    text = f"[task.a]\nrun='x'\nneeds={needs}\n{extra}"
    check_needs(parse_job(text, source="j", folder=Path("/")), POOLS, here="n1")


@pytest.mark.parametrize(
    "needs",
    [
        "['gpu:3']", "['gpu:1','gpu:2']", "['gpu,model=h100','gpu,model=a100:2']", "['gpu,model=h100','gpu:2']",
        "[['gpu:9','psu:3']]", "['gpu+psu:6']", "['gpu:all','psu']", "['gpu,@n2']", "['gpu:1','gpu,model=h100']",
    ],
)  # fmt: skip
def test_what_can_be_met_is_taken(needs: str) -> None:
    check(needs)


@pytest.mark.parametrize(
    ("needs", "said"),
    [
        ("['psu',\n'gpu:4']", 'j:4:1: task "a" can never have gpu:4: 3 such units exist'),
        ("['gpi']", 'there is no pool "gpi". Did you mean "gpu"?'),
        ("['gpu,model=v100']", "0 such units exist"),
        ("['cpu:1']", "these units are of use on n2 only"),
        ("['gpu:2','gpu:2']", 'j:3:1: task "a" can never have all its needs at once'),
        ("['gpu,model=h100','gpu,model=h100']", "can never have all its needs at once"),
        ("['gpu,@n2:2']", "1 such units exist"),
    ],
)
def test_what_can_never_be_met_is_told_with_its_place(needs: str, said: str) -> None:
    with pytest.raises(BadJob) as raised:
        check(needs)
    assert said in str(raised.value)


def test_items_are_judged_each_and_told_once() -> None:
    with pytest.raises(BadJob) as raised:
        check("['gpu,model={item}']", "foreach=['a100','v1','v2']")
    assert str(raised.value).count("\n") == 0
    assert 'task "a[v1]"' in str(raised.value)
