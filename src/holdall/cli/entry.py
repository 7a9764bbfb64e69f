"""Where the `holdall` command begins. Text for people on stderr, data on stdout, one exit status per kind of trouble."""

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from holdall.cli.reader import flush_last, watch_reader

USAGE_STATUS = 64
INTERRUPTED_STATUS = 130


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit with its status (64 usage, 65 never, 69 unreachable, 75 not granted, …)."""
    watch_reader()
    try:
        sys.exit(_status(list(sys.argv[1:] if arguments is None else arguments)))
    finally:
        flush_last()


def _status(arguments: list[str]) -> int:
    from typer.exceptions import Abort, Exit, TyperException

    from holdall.cli.app import app
    from holdall.cli.completion import VARIABLE
    from holdall.cli.needs import join_alternatives
    from holdall.model.errors import HoldallError

    if VARIABLE in os.environ:
        from typer._completion_classes import completion_init

        completion_init()
    try:
        result = app(join_alternatives(arguments), prog_name="holdall", standalone_mode=False)
    except HoldallError as problem:
        sys.stderr.write(f"holdall: {problem.text}\n")
        return problem.exit_status
    except Exit as ended:
        return ended.exit_code
    except TyperException as problem:
        context = getattr(problem, "ctx", None)
        command = context.command_path if context is not None else "holdall"
        # Without a command the help has been shown already, and there is no message.
        if message := problem.format_message():
            sys.stderr.write(f"holdall: {message}\nSee: {command} --help\n")
        return USAGE_STATUS
    except (KeyboardInterrupt, Abort):
        return INTERRUPTED_STATUS
    return result if isinstance(result, int) else 0
