"""Commands for the first ten minutes: init, demo, examples, completion."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from holdall.cli.init_config import config_text, find_units, host_name, told
from holdall.model.errors import BadConfig, BadSpec

app = typer.Typer()


def _example_names(incomplete: str) -> list[tuple[str, str]]:
    from holdall.cli.examples import EXAMPLES

    return [(name, one.about) for name, one in EXAMPLES.items() if name.startswith(incomplete)]


@app.command(epilog="Examples: holdall init && holdall serve · holdall init lab.toml · holdall init --print")
def init(
    config: Annotated[Path, typer.Argument(help="File to write.")] = Path("holdall.toml"),
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
    show: Annotated[bool, typer.Option("--print", help="Print it, and write nothing.")] = False,
) -> None:
    """Write a configuration with what is found here: GPUs, serial devices, cameras, cores."""
    from holdall.node.boot import mark_as_new
    from holdall.node.settings import load_settings

    if show:
        sys.stdout.write(config_text(find_units(), host_name()))
        return
    if config.exists() and not force:
        raise BadConfig(f"{config} exists. Look at it, or replace it: holdall init {config} --force")
    found = find_units()
    try:
        # "x": whoever wrote one in this very moment keeps it.
        with config.open("w" if force else "x", encoding="utf-8") as file:
            file.write(config_text(found, host_name()))
    except OSError as problem:
        raise BadConfig(
            f"{config} can't be written ({problem.strerror}). Choose another place: holdall init FILE"
        ) from problem
    sys.stderr.write(told(found))
    mark_as_new(load_settings(config).state)
    sys.stderr.write(
        f"wrote     {config}\nnext      holdall serve{'' if config.name == 'holdall.toml' else f' {config}'}\n"
    )


@app.command(epilog="Example: holdall demo")
def demo() -> int:
    """A small lab in one process: 3 pools, 6 agents; one more falls silent and its lease runs out before your eyes."""
    from holdall.cli.demo import run_demo

    return run_demo()


@app.command(epilog="Examples: holdall examples · holdall examples pytest > test_bench.py")
def examples(
    name: Annotated[
        str,
        typer.Argument(
            help="pytest, python, mcp, github, jenkins or systemd; without it: a list.",
            autocompletion=_example_names,
        ),
    ] = "",
) -> None:
    """Print a file that works as it is: for pytest, Python, MCP, GitHub, Jenkins or systemd."""
    from holdall.cli.examples import EXAMPLES, example_text

    if not name:
        for known, example in EXAMPLES.items():
            sys.stdout.write(f"{known:<8} {example.file:<16} {example.about}\n")
        sys.stderr.write("next      holdall examples pytest > test_bench.py\n")
        return
    if name not in EXAMPLES:
        raise BadSpec(f"no example {name!r}; there is one for {', '.join(EXAMPLES)}")
    sys.stdout.write(example_text(name))
    if sys.stdout.isatty():
        sys.stderr.write(f"next      {EXAMPLES[name].then}\n")


@app.command(epilog="Examples: holdall completion bash > ~/.local/share/bash-completion/completions/holdall")
def completion(shell: Annotated[str, typer.Argument(help="bash, zsh or fish.")] = "bash") -> None:
    """Print the completion script of a shell; it completes commands, options and live pool names."""
    from holdall.cli.completion import SHELLS, script

    if shell not in SHELLS:
        raise BadSpec(f"no completion for {shell!r}; there is one for {', '.join(SHELLS)}")
    sys.stdout.write(script(shell))
