"""One seed is one run in every process, whatever order Python gives to sets and dictionaries of texts there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

RUN = "import sys; from holdall.cli.lab import app; sys.exit(app(sys.argv[1:], standalone_mode=False))"


@pytest.mark.system
@pytest.mark.parametrize("protocol", ["chain", "ordered"])
def test_a_trace_does_not_depend_on_hash_seeds(protocol: str, tmp_path: Path) -> None:
    traces: list[bytes] = []
    for seed in ("1", "2"):
        trace = tmp_path / f"{seed}.jsonl"
        words = f"simulate --protocol {protocol} --nodes 3 --pools 6 --k 3 --agents 6 --duration 150 --rho 0.02".split()
        words += [
            "--delays",
            "lognormal",
            "--faults",
            "crash=3,unsynced=1,pause=2,split=1,loss=0.05,departure=0.1",
        ]
        subprocess.run(
            [sys.executable, "-c", RUN, *words, "--trace", str(trace)],
            check=True,
            capture_output=True,
            timeout=120,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        traces.append(trace.read_bytes())
    assert len(traces[0]) > 10_000
    assert traces[0] == traces[1]
