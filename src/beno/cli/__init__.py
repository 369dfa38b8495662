"""The command line. Each group of commands is a file; what they need is imported when they run."""

import signal
import sys
from typing import Annotated

import typer

from beno.cli.data import app as data_app
from beno.cli.reproduce import reproduce
from beno.cli.solve import solve
from beno.cli.train import evaluate, plot, train
from beno.support.errors import BenoError
from beno.support.interruptions import ignore
from beno.version import __version__

INTERRUPTED = 130  # what a shell reports for a program stopped by Ctrl-C

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
app.add_typer(data_app, name="data")
for command in (solve, train, evaluate, plot, reproduce):
    app.command()(command)


def _print_version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"beno {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def beno(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    """Learned operators for elliptic PDEs on domains of complex shape."""


def main() -> None:
    """Run a command; a mistake of the user's is one line on stderr and exit status 2."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that worker processes are ended too
    try:
        status = app(standalone_mode=False)
    except BenoError as error:
        status = _complain(str(error))
    except (KeyboardInterrupt, typer.Abort):
        ignore()  # at once: another one may be on its way
        status = INTERRUPTED
    except OSError as error:
        if error.filename is None:
            raise
        status = _complain(f"{error.filename}: {error.strerror}")
    except Exception as error:
        # Typer's usage errors come from click or from its own copy of it, by version: known by what both can do.
        format_message = getattr(error, "format_message", None)
        if format_message is None:
            raise
        message = format_message()
        status = _complain(message) if not message.startswith("Usage:") else _show_help(message)
    if status == INTERRUPTED:
        ignore()  # Typer turns an interruption into this status by itself
        typer.echo("stopped; what is finished is kept", err=True)
    sys.exit(status)


def _show_help(text: str) -> int:
    typer.echo(text)
    return 2


def _complain(message: str) -> int:
    typer.echo("beno: " + " ".join(message.split()), err=True)
    return 2
