"""Posterior draws of other packages as arrays by name, chains first."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from ..core import Point


def read_draws(draws: Any, variables: dict[str, tuple[int, ...]] | None) -> Point:
    """Arrays with the axes (chain, draw) in front, from whatever holds the draws.

    Args:
        draws: InferenceData, DataTree or a dataset of ArviZ, a NumPyro `MCMC`, arrays by name, or one array.
        variables: The names and shapes that a model needs, or None where a plain log density does not say.

    Arrays by name have the shape (draws, ...) or, for a model with known shapes, also (chains, draws, ...). A single
    array has the shape (draws,), (draws, dimension) or (chains, draws, dimension).
    """
    found = _from_package(draws)
    if found is None:
        if isinstance(draws, Mapping):
            found = {name: _with_chains(name, leaf, variables) for name, leaf in draws.items()}
        elif variables is not None:
            raise TypeError(
                f"`draws` must have the variables {', '.join(variables)} by name, got {type(draws).__name__}: give "
                f"InferenceData, a NumPyro `MCMC`, or a dictionary of arrays."
            )
        else:
            found = jax.tree.map(_plain, draws)
    if variables is not None:
        found = _chosen(found, variables)
    _check(found)
    return found


def _from_package(draws: Any) -> dict[str, np.ndarray] | None:
    """Draws of ArviZ, PyMC or NumPyro, None where it is something else."""
    if hasattr(draws, "get_samples"):
        return {name: np.asarray(leaf) for name, leaf in draws.get_samples(group_by_chain=True).items()}
    data = draws
    if hasattr(draws, "groups") or hasattr(draws, "children"):
        try:
            data = draws["posterior"]
        except KeyError as error:
            raise ValueError("`draws` has no group `posterior`: give the draws of the posterior.") from error
    if not hasattr(data, "data_vars"):
        return None
    return {str(name): data[name].transpose("chain", "draw", ...).values for name in data.data_vars}


def _with_chains(name: str, leaf: Any, variables: dict[str, tuple[int, ...]] | None) -> np.ndarray:
    array = np.asarray(leaf)
    shape = None if variables is None else variables.get(name)
    return array if shape is not None and array.ndim == len(shape) + 2 else array[None]


def _plain(leaf: Any) -> np.ndarray:
    array = np.asarray(leaf)
    if array.ndim not in (1, 2, 3):
        raise ValueError(
            f"`draws` must have the shape (draws, dimension) or (chains, draws, dimension), got {array.shape}."
        )
    return array if array.ndim == 3 else array[None]


def _chosen(found: Any, variables: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """The variables of a model, checked to have its shapes."""
    missing = [name for name in variables if name not in found]
    if missing:
        raise ValueError(
            f"`draws` has no variable `{missing[0]}`, only {', '.join(found)}: the model has {', '.join(variables)}."
        )
    for name, shape in variables.items():
        if found[name].shape[2:] != shape or found[name].ndim < 2:
            raise ValueError(
                f"the draws of `{name}` must have the shape (draws, {', '.join(map(str, shape))}), perhaps with chains "
                f"in front, got {found[name].shape}."
            )
    return {name: found[name] for name in variables}


def _check(found: Any) -> None:
    """Raise where draws are not numbers, or have different numbers of draws."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(found)
    if len({leaf.shape[:2] for _, leaf in leaves}) != 1:
        shapes = ", ".join(str(leaf.shape) for _, leaf in leaves)
        raise ValueError(f"all variables of `draws` must have the same chains and draws, got the shapes {shapes}.")
    for path, leaf in leaves:
        if not np.isfinite(leaf).all():
            name = jax.tree_util.keystr(path, simple=True, separator=".") or "draws"
            where = np.argwhere(~np.isfinite(leaf))[0]
            raise ValueError(
                f"`{name}` is not a finite number in draw {int(where[1])} of chain {int(where[0])}: leave such draws "
                f"out, and find out where they come from."
            )
