"""What `holdall doctor` says about a node that is not where commands look."""

from collections.abc import Callable
from pathlib import Path

import pytest

from holdall.client import doctor
from holdall.model import frames
from holdall.model.errors import Unreachable


def only_at(url: str) -> Callable[[str], frames.Listing]:
    """A node that answers at `url` and nowhere else."""

    def ask(asked: str) -> frames.Listing:
        if asked != url:
            raise Unreachable("no node is reachable. Start one: holdall serve")
        row = frames.NodeRow("lab-1", 7, "0", 0, "serving", 0, pools=0, units=0, leases=0, waiting=0)
        return frames.Listing(1, nodes=(row,))

    return ask


@pytest.mark.parametrize("runs", [True, False], ids=["runs", "does-not-run"])
def test_a_node_with_a_state_folder_of_its_own_is_found_and_its_address_told(
    runs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "holdall.toml"
    config.write_text('[node]\nname = "lab-1"\nstate = "st"\n', encoding="utf-8")
    address = f"unix://{tmp_path}/st/holdall.sock"
    monkeypatch.setattr(doctor, "_ask", only_at(address if runs else "nowhere"))
    (node,) = [finding for finding in doctor.examine(config, "") if finding.about == "node"]
    assert node.state == "warning"
    assert node.text.endswith(f"export HOLDALL_URL={address}" if runs else "Start one: holdall serve")
