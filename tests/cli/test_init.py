"""What `holdall init` finds in a tree that looks like a host's, and that a node can read all of it."""

import os
import sys
from pathlib import Path

import pytest

from holdall.cli import newcomer
from holdall.cli.entry import main
from holdall.cli.init_config import Found, config_text, find_units, host_name
from holdall.node.settings import parse_settings

NO_TOOL = ("/nowhere/nvidia-smi",)


def touch(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()


def tool(tmp_path: Path, *lines: str, status: int = 0) -> tuple[str, ...]:
    """A program that prints what nvidia-smi would."""
    program = tmp_path / "smi.py"
    program.write_text(f"import sys\nprint({chr(10).join(lines)!r})\nsys.exit({status})\n")
    return sys.executable, str(program)


def found(root: Path, command: tuple[str, ...] = NO_TOOL) -> dict[str, list[Found]]:
    pools: dict[str, list[Found]] = {}
    units = find_units(root, nvidia_smi=command)
    settings = parse_settings(config_text(units, "lab-1"), name="found")
    assert [(pool.name, pool.units, pool.labels, pool.reach) for pool in settings.pools] == [
        (one.pool, one.units, one.labels, "host") for one in units
    ]
    for one in units:
        pools.setdefault(one.pool, []).append(one)
    return pools


def test_a_host_without_devices_has_its_cores(tmp_path: Path) -> None:
    (core,) = found(tmp_path)["core"]
    assert found(tmp_path).keys() == {"core"}
    assert core.units == tuple(str(number) for number in sorted(os.sched_getaffinity(0)))


def test_each_model_that_nvidia_smi_lists_is_a_pool_with_labels(tmp_path: Path) -> None:
    touch(tmp_path, "dev/nvidia0", "dev/nvidiactl", "dev/dri/renderD128")
    command = tool(
        tmp_path,
        "0, NVIDIA A100-SXM4-80GB, 81920",
        "1, NVIDIA GeForce RTX 4090, 24564",
        "2, NVIDIA A100-SXM4-80GB, 81920",
    )
    assert [(one.units, one.labels) for one in found(tmp_path, command)["gpu"]] == [
        (("0", "2"), {"model": "a100-sxm4-80gb", "mem": "80G"}),
        (("1",), {"model": "rtx-4090", "mem": "24G"}),
    ]


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (["No devices were found"], 0),
        (["NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."], 9),
        (["0, NVIDIA A100, 40960"], 9),
        ([""], 0),
    ],
)
def test_where_nvidia_smi_has_nothing_to_say_its_device_files_count(
    tmp_path: Path, lines: list[str], status: int
) -> None:
    touch(tmp_path, "dev/nvidia0", "dev/nvidia1", "dev/nvidia10", "dev/nvidia-uvm", "dev/dri/renderD128")
    (gpu,) = found(tmp_path, tool(tmp_path, *lines, status=status))["gpu"]
    assert (gpu.units, gpu.seen) == (("0", "1", "10"), "/dev/nvidia*")


def test_memory_that_is_not_told_is_no_label(tmp_path: Path) -> None:
    (gpu,) = found(tmp_path, tool(tmp_path, "0, NVIDIA GB10, [N/A]"))["gpu"]
    assert gpu.labels == {"model": "gb10"}


def test_amd_gpus_are_the_nodes_with_simd_units(tmp_path: Path) -> None:
    touch(tmp_path, "dev/kfd", "dev/dri/renderD128", "dev/dri/renderD129")
    nodes = "sys/class/kfd/kfd/topology/nodes"
    for number, simd in enumerate((0, 304, 304)):
        touch(tmp_path, f"{nodes}/{number}/properties")
        (tmp_path / nodes / str(number) / "properties").write_text(f"cpu_cores_count 8\nsimd_count {simd}\n")
    (gpu,) = found(tmp_path)["gpu"]
    assert (gpu.units, gpu.labels, gpu.seen) == (("0", "1"), {"vendor": "amd"}, "/dev/kfd")


def test_other_gpus_are_their_render_nodes(tmp_path: Path) -> None:
    touch(tmp_path, "dev/kfd", "dev/dri/renderD128", "dev/dri/card0")
    (gpu,) = found(tmp_path)["gpu"]
    assert (gpu.units, gpu.labels) == (("128",), {})


def test_serial_devices_have_the_names_that_last(tmp_path: Path) -> None:
    touch(tmp_path, "dev/ttyUSB0", "dev/ttyUSB1", "dev/ttyACM0", "dev/ttyS0", "dev/video0")
    by_id = tmp_path / "dev/serial/by-id"
    by_id.mkdir(parents=True)
    (by_id / "usb-FTDI_FT232R_USB_UART_A50285BI-if00-port0").symlink_to("../../ttyUSB0")
    (by_id / "usb-Odd:name+with letters-if00").symlink_to("../../ttyUSB1")
    (by_id / "usb-gone").symlink_to("../../ttyUSB9")
    pools = found(tmp_path)
    (serial,) = pools["serial"]
    assert serial.units == ("ttyACM0", "ttyUSB1", "usb-FTDI_FT232R_USB_UART_A50285BI-if00-port0")
    assert pools["camera"][0].units == ("video0",)


def test_the_name_of_this_host_can_name_a_node() -> None:
    assert parse_settings(f'[node]\nname = "{host_name()}"\n', name="host").name == host_name()


def test_it_is_printed_and_nothing_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["init", "--print"])
    told = capsys.readouterr()
    assert (ended.value.code, told.err) == (0, "")
    assert "core" in [pool.name for pool in parse_settings(told.out, name="printed").pools]
    assert [*tmp_path.iterdir()] == []


def test_a_file_that_appears_meanwhile_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "holdall.toml"

    def slowly() -> list[Found]:
        config.write_text("# somebody else's\n")
        return []

    monkeypatch.setattr(newcomer, "find_units", slowly)
    with pytest.raises(SystemExit) as ended:
        main(["init", str(config)])
    assert ended.value.code == 78
    assert "can't be written" in capsys.readouterr().err
    assert config.read_text() == "# somebody else's\n"
