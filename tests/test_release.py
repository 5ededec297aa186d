"""What a release needs: a recipe, metadata and notes that agree with the packages, and a workflow by tag."""

import json
import re
import runpy
import tomllib
from pathlib import Path

import pytest
import yaml

import qpaths

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RECIPE = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text())
CONDA = {"matplotlib": "matplotlib-base", "pymc": "pymc-base"}
"""Packages that have another name in conda-forge."""


def _split(requirement):
    """A requirement of pip or of conda as its name and its lower bound."""
    name, bound = re.match(r"([\w-]+)(?:\[[\w,]*\])?\s*(.*)", requirement).groups()
    return name.replace("_", "-"), bound


def test_the_recipe_requires_what_the_package_requires():
    run = dict(map(_split, RECIPE["requirements"]["run"]))
    assert run.pop("python") == PROJECT["requires-python"]
    assert run == dict(map(_split, PROJECT["dependencies"]))
    extras = PROJECT["optional-dependencies"]
    known = {CONDA.get(name, name): bound for extra in extras.values() for name, bound in map(_split, extra)}
    for name, bound in map(_split, RECIPE["requirements"]["run_constraints"]):
        assert known[name] == bound, f"conda/recipe.yaml has {name} {bound}, pyproject.toml {known[name]}"


def test_the_recipe_is_of_this_version_and_has_its_command():
    assert RECIPE["context"]["version"] == qpaths.__version__
    (command,) = PROJECT["scripts"].items()
    assert RECIPE["build"]["python"]["entry_points"] == [" = ".join(command)]
    assert RECIPE["about"]["summary"] == PROJECT["description"]


def test_zenodo_and_the_citation_say_the_same():
    zenodo = json.loads((ROOT / ".zenodo.json").read_text())
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert zenodo["title"] == citation["title"]
    assert zenodo["license"] == citation["license"] == PROJECT["license"]
    assert zenodo["keywords"] == citation["keywords"] == PROJECT["keywords"]
    assert [c["name"] for c in zenodo["creators"]] == [a["name"] for a in citation["authors"]]


def test_a_tag_publishes_what_was_checked():
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    workflow = yaml.safe_load(text)
    assert workflow[True]["push"]["tags"] == ["v*"]  # YAML reads `on` as true
    jobs = workflow["jobs"]
    assert jobs["publish"]["needs"] == "build"
    assert jobs["release"]["needs"] == "publish"
    steps = [step.get("run", "") for step in jobs["build"]["steps"]]
    assert any("make package" in step for step in steps)
    assert any("__version__" in step and "GITHUB_REF_NAME" in step for step in steps)


def test_the_notes_of_a_release_are_its_part_of_the_changelog():
    notes = runpy.run_path(str(ROOT / "tools" / "make_release_notes.py"))["notes"]
    text = "# Changelog\n\n## [0.2.0] - 2026-01-01\n\n- new\n\n## [0.1.0] - 2025-01-01\n\n- first\n"
    assert notes("v0.2.0", text) == "- new"
    assert notes("v0.1.0", text) == "- first"
    with pytest.raises(SystemExit, match="no section"):
        notes("v0.3.0", text)
    assert "qpaths.evidence" in notes("v0.1.0", (ROOT / "CHANGELOG.md").read_text())
