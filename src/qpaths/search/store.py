"""A recipe as a tree of arrays, for a file from which an interrupted call goes on."""

import dataclasses
from typing import Any

from ..cost import Cost
from ..kernels import AbstractKernel, FrozenKernel
from ..paths import AbstractPath
from ..recipe import Recipe
from ..references.ascents import Mode
from ..references.components import Component, Wells
from ..references.composed import AnyMap, ComposedMap
from ..references.drivers import Modulation
from ..references.maps import TriangularMap
from ..references.pulled import PulledMap
from ..references.reference import Reference
from ..remarks import Remark
from ..rows import Layout
from ..schedules import FixedSchedule
from .choices import from_base
from .compare import with_delta

_TERMS = ("center", "scale", "order", "means", "log_scales", "squares", "slopes", "rotation")
_WELLS = ("shares", "centers", "scales")
_MODULATION = ("knots", "shifts", "widths", "before", "turns")


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
    dfs = [component.df for component in reference.components]
    return {"share": reference.share, "dfs": dfs, "is_mapped": reference.is_mapped}


def _reference_arrays(reference: Reference) -> dict[str, Any]:
    components = reference.components
    wells = [None if c.wells is None else {name: getattr(c.wells, name) for name in _WELLS} for c in components]
    return {"shares": reference.shares, "maps": [_map_arrays(c.map) for c in components], "wells": wells}


def _map_arrays(fitted: AnyMap) -> dict[str, Any]:
    if isinstance(fitted, ComposedMap):
        return {"inner": _map_arrays(fitted.inner), "outer": _map_arrays(fitted.outer)}
    if isinstance(fitted, PulledMap):
        data = {"places": fitted.places, "precisions": fitted.precisions}
        return {"prior": _map_arrays(fitted.prior), **data}
    modulation = fitted.modulation
    terms = None if modulation is None else {name: getattr(modulation, name) for name in _MODULATION}
    return {**{name: getattr(fitted, name) for name in _TERMS}, "modulation": terms}


def _reference(notes: dict[str, Any], arrays: dict[str, Any], base: Any, layout: Layout) -> Reference:
    maps = [_map(terms) for terms in arrays["maps"]]
    wells = [None if terms is None else Wells(**terms) for terms in arrays["wells"]]
    components = tuple(map(Component, notes["dfs"], maps, wells))
    return Reference(components, arrays["shares"], base, notes["share"], layout, notes["is_mapped"])


def _map(terms: dict[str, Any]) -> Any:
    if "inner" in terms:
        return ComposedMap(_map(terms["inner"]), _map(terms["outer"]))
    if "prior" in terms:
        return PulledMap.of(_map(terms["prior"]), terms["places"], terms["precisions"])
    modulation = terms["modulation"]
    return TriangularMap.of(**(terms | {"modulation": None if modulation is None else Modulation(**modulation)}))
