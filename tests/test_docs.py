"""The documentation names what there is: every public name, no other, all pages, and a map of the present layers."""

import ast
import dataclasses
import doctest
import enum
import functools
import importlib
import inspect
import itertools
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


def test_the_reference_has_no_other_names():
    assert len(set(_entries())) == len(_entries())
    for entry in _entries():
        _object(entry)


def _object(entry):
    module, _, name = entry.rpartition(".")
    owner = importlib.import_module(module)
    # A module, or an error that says which name is gone.
    return getattr(owner, name) if hasattr(owner, name) else importlib.import_module(entry)


PROMISED = (
    *("adapters.from_numpyro", "adapters.from_pymc", "testing.check_path", "testing.check_kernel"),
    *("testing.check_algorithm", "plotting.plot_run", "plotting.plot_islands", "plotting.plot_posterior"),
    "plotting.plot_compare",
)
"""Names that are promised beyond those at the root."""


def test_the_reference_has_every_promised_name():
    assert {f"qpaths.{name}" for name in PROMISED} <= set(_entries())


@functools.cache
def _objects():
    """What the reference documents, by name, without modules."""
    objects = {entry: _object(entry) for entry in _entries()}
    return {entry: value for entry, value in objects.items() if not inspect.ismodule(value)}


def _arguments(value):
    """The arguments that a person gives: none for protocols, exceptions, enumerations and typed dictionaries."""
    if inspect.isclass(value) and (
        issubclass(value, BaseException | enum.Enum | dict) or getattr(value, "_is_protocol", False)
    ):
        return []
    return [name for name in inspect.signature(value).parameters if name != "self"]


def _is_described(name, value):
    """Whether an argument stands in a list of the docstring, or is a field with a string below it."""
    if re.search(rf"^ +\*{{0,2}}{name}: ", inspect.getdoc(value), flags=re.MULTILINE):
        return True
    fields = ast.parse(inspect.getsource(inspect.unwrap(value))).body[0].body
    described = [a for a, b in itertools.pairwise(fields) if isinstance(a, ast.AnnAssign) and isinstance(b, ast.Expr)]
    return name in [field.target.id for field in described]


def test_every_name_of_the_reference_has_an_example():
    without = [name for name, value in _objects().items() if ">>>" not in (inspect.getdoc(value) or "")]
    assert not without, f"{without} have no example in their docstrings"


def test_every_name_of_the_reference_describes_its_arguments():
    missing = {
        name: [argument for argument in _arguments(value) if not _is_described(argument, value)]
        for name, value in _objects().items()
    }
    missing = {name: arguments for name, arguments in missing.items() if arguments}
    assert not missing, f"add these to the `Args` or `Attributes` of their docstrings: {missing}"


def test_every_function_of_the_reference_says_what_it_returns():
    functions = {name: value for name, value in _objects().items() if inspect.isfunction(inspect.unwrap(value))}
    silent = [
        name
        for name, value in functions.items()
        if "Returns:" not in inspect.getdoc(value) and inspect.signature(value).return_annotation not in (None, "None")
    ]
    assert functions
    assert not silent, f"{silent} return something: add `Returns` to their docstrings"


WITH_EXAMPLES = [path for path in sorted(SOURCE.rglob("*.py")) if ">>>" in path.read_text()]


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: path.stem)
def test_examples_in_docstrings(path):
    module = importlib.import_module(".".join(path.relative_to(SOURCE.parent).with_suffix("").parts))
    found = doctest.testmod(module)
    assert found.attempted > 0
    assert found.failed == 0


def test_the_reference_shows_functions_and_not_the_modules_of_the_same_name():
    """The site takes `from .search import tune` for the module `search/tune.py`."""
    for node in ast.walk(ast.parse((SOURCE / "__init__.pyi").read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            folder = SOURCE.joinpath(*node.module.split("."))
            wrong = [alias.name for alias in node.names if (folder / f"{alias.name}.py").exists()]
            assert not wrong, f"write `from .{node.module}.{wrong[0]} import {wrong[0]}` in __init__.pyi"


def _broken_lists(text):
    """Lines that begin an item but are no list on the site: without a blank line before, or indented by 1 to 3."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    item, found = re.compile(r"( *)(?:[-*]|\d+\.) "), []
    for block in re.split(r"\n\s*\n|^#+ .*\n", text, flags=re.MULTILINE):
        lines = block.strip("\n").split("\n")
        starts = [line for line in lines if item.match(line)]
        found += [line for line in starts if 0 < len(item.match(line)[1]) < 4]
        found += starts[:1] if not item.match(lines[0]) and not lines[0].startswith(" ") else []
    return found


def test_lists_are_lists_on_the_site():
    assert _broken_lists("Two things:\n- first\n- second") == ["- first"]
    assert _broken_lists("1. first\n   - nested") == ["   - nested"]
    assert not _broken_lists("## Heading\n1. first\n   goes on\n\n    - nested\n2. second\n\nText\nof two lines")
    for page in (ROOT / "docs").rglob("*.md"):
        assert not _broken_lists(page.read_text()), f"{page.name}: give lists a blank line before, and indent by four"


def test_every_page_is_in_the_navigation():
    pages = set(re.findall(r"([\w/]+\.md)\s*$", (ROOT / "mkdocs.yml").read_text(), flags=re.MULTILINE))
    assert pages == {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}


def test_links_between_pages_lead_somewhere():
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            assert "://" in link or (page.parent / link).exists(), f"{page.name} links to {link}, which is not there"


def test_the_files_that_contributing_names_are_there_and_hold_what_it_says():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = re.findall(r"`([\w/]+\.(?:py|js|css|json))`", text)
    assert len(named) > 20
    files = {name: [path for path in SOURCE.rglob("*.*") if path.as_posix().endswith("/" + name)] for name in named}
    for name in named:
        elsewhere = any((ROOT / folder).rglob(name) for folder in ("docs", "tests", "benchmarks", "paper"))
        assert files[name] or elsewhere, f"CONTRIBUTING.md names {name}, which is not there"
    holds = re.findall(r"`([\w/]+\.py)`[^`.]*\(`(\w+)`\)", text)
    holds += [(file, name) for name, file in re.findall(r"`(\w+)`\s+\(`([\w/]+\.py)`\)", text)]
    assert {"probe", "Verdict"} <= {name for _, name in holds}
    for file, name in holds:
        found = any(re.search(rf"^(def|class) {name}\b", path.read_text(), re.MULTILINE) for path in files[file])
        assert found, f"CONTRIBUTING.md says that {file} holds {name}"


def test_the_version_is_the_same_everywhere():
    version = re.search(r'__version__ = "(.*)"', (SOURCE / "__init__.py").read_text())[1]
    paper = (ROOT / "paper" / "src" / "qpaths_paper" / "__init__.py").read_text()
    assert f'__version__ = "{version}"' in paper
    assert f"version: {version}" in (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"^## \[(\d.*?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0] == version


def test_the_map_is_current():
    draw = runpy.run_path(str(ROOT / "tools" / "make_map.py"))
    picture = (ROOT / "docs" / "pictures" / "layers.svg").read_text()
    assert picture == draw["draw"](draw["layers"]()), "the layers have changed: run `python tools/make_map.py`"


def test_the_map_notices_a_new_room():
    draw = runpy.run_path(str(ROOT / "tools" / "make_map.py"))
    with pytest.raises(KeyError, match="attic"):
        draw["draw"]([*draw["layers"](), ["attic"]])


def test_the_atlas_is_current():
    """Its numbers come from the stored rows, and another row changes the page."""
    make = runpy.run_path(str(ROOT / "tools" / "make_atlas.py"))
    rows = make["load"](make["FOLDER"]).rows
    assert make["page"](rows) == make["PAGE"].read_text(), "rows or words changed: run `python tools/make_atlas.py`"
    wrong = dataclasses.replace(rows[0], values={**rows[0].values, "truth": rows[0]["truth"] + 1.0})
    assert make["page"]([wrong, *rows[1:]]) != make["PAGE"].read_text()
