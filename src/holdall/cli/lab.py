"""`holdall lab …`: the protocols under the glass: explore, simulate, replay, show."""

from pathlib import Path
from typing import Annotated

import typer

from holdall.cli.options import Json

app = typer.Typer(
    no_args_is_help=True, help="The protocols under the glass: explore, simulate, replay, show."
)
