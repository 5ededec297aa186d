"""The documentation names what there is: every public name, no other, all pages, and a map of the present layers."""

import ast
import dataclasses
import doctest
import functools
import importlib
import inspect
import operator
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "qpaths"
REFERENCE = (ROOT / "docs" / "reference.md").read_text()


def _public():
    """The names that `__init__.pyi` offers, modules included."""
    tree = ast.parse((SOURCE / "__init__.pyi").read_text())
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    return [alias.asname or alias.name for node in imports for alias in node.names]


@functools.cache
def _entries():
    return re.findall(r"^::: (qpaths\.\S+)$", REFERENCE, flags=re.MULTILINE)


def test_the_reference_has_every_public_name():
    modules = re.findall(r"^\| `(qpaths\.\w+)` \|", REFERENCE, flags=re.MULTILINE)
    missing = [name for name in _public() if f"qpaths.{name}" not in {*_entries(), *modules}]
    assert not missing, f"docs/reference.md lacks {missing}: add each to its group"


@pytest.mark.filterwarnings("error::DeprecationWarning")
def test_the_reference_has_no_other_names():
    assert len(set(_entries())) == len(_entries())
    for entry in _entries():
        module, _, name = entry.rpartition(".")
        owner = importlib.import_module(module)
        if not hasattr(owner, name):
            importlib.import_module(entry)  # a module, or an error that says which name is gone


@pytest.mark.parametrize(("module", "names"), [("qpaths", "_MOVED"), ("qpaths.models", "_RENAMED")])
def test_old_names_work_and_are_in_the_changelog(module, names):
    changelog, owner = (ROOT / "CHANGELOG.md").read_text(), importlib.import_module(module)
    for old, new in getattr(owner, names).items():
        with pytest.warns(DeprecationWarning, match=rf"is now `{module}.{new}`"):
            assert getattr(owner, old).__name__ == new.rpartition(".")[2]
        assert f"`{old}`" in changelog or f"`estimators.{old}`" in changelog


PROMISED = (
    *("adapters.from_numpyro", "adapters.from_pymc", "testing.check_path", "testing.check_kernel"),
    *("testing.check_algorithm", "plotting.plot_run", "plotting.plot_islands", "plotting.plot_posterior"),
    "plotting.plot_compare",
)
"""Names that are promised beyond those at the root."""


def test_every_promised_name_has_an_example():
    package = importlib.import_module("qpaths")
    objects = {name: operator.attrgetter(name)(package) for name in (*_public(), *PROMISED)}
    without = [
        name
        for name, value in objects.items()
        if not inspect.ismodule(value) and ">>>" not in (inspect.getdoc(value) or "")
    ]
    assert not without, f"{without} have no example in their docstrings"


WITH_EXAMPLES = [path for path in sorted(SOURCE.rglob("*.py")) if ">>>" in path.read_text()]


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: path.stem)
def test_examples_in_docstrings(path):
    module = importlib.import_module(".".join(path.relative_to(SOURCE.parent).with_suffix("").parts))
    found = doctest.testmod(module)
    assert found.attempted > 0
    assert found.failed == 0


def test_every_page_is_in_the_navigation():
    pages = set(re.findall(r"([\w/]+\.md)\s*$", (ROOT / "mkdocs.yml").read_text(), flags=re.MULTILINE))
    assert pages == {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}


def test_links_between_pages_lead_somewhere():
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            assert "://" in link or (page.parent / link).exists(), f"{page.name} links to {link}, which is not there"


def test_the_map_is_current():
    draw = runpy.run_path(str(ROOT / "docs" / "make_map.py"))
    picture = (ROOT / "docs" / "pictures" / "layers.svg").read_text()
    assert picture == draw["draw"](draw["layers"]()), "the layers have changed: run `python docs/make_map.py`"


def test_the_map_notices_a_new_room():
    draw = runpy.run_path(str(ROOT / "docs" / "make_map.py"))
    with pytest.raises(KeyError, match="attic"):
        draw["draw"]([*draw["layers"](), ["attic"]])


def test_the_atlas_is_current():
    """Its numbers come from the stored rows, and another row changes the page."""
    make = runpy.run_path(str(ROOT / "docs" / "make_atlas.py"))
    rows = make["load"](make["FOLDER"]).rows
    assert make["page"](rows) == make["PAGE"].read_text(), "rows or words have changed: run `python docs/make_atlas.py`"
    wrong = dataclasses.replace(rows[0], values={**rows[0].values, "truth": rows[0]["truth"] + 1.0})
    assert make["page"]([wrong, *rows[1:]]) != make["PAGE"].read_text()
