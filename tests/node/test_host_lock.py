"""Host-wide locks: one node a pool name, and the memory of who had it."""

import os
from pathlib import Path

import pytest

from holdall.model.errors import BadConfig
from holdall.node import paths
from holdall.node.host_lock import HostLocks, Owner, owner_now


@pytest.fixture(autouse=True)
def run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(paths.RUN_ENV, str(tmp_path / "run"))
    return tmp_path / "run"


def locks(node: str, boot_id: str = "A") -> HostLocks:
    return HostLocks(Owner(node, f"/state/{node}", boot_id))


def test_a_second_node_is_told_who_serves_the_pool() -> None:
    one, two = locks("lab-1"), locks("lab-2")
    assert one.take("gpu") is False
    assert one.take("gpu") is False
    with pytest.raises(BadConfig, match=r'served by node "lab-1" \(process \d+, state /state/lab-1\)'):
        two.take("gpu")
    assert two.take("port") is False
    one.close()
    two.close()


def test_who_serves_a_pool_now_can_be_asked_without_taking_its_lock() -> None:
    assert owner_now("gpu") is None
    one = locks("lab-1")
    one.take("gpu")
    for _ in range(2):
        owner = owner_now("gpu")
        assert owner is not None
        assert (owner.node, owner.state, owner.pid) == ("lab-1", "/state/lab-1", os.getpid())
    assert owner_now("port") is None
    one.close()
    assert owner_now("gpu") is None


def test_who_takes_over_within_a_boot_hears_that_another_node_served_it() -> None:
    one, two = locks("lab-1"), locks("lab-2")
    one.take("gpu")
    one.close()
    assert two.take("gpu") is True
    two.give_up("gpu")
    assert two.take("gpu") is False
    two.close()
    assert locks("lab-1", boot_id="B").take("gpu") is False


def test_a_file_with_other_words_in_it_is_no_hindrance(run_folder: Path) -> None:
    (run_folder / "locks").mkdir(parents=True)
    (run_folder / "locks" / "holdall-gpu.lock").write_bytes(b"\xff{}" * 9)
    one = locks("lab-1")
    assert one.take("gpu") is False
    one.close()


def test_a_link_in_the_place_of_the_lock_is_not_followed(run_folder: Path, tmp_path: Path) -> None:
    (run_folder / "locks").mkdir(parents=True)
    target = tmp_path / "victim"
    target.write_text("precious")
    (run_folder / "locks" / "holdall-gpu.lock").symlink_to(target)
    one = locks("lab-1")
    one.take("gpu")
    one.close()
    assert target.read_text() == "precious"
