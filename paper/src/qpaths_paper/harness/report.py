"""The report: stored rows in, one HTML page out. Nothing is computed again."""

from pathlib import Path

from qpaths.io import replacing

from .errors import UserError
from .folders import Unreadable, load_all
from .page import render


def write_report(folder: Path, page: Path) -> list[Unreadable]:
    """Write the page of all experiments in a folder.

    An existing page is replaced when the new one is complete. Raises `UserError` if the folder holds no runs, or if the
    page cannot be written.

    Returns the folders that could not be shown. The page says why.
    """
    if page.is_dir():
        raise UserError(f"{page} is a folder: give a file for the page, such as {page / 'report.html'}.")
    stored = load_all(folder)
    failed: list[Unreadable] = []
    content = render(stored, failed)
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        with replacing(page) as temporary:
            temporary.write_text(content, encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"{page} cannot be written ({error.strerror}): make room, or give another file with --out."
        ) from error
    return [*(one for one in stored if isinstance(one, Unreadable)), *failed]
