"""The node's key: made once, kept for its owner only, never replaced silently."""

from pathlib import Path

import pytest

from holdall.bus.keys import new_seed, node_id, public_of
from holdall.model.errors import BadConfig
from holdall.node import paths
from holdall.node.identity import identity_of


def test_the_first_start_makes_a_key_for_its_owner_only_and_later_ones_find_it(tmp_path: Path) -> None:
    made = identity_of(tmp_path)
    assert (tmp_path / paths.KEY_NAME).stat().st_mode & 0o777 == 0o600
    seed = (tmp_path / paths.KEY_NAME).read_text().strip()
    again = identity_of(tmp_path, may_make=False)
    assert (again.id, again.public) == (made.id, made.public)
    assert made.id == made.public[:20].lower() == node_id(public_of(seed))
    assert seed not in repr(made)
    assert [path.name for path in tmp_path.iterdir()] == [paths.KEY_NAME]


def test_two_nodes_have_two_ids(tmp_path: Path) -> None:
    folders = (tmp_path / "a", tmp_path / "b")
    for folder in folders:
        folder.mkdir()
    one, other = (identity_of(folder) for folder in folders)
    assert one.id != other.id


def test_a_key_that_the_journal_needs_is_not_made_anew(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="is missing, but the journal beside it was written with it"):
        identity_of(tmp_path, may_make=False)
    assert list(tmp_path.iterdir()) == []


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    identity_of(tmp_path)
    (tmp_path / paths.KEY_NAME).chmod(0o644)
    with pytest.raises(BadConfig, match="Close it with: chmod 600"):
        identity_of(tmp_path)


def other_letter(text: str, place: int) -> str:
    return text[:place] + ("A" if text[place] != "A" else "B") + text[place + 1 :]


SEED = new_seed()
DAMAGED = [
    "",
    SEED[:-1],
    SEED + "AAAA",
    other_letter(SEED, 20),
    other_letter(SEED, len(SEED) - 1),
    "SO" + SEED[2:],
    "é" * 58,
]


@pytest.mark.parametrize("text", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_key_is_refused_and_left_as_it_is(tmp_path: Path, text: str) -> None:
    (tmp_path / paths.KEY_NAME).write_text(text)
    (tmp_path / paths.KEY_NAME).chmod(0o600)
    with pytest.raises(BadConfig, match="is damaged"):
        identity_of(tmp_path)
    assert (tmp_path / paths.KEY_NAME).read_text() == text
