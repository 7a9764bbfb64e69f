"""The configuration of a node that joins, on a host where a node serves already: refused before anything is written."""

import socket
from pathlib import Path

import pytest

from holdall.cli import join_config
from holdall.cli.init_config import Found
from holdall.cli.join_config import config_to_join
from holdall.model.errors import BadConfig
from holdall.node import paths
from holdall.node.host_lock import HostLocks, Owner


@pytest.fixture(autouse=True)
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(paths.RUN_ENV, str(tmp_path / "run"))
    monkeypatch.setattr(join_config, "find_units", lambda: [Found("core", ("0", "1"), "cores")])


def test_units_that_another_node_serves_are_told_with_the_next_step_and_nothing_is_written(
    tmp_path: Path,
) -> None:
    other = HostLocks(Owner("lab-1", "/state/lab-1", "boot"))
    other.take("core")
    config = tmp_path / "joined.toml"
    with pytest.raises(BadConfig) as problem:
        config_to_join(config, None, "lab-2")
    assert 'core of this host is served by node "lab-1" (process ' in problem.value.text
    assert "stop it, then name the configuration that it was started with" in problem.value.text
    assert not config.exists()
    other.close()
    assert config_to_join(config, None, "lab-2") == config
    assert 'name = "core"' in config.read_text()


def test_a_node_that_runs_with_this_configuration_is_to_be_stopped_first(tmp_path: Path) -> None:
    config = tmp_path / "n.toml"
    config.write_text('[node]\nname = "lab-1"\nstate = "st"\n')
    (tmp_path / "st").mkdir()
    with socket.socket(socket.AF_UNIX) as node:
        node.bind(str(tmp_path / "st" / paths.SOCKET_NAME))
        node.listen()
        with pytest.raises(
            BadConfig, match=r"lab-1 runs with .* Stop it first; .*holdall join CODE --config"
        ):
            config_to_join(config, None, "")
    assert config_to_join(config, None, "") == config
