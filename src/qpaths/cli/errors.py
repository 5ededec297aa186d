"""Errors at the command line: one line each, and an exit code that says whose fault it is.

The line has what is wrong, what was given, and what to do. Tracebacks are for `--debug`.
"""

import functools
import importlib.metadata
import sys
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup
from typer.main import get_group

from .interrupts import message

_OF_THE_PAPER = {"data", "demo", "list", "report", "run"}
"""Commands that `qpaths-paper` adds. The names are known here only to say how to install it."""


@functools.cache
def _added() -> dict[str, Any]:
    """Return the commands that other installed packages add, by name."""
    apps = [point.load() for point in importlib.metadata.entry_points(group="qpaths.commands")]
    return {name: command for app in apps for name, command in get_group(app).commands.items()}


class Commands(TyperGroup):
    """Commands whose errors are one line; `--debug`, anywhere on the line, shows the traceback instead.

    The exit code is 2 for what the user can fix, 1 for a fault of the program, 130 after Ctrl-C, and 143 after SIGTERM.
    `qpaths evidence` ends with 0, 3 or 4, the level of its verdict.

    Another package adds its own commands with an entry point `qpaths.commands` that names its Typer application.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, those of other packages last."""
        return [*super().list_commands(ctx), *_added()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by its name, or say which package has it."""
        found = super().get_command(ctx, cmd_name) or _added().get(cmd_name)
        if found is None and cmd_name in _OF_THE_PAPER:
            complain(
                f"`qpaths {cmd_name}` belongs to the package with the experiments of the q-paths paper, which is not "
                f"installed: pip install qpaths-paper, or pip install ./paper in a copy of the sources.",
                code=2,
            )
        return found

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the line; a wrong one is an error on one line."""
        debug = "--debug" in args
        if debug:
            args = ["--debug", *(arg for arg in args if arg != "--debug")]
        if debug or not args:  # without arguments the help is shown, which is an error of usage too
            return super().parse_args(ctx, args)
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            if hasattr(error, "format_message"):
                _complain_of_usage(error)
            raise

    def invoke(self, ctx: Any) -> Any:
        """Run the command; what it raises becomes one line and an exit code."""
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:
            if ctx.params.get("debug"):
                raise
            _complain_of(error)
        except KeyboardInterrupt:
            complain(message(), code=130)


def _complain_of(error: Exception) -> NoReturn:
    """End with the line and the exit code of an error that a command raised."""
    if hasattr(error, "format_message"):
        _complain_of_usage(error)
    if isinstance(error, OSError | ValueError | ArithmeticError | ImportError):
        complain(str(error), code=2)
    complain(f"unexpected {type(error).__name__}: {error} (--debug shows where)", code=1)


def _complain_of_usage(error: Any) -> NoReturn:
    """End with one line for a wrong command, option or value."""
    context = getattr(error, "ctx", None)
    command = "qpaths" if context is None or context.parent is None else f"qpaths {context.info_name}"
    advice = _settings_advice(error, context) or f"`{command} --help` shows what can be given."
    complain(f"{error.format_message().rstrip('.')}; {advice}", code=2)


def _settings_advice(error: Any, context: Any) -> str:
    """Return advice for an unknown option of a command that takes settings: `--base x` is `--set base=x`."""
    option = getattr(error, "option_name", None)
    takes_settings = context is not None and any("--set" in param.opts for param in context.command.params)
    if not option or not takes_settings:
        return ""
    return f"to change a setting of an experiment, give `--set {option.lstrip('-')}=VALUE`."


def complain(words: str, code: int) -> NoReturn:
    """Print some words on one line of standard error, and exit with the code."""
    print("qpaths:", " ".join(words.split()), file=sys.stderr)
    raise typer.Exit(code)
