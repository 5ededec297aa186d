"""A recipe as a tree of arrays, for a file from which an interrupted call goes on."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..cost import Cost
from ..kernels import AbstractKernel, FrozenKernel
from ..maps import Bends, Chain, Conditional, Drivers, Marginal, Permute, Pulls, Rotate, Scale, Triangular
from ..paths import AbstractPath
from ..recipe import Recipe
from ..references.ascents import Mode
from ..references.components import Component
from ..references.reference import Reference
from ..remarks import Remark
from ..rows import Layout
from ..schedules import FixedSchedule
from .choices import from_base
from .compare import with_delta

_PARTS = {
    part.__name__: part
    for part in (Component, Bends, Chain, Conditional, Drivers, Marginal, Permute, Pulls, Rotate, Scale, Triangular)
}


def to_tree(recipe: Recipe) -> tuple[dict[str, Any], dict[str, Any]]:
    """What of a recipe JSON can hold, and its arrays; the user's densities are in neither."""
    reference = recipe.path.base if isinstance(recipe.path.base, Reference) else None
    assert isinstance(recipe.kernel, FrozenKernel)
    notes = {
        "notes": [note.as_dict() for note in recipe.notes],
        "findings": [finding.as_dict() for finding in recipe.findings],
        "barrier": recipe.barrier,
        "num_evaluations": dataclasses.asdict(recipe.num_evaluations),
        "reference": None if reference is None else _reference_notes(reference),
    }
    arrays = {
        "betas": recipe.betas,
        "kernel": recipe.kernel.arrays,
        "delta": getattr(recipe.path, "delta", None),
        "modes": [mode._asdict() for mode in recipe.modes],
        "reference": None if reference is None else _reference_arrays(reference),
    }
    return notes, arrays


def from_tree(
    notes: dict[str, Any], arrays: dict[str, Any], path: AbstractPath[Any], kernel: AbstractKernel[Any], layout: Layout
) -> Recipe:
    """The recipe again, around the same densities and kernel."""
    if notes["reference"] is not None:
        path = from_base(path, _reference(notes["reference"], arrays["reference"], path.base, layout))
    if arrays["delta"] is not None:
        path = with_delta(path, arrays["delta"])
    return Recipe(
        path,
        FixedSchedule(arrays["betas"]),
        FrozenKernel.from_arrays(kernel, arrays["kernel"], layout.dimension),
        notes["barrier"],
        tuple(map(Remark.from_dict, notes["notes"])),
        tuple(map(Remark.from_dict, notes["findings"])),
        Cost(**notes["num_evaluations"]),
        tuple(Mode(one["position"], float(one["value"]), one["precision"]) for one in arrays["modes"]),
    )


def _reference_notes(reference: Reference) -> dict[str, Any]:
    parts = [_taken_apart(component, [])[0] for component in reference.components]
    return {"share": reference.share, "components": parts, "is_mapped": reference.is_mapped}


def _reference_arrays(reference: Reference) -> dict[str, Any]:
    arrays: list[Any] = []
    for component in reference.components:
        arrays += _taken_apart(component, [])[1]
    return {"shares": reference.shares, "parts": arrays}


def _reference(notes: dict[str, Any], arrays: dict[str, Any], base: Any, layout: Layout) -> Reference:
    parts = iter(arrays["parts"])
    components = tuple(_together(node, parts) for node in notes["components"])
    return Reference(components, arrays["shares"], base, notes["share"], layout, notes["is_mapped"])


def _taken_apart(value: Any, arrays: list[Any]) -> tuple[Any, list[Any]]:
    """What of a component JSON can hold, and its arrays in their order."""
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return "array", arrays
    if isinstance(value, tuple):
        return [_taken_apart(one, arrays)[0] for one in value], arrays
    if type(value).__name__ not in _PARTS:
        return value, arrays
    fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return {"class": type(value).__name__, **{k: _taken_apart(v, arrays)[0] for k, v in fields.items()}}, arrays


def _together(node: Any, arrays: Iterator[Any]) -> Any:
    if node == "array":
        return next(arrays)
    if isinstance(node, list):
        return tuple(_together(one, arrays) for one in node)
    if not isinstance(node, dict):
        return node
    return _PARTS[node["class"]](**{k: _together(v, arrays) for k, v in node.items() if k != "class"})
