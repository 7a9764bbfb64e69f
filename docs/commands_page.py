"""Writes the reference of all commands from the typer application, so that it can't differ from the code."""

import re
from collections.abc import Iterator
from pathlib import Path

from typer.core import TyperArgument, TyperGroup, TyperOption
from typer.main import get_group

from holdall.cli.app import app

HEAD = """# All commands

Made from the code when this page was built. `holdall COMMAND --help` prints the same.
Data goes to standard output, text for people to standard error; what the exit statuses mean stands in
[exit statuses](statuses.md).
"""


def command_names(group: TyperGroup | None = None, prefix: str = "holdall") -> Iterator[str]:
    """Every command by its full name (`holdall lab explore`), groups included, in the order of `--help`."""
    for name, command in (group or get_group(app)).commands.items():
        full = f"{prefix} {name}"
        yield full
        if isinstance(command, TyperGroup):
            yield from command_names(command, full)


def write_commands_page(path: Path) -> None:
    """Write the whole reference as Markdown."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEAD + "".join(_sections(get_group(app), "holdall", "##")), encoding="utf-8")


def _sections(group: TyperGroup, prefix: str, level: str) -> Iterator[str]:
    for name, command in group.commands.items():
        if command.hidden:
            continue
        full = f"{prefix} {name}"
        yield f"\n{level} `{full}`\n\n{_paragraphs(command.help or '')}\n"
        if isinstance(command, TyperGroup):
            yield from _sections(command, full, level + "#")
            continue
        arguments = [one for one in command.params if isinstance(one, TyperArgument)]
        options = [one for one in command.params if isinstance(one, TyperOption) and not one.hidden]
        usage = [full, *(_placeholder(one) for one in arguments), *(["[OPTIONS]"] if options else [])]
        yield f"\n```text\n{' '.join(usage)}\n```\n"
        rows = [(_placeholder(one), one.help or "") for one in arguments if one.help]
        rows += [(_spelling(one), one.help or "") for one in options]
        if command.epilog:
            yield "\n```console\n" + "".join(f"$ {one}\n" for one in _examples(command.epilog)) + "```\n"
        if rows:
            yield "\n| argument or option | meaning |\n|---|---|\n"
            yield from (f"| `{_cell(what)}` | {_cell(meaning)} |\n" for what, meaning in rows)


def _examples(epilog: str) -> list[str]:
    """`Examples:`, `A`, `B (where)`, a line each, as the lines `A` and `B  # where`."""
    return [re.sub(r" \((.*)\)$", r"  # \1", one.strip()) for one in epilog.splitlines()[1:]]


def _placeholder(argument: TyperArgument) -> str:
    shown = argument.metavar or (argument.name or "").upper()
    shown += "…" if argument.nargs == -1 else ""
    return shown if argument.required else f"[{shown}]"


def _spelling(option: TyperOption) -> str:
    spelled = ", ".join([*option.opts, *option.secondary_opts])
    if option.is_flag:
        return spelled
    kind = option.type.name.upper()
    return f"{spelled} {option.metavar or ('TEXT' if kind == 'STR' else kind)}"


def _paragraphs(help_text: str) -> str:
    return help_text.replace("\f", "").strip()


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
