"""The explorer's folder, and browsers to open its page in."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DRIVER = runpy.run_path(str(ROOT / "benchmarks" / "browser.py"))


@pytest.fixture(scope="session")
def folder():
    return ROOT / "docs" / "explorer"


@pytest.fixture(scope="module")
def desktop():
    """A wide window with a mouse, shared by the tests of a module."""
    yield from _browser(1280, 900)


@pytest.fixture(scope="module")
def phone():
    """A dark phone."""
    yield from _browser(390, 844, dark=True, touch=True)


def _browser(*size, **options):
    if DRIVER["EXECUTABLE"] is None:
        pytest.skip("no browser: install chromium to open the page in one")
    with DRIVER["Browser"](*size, **options) as browser:
        yield browser
