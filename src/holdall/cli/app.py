"""All commands in one application."""

from importlib.metadata import version as installed_version
from typing import Annotated

import typer

from holdall.cli import holding, lab, looking, newcomer, run, serving

app = typer.Typer(
    name="holdall",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="All the resources a job needs, or none: leases with fencing numbers, waiting that is bounded and explained.",
)
run.register(app)
for part in (holding, looking, serving, newcomer):
    app.registered_commands += part.app.registered_commands
app.add_typer(lab.app, name="lab")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"holdall {installed_version('holdall')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    del version
