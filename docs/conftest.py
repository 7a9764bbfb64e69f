"""Runs the examples of the documentation: TOML is read by the node's own reader, Python talks to a real node."""

import contextlib
import re
import shutil
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer

import pytest
from sybil import Example, Sybil
from sybil.parsers.myst import CodeBlockParser, PythonCodeBlockParser

START = Path(__file__).parent / "start.md"
TO_LEASE = """
[[capacity]]
name = "net.tx"
amount = "1MB/s"
"""
LOCATION = "prague"
LOCATION_WITHIN_S = 60


def read_toml(example: Example) -> None:
    """Refuse what a node would refuse, or on their pages what `policy check` or `job run` would."""
    from holdall.jobs.file import parse_job
    from holdall.node.policies import checked
    from holdall.node.settings import parse_settings
    from holdall.policy.reading import parse_policy

    name = f"{Path(example.path).name}:{example.line}"
    of_node = tomllib.loads(str(example.parsed)).get("policy", {}).keys() & {"location", "limits"}
    if Path(example.path).name == "policies.md" and not of_node:
        checked(parse_policy(str(example.parsed), name=name))
    elif Path(example.path).name == "jobs.md":
        parse_job(str(example.parsed), source=name, folder=Path.cwd())
    else:
        parse_settings(str(example.parsed), name=name)


@pytest.fixture(scope="module")
def node_of_the_page(request: pytest.FixtureRequest) -> Iterator[None]:
    """A node with the pools of docs/start.md, where `holdall.connect()` finds it; in a location where the page is about those."""
    from holdall.node.in_thread import ServiceThread

    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="hd"))
    (written,) = re.findall(r"```toml\n(.*?)```", START.read_text(encoding="utf-8"), re.DOTALL)
    in_location = request.path.name == "locations.md"
    location = f'location = "{LOCATION}"\n' if in_location else ""
    state = f'[node]\n{location}listen = ""\nstate = "{folder}/state"'
    text = written.replace("[node]", state, 1) + (TO_LEASE if in_location else "")
    config = folder / "holdall.toml"
    config.write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOLDALL_RUN_DIR", str(folder / "run"))
        node = ServiceThread(config, new=True)
        patch.setenv("HOLDALL_URL", f"unix://{node.start()}")
        if in_location:
            wait_for_location()
        yield
        node.stop()
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Of somebody who takes all that is sent."""

    class Taking(StreamRequestHandler):
        def handle(self) -> None:
            self.rfile.read()

    with ThreadingTCPServer(("127.0.0.1", 0), Taking) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def wait_for_location() -> None:
    """Until it has a manager that knows its host."""
    import holdall

    until = time.monotonic() + LOCATION_WITHIN_S
    with holdall.sync.connect() as hub:
        while time.monotonic() < until:
            with contextlib.suppress(holdall.HoldallError):
                if hub.location(LOCATION).templates():
                    return
            time.sleep(0.02)
    raise AssertionError("the location has no manager")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """An example goes on where the one before it ended, so pages must not be spread over workers."""
    for item in items:
        if item.path.suffix == ".md":
            item.add_marker(pytest.mark.page)


pytest_collect_file = Sybil(
    parsers=[CodeBlockParser(language="toml", evaluator=read_toml), PythonCodeBlockParser()],
    patterns=["*.md"],
    excludes=["reference/commands.md", "reference/messages.md", "_build/*"],
    fixtures=["node_of_the_page", "port"],
).pytest()
