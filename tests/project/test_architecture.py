"""Import rules that need no installed package, and documents that must keep up with the code."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "holdall"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONTRACTS: list[dict[str, Any]] = PROJECT["tool"]["importlinter"]["contracts"]
PACKAGES = sorted(folder.name for folder in SOURCE.iterdir() if (folder / "__init__.py").is_file())

CORE = {"model", "machine", "protocols", "leases", "policy", "parties", "world"}
OUTSIDE = {
    "asyncio", "datetime", "logging", "os", "random", "secrets", "socket", "subprocess", "threading", "time", "uuid",
}  # fmt: skip

OWNERS: dict[str, tuple[str, ...]] = {
    "msgspec": ("",),
    "starlette": ("http/",),
    "uvicorn": ("http/",),
    "prometheus_client": ("http/",),
    "opentelemetry": ("http/",),
    "typer": ("cli/",),
    "rich": ("cli/", "lab/"),
    "structlog": ("node/", "cli/"),
    "matplotlib": ("lab/",),
    "cel": ("policy/",),
    "sqlite3": ("node/store.py",),
    "nats": ("bus/",),
    "cryptography": ("bus/",),
    "nkeys": ("bus/",),
    "pytest": ("client/pytest_plugin/",),
    "mcp": ("mcp/",),
    "mcp_types": ("mcp/",),
    "pydantic": ("mcp/",),
}
"""Where a third-party name (and SQLite) may be imported: the start of the file's path below src/holdall."""


def imports() -> Iterator[tuple[str, str]]:
    """(file below src/holdall, top name of a module it imports), imports inside functions included."""
    for path in sorted(SOURCE.rglob("*.py")):
        file = path.relative_to(SOURCE).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from ((file, alias.name.partition(".")[0]) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                yield file, node.module.partition(".")[0]


def test_a_third_party_name_appears_in_one_package_only() -> None:
    known = (sys.stdlib_module_names - OWNERS.keys()) | {"holdall"}
    strays = {
        (file, name)
        for file, name in imports()
        if name not in known and not file.startswith(OWNERS.get(name, ()))
    }
    assert strays == set()


def test_the_core_imports_nothing_that_tells_time_draws_lots_or_does_io() -> None:
    assert {
        (file, name) for file, name in imports() if file.split("/")[0] in CORE and name in OUTSIDE
    } == set()


def test_every_package_of_the_core_is_under_the_import_contract() -> None:
    (contract,) = (one for one in CONTRACTS if one["name"].startswith("the core "))
    assert set(contract["forbidden_modules"]) == OUTSIDE
    assert set(contract["source_modules"]) == {f"holdall.{name}" for name in CORE & set(PACKAGES)}


def test_every_package_has_its_layer() -> None:
    (contract,) = (one for one in CONTRACTS if one["type"] == "layers")
    placed = set(re.findall(r"[a-z_]+", " ".join(contract["layers"])))
    assert set(PACKAGES) <= placed


def test_the_guardian_imports_of_ours_only_the_model() -> None:
    for path in (SOURCE / "guardian").rglob("*.py"):
        names = re.findall(
            r"^\s*(?:from|import) holdall\.?(\w*)", path.read_text(encoding="utf-8"), re.MULTILINE
        )
        assert set(names) <= {"guardian", "model"}, path


def test_the_page_of_the_architecture_names_every_package() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    drawing = (ROOT / "docs" / "_static" / "packages.svg").read_text(encoding="utf-8")
    assert [name for name in PACKAGES if f"\n`{name}`\n: " not in page] == []
    assert [name for name in PACKAGES if f">{name}<" not in drawing] == []


def test_every_dependency_says_why_it_is_there() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    extras: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
    wanted = [*PROJECT["project"]["dependencies"], *(line for lines in extras.values() for line in lines)]
    names = {re.split(r"[\[<>=~! ]", line)[0] for line in wanted}
    assert {name for name in names if not re.search(rf"\| [^|]*\b{re.escape(name)}\b[^|]* \|", page)} == set()
