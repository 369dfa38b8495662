"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

Force = Annotated[bool, typer.Option("--force", help="Replace what is there; else a file that is there stays.")]


def new_picture(path: Path, force: bool) -> Path:
    """Where a picture may go, found out before there is one."""
    from beno.evaluation.plotting import require_picture_place
    from beno.support.files import require_new_file

    require_picture_place(path)
    return require_new_file(path, force)
