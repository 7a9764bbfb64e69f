"""All commands in one application."""

from importlib.metadata import version as installed_version
from typing import Annotated

import typer
from typer.models import CommandInfo

from holdall.cli import (
    agreement,
    holding,
    job,
    lab,
    location,
    looking,
    mcp,
    membership,
    newcomer,
    policy,
    proxy,
    run,
    serving,
    token,
    usage,
)

app = typer.Typer(
    name="holdall",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="All the resources a job needs, or none: leases with fencing numbers, waiting that is bounded and explained.",
)
PANELS = {
    "Hold and give back": ("run", "lease", "renew", "release", "cancel", "job"),
    "Look": ("pools", "who", "queue", "why", "show", "log", "watch", "usage"),
    "Negotiate": ("location", "agreement", "proxy"),
    "Keep a node": (
        "serve",
        "join",
        "doctor",
        "drain",
        "clear",
        "kick",
        "forget",
        "token",
        "mcp",
        "nats-config",
    ),
    "Begin": ("init", "demo", "examples", "completion"),
    "Judge and study": ("check", "policy", "lab"),
}
"""How `holdall --help` groups and orders the commands; one that no panel names stands at the end."""


def _name(command: CommandInfo) -> str:
    return command.name or str(getattr(command.callback, "__name__", ""))


def _lay_out(commands: list[CommandInfo]) -> None:
    """The help of these commands: each in its panel, each example on a line that can be copied whole."""
    panel_of = {name: panel for panel, names in PANELS.items() for name in names}
    order = list(panel_of)
    commands.sort(key=lambda one: order.index(_name(one)) if _name(one) in panel_of else len(order))
    for command in commands:
        command.rich_help_panel = panel_of.get(_name(command), command.rich_help_panel)
        if command.epilog:
            head, _, examples = command.epilog.partition(": ")
            command.epilog = "\n".join([f"{head}:", *(f"  {example}" for example in examples.split(" · "))])


run.register(app)
for part in (holding, looking, usage, proxy, agreement, serving, membership, newcomer, mcp):
    app.registered_commands += part.app.registered_commands
_lay_out(app.registered_commands)
_lay_out(lab.app.registered_commands)
_lay_out(policy.app.registered_commands)
_lay_out(location.app.registered_commands)
for one in location.app.registered_commands:
    one.rich_help_panel = None  # `renew` and `release` there are not those of the panels
_lay_out(job.app.registered_commands)
_lay_out(token.app.registered_commands)
app.add_typer(job.app, name="job", rich_help_panel="Hold and give back")
app.add_typer(location.app, name="location", rich_help_panel="Negotiate")
app.add_typer(token.app, name="token", rich_help_panel="Keep a node")
app.add_typer(policy.app, name="policy", rich_help_panel="Judge and study")
app.add_typer(lab.app, name="lab", rich_help_panel="Judge and study")


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
