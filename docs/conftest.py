"""Runs the examples of the documentation: TOML is read by the node's own reader, Python talks to a real node."""

import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sybil import Example, Sybil
from sybil.parsers.myst import CodeBlockParser, PythonCodeBlockParser

START = Path(__file__).parent / "start.md"


def read_toml(example: Example) -> None:
    """Refuse what a node would refuse, or on their pages what `policy check` or `job run` would."""
    from holdall.jobs.file import parse_job
    from holdall.node.policies import checked
    from holdall.node.settings import parse_settings
    from holdall.policy.reading import parse_policy

    name = f"{Path(example.path).name}:{example.line}"
    if Path(example.path).name == "policies.md":
        checked(parse_policy(str(example.parsed), name=name))
    elif Path(example.path).name == "jobs.md":
        parse_job(str(example.parsed), source=name, folder=Path.cwd())
    else:
        parse_settings(str(example.parsed), name=name)


@pytest.fixture(scope="module")
def node_of_the_page() -> Iterator[None]:
    """A node with the pools of docs/start.md, where `holdall.connect()` finds it."""
    from holdall.node.in_thread import ServiceThread

    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="hd"))
    (written,) = re.findall(r"```toml\n(.*?)```", START.read_text(encoding="utf-8"), re.DOTALL)
    config = folder / "holdall.toml"
    state = f'[node]\nlisten = ""\nstate = "{folder}/state"'
    config.write_text(written.replace("[node]", state, 1), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOLDALL_RUN_DIR", str(folder / "run"))
        node = ServiceThread(config, new=True)
        patch.setenv("HOLDALL_URL", f"unix://{node.start()}")
        yield
        node.stop()
    shutil.rmtree(folder)


pytest_collect_file = Sybil(
    parsers=[CodeBlockParser(language="toml", evaluator=read_toml), PythonCodeBlockParser()],
    patterns=["*.md"],
    excludes=["reference/commands.md", "reference/messages.md", "_build/*"],
    fixtures=["node_of_the_page"],
).pytest()
