"""Commands for the first ten minutes: init, demo, completion."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from holdall.cli.init_config import config_text, find_units, host_name
from holdall.model.errors import BadConfig, BadSpec

app = typer.Typer()


@app.command(epilog="Examples: holdall init && holdall serve · holdall init lab.toml")
def init(
    config: Annotated[Path, typer.Argument(help="File to write.")] = Path("holdall.toml"),
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
) -> None:
    """Write a configuration with what is found here: GPUs, serial devices, cameras, cores."""
    from holdall.node.boot import mark_as_new
    from holdall.node.settings import load_settings

    if config.exists() and not force:
        raise BadConfig(f"{config} exists. Look at it, or replace it: holdall init {config} --force")
    found = find_units()
    try:
        config.write_text(config_text(found, host_name()), encoding="utf-8")
    except OSError as problem:
        raise BadConfig(
            f"{config} can't be written ({problem.strerror}). Choose another place: holdall init FILE"
        ) from problem
    for kind in found:
        sys.stderr.write(f"found     {kind.pool}: {len(kind.units)} ({kind.seen})\n")
    mark_as_new(load_settings(config).state)
    sys.stderr.write(
        f"wrote     {config}\nnext      holdall serve{'' if config.name == 'holdall.toml' else f' {config}'}\n"
    )


@app.command(epilog="Example: holdall demo")
def demo() -> int:
    """A small lab in one process: 3 pools, 6 agents; one more falls silent and its lease runs out before your eyes."""
    from holdall.cli.demo import run_demo

    return run_demo()


@app.command(epilog="Examples: holdall completion bash > ~/.local/share/bash-completion/completions/holdall")
def completion(shell: Annotated[str, typer.Argument(help="bash, zsh or fish.")] = "bash") -> None:
    """Print the completion script of a shell; it completes commands, options and live pool names."""
    from holdall.cli.completion import SHELLS, script

    if shell not in SHELLS:
        raise BadSpec(f"no completion for {shell!r}; there is one for {', '.join(SHELLS)}")
    sys.stdout.write(script(shell))
