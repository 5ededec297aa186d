"""The explorer's folder, and browsers to open its page in."""

from pathlib import Path

import pytest

from benchmarks.speed import browser

ROOT = Path(__file__).parents[2]


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
    if browser.EXECUTABLE is None:
        pytest.skip("no browser: install chromium to open the page in one")
    with browser.Browser(*size, **options) as opened:
        yield opened
