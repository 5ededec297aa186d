"""Posterior draws from and for other packages: chains of any sampler as arrays by name, and results for ArviZ."""

import importlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import jax
import numpy as np

from ..core import HostStream, Point, PRNGKey, log_ess, named_leaves, softmax, stream_of, to_host
from ..resampling import resample
from .distributions import Values
from .model import Model

Foreign: TypeAlias = Any
"""Another package, or draws as it keeps them."""
Finished: TypeAlias = Any
"""A `qpaths.Result`, which a higher room defines."""
Pointwise: TypeAlias = Any
"""The log likelihood of each observation: a model, or a function of a sample."""

_FEWEST, _MOST_CHAINS = 4, 4
"""Draws of a chain, the least with which ArviZ computes anything, and chains of a result."""


def read_draws(draws: Foreign, variables: dict[str, tuple[int, ...]] | None) -> Point:
    """Arrays with the axes (chain, draw) in front, from whatever holds the draws.

    Args:
        draws: InferenceData, DataTree or a dataset of ArviZ, a NumPyro `MCMC`, a fit of CmdStanPy or stanli, CSV files
            of CmdStan, arrays by name, or one array.
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


def _from_package(draws: Foreign) -> dict[str, np.ndarray] | None:
    """Draws of ArviZ, PyMC or NumPyro, None where it is something else."""
    if hasattr(draws, "get_samples"):
        return {name: np.asarray(leaf) for name, leaf in draws.get_samples(group_by_chain=True).items()}
    if hasattr(draws, "variables") and hasattr(draws, "n_chains"):  # stanli
        return {name: np.asarray(draws.draws(name)) for name in draws.variables}
    if hasattr(draws, "stan_variables") and hasattr(draws, "chains"):  # CmdStanPy: one chain after the other
        return {
            name: np.asarray(leaf).reshape(draws.chains, -1, *np.shape(leaf)[1:])
            for name, leaf in draws.stan_variables().items()
        }
    files = [draws] if isinstance(draws, str | os.PathLike) else draws
    if isinstance(files, list | tuple) and files and all(str(file).endswith(".csv") for file in files):
        return _from_csv([Path(file) for file in files])
    data = draws
    if hasattr(draws, "groups") or hasattr(draws, "children"):
        try:
            data = draws["posterior"]
        except KeyError as error:
            raise ValueError("`draws` has no group `posterior`: give the draws of the posterior.") from error
    if not hasattr(data, "data_vars"):
        return None
    return {str(name): data[name].transpose("chain", "draw", ...).values for name in data.data_vars}


def _from_csv(files: list[Path]) -> dict[str, np.ndarray]:
    """Return the draws in CSV files of CmdStan, one for each chain."""
    chains, names = [], []
    for file in files:
        lines = [line for line in file.read_text().splitlines() if line and not line.startswith("#")]
        names = lines[0].split(",")
        chains.append(np.array([line.split(",") for line in lines[1:]], float))
    places = grouped(names)
    return {name: np.stack([chain[:, index] for chain in chains]) for name, index in places.items()}


def grouped(names: Sequence[str]) -> dict[str, np.ndarray]:
    """Return the places of each variable's numbers, in its shape, from names of Stan such as `theta.2.1`."""
    places: dict[str, dict[tuple[int, ...], int]] = {}
    for place, name in enumerate(names):
        parts = name.split(".")
        index = tuple(int(part) - 1 for part in parts[1:] if part.isdigit())
        whole = name if len(index) < len(parts) - 1 else parts[0]  # complex numbers and tuples stay single
        places.setdefault(whole, {})[index if whole == parts[0] else ()] = place
    found = {}
    for name, own in places.items():
        array = np.empty(tuple(np.max(list(own), axis=0) + 1) if next(iter(own)) else (), int)
        for index, place in own.items():
            array[index] = place
        found[name] = array
    return found


def _with_chains(name: str, leaf: Values, variables: dict[str, tuple[int, ...]] | None) -> np.ndarray:
    array = np.asarray(leaf)
    shape = None if variables is None else variables.get(name)
    return array if shape is not None and array.ndim == len(shape) + 2 else array[None]


def _plain(leaf: Values) -> np.ndarray:
    array = np.asarray(leaf)
    if array.ndim not in (1, 2, 3):
        raise ValueError(
            f"`draws` must have the shape (draws, dimension) or (chains, draws, dimension), got {array.shape}."
        )
    return array if array.ndim == 3 else array[None]


def _chosen(found: Point, variables: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
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


def _check(found: Point) -> None:
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


def to_arviz(result: Finished, log_likelihood: Pointwise | None, key: PRNGKey | None) -> Foreign:
    """Return the draws of a result as a few chains, each from other islands."""
    arviz = _import_arviz()
    log_weights = np.asarray(to_host(result.log_weights), float)
    num_islands = 1 if result.islands is None else len(result.islands["log_evidence"])
    islands = np.arange(log_weights.size).reshape(num_islands, -1)
    chains_of = [islands[i::_MOST_CHAINS].ravel() for i in range(min(_MOST_CHAINS, num_islands))]
    indices = _drawn(log_weights, chains_of, result.islands is not None, key)

    def chains(leaf: Values) -> np.ndarray:
        return np.asarray(leaf)[indices]

    groups = {
        "posterior": {name: chains(leaf) for name, leaf in named_leaves(result.samples).items()},
        "sample_stats": {"log_weight": log_weights[indices]},
    }
    if result.unconstrained is not None:
        groups["unconstrained_posterior"] = {
            name: chains(leaf) for name, leaf in named_leaves(result.unconstrained).items()
        }
    if log_likelihood is not None:
        groups["log_likelihood"] = _log_likelihoods(result, log_likelihood, indices)
    model = getattr(result.origin.value, "model", None)
    axes = (
        {}
        if model is None or not model.dims
        else {
            "dims": {name: list(own) for name, own in model.dims.items()},
            "coords": dict(model.coords),
        }
    )
    data = _from_dict(arviz, groups, axes)
    attributes = _attributes(result)
    data.attrs.update(attributes)
    data["posterior"].attrs.update(attributes)
    return data


def _attributes(result: Finished) -> dict[str, Any]:
    """Return what a file of ArviZ should say about where the draws come from."""
    attributes = {
        "log_evidence": float(result.log_evidence),
        "log_evidence_se": float(result.log_evidence_se),
        "algorithm": result.algorithm,
        "num_evaluations": result.num_evaluations.total,
        "num_distributions": len(result.betas),
    }
    if result.verdict is not None:
        attributes |= {"verdict": str(result.verdict.level), "verdict_text": str(result.verdict)}
    return attributes


def _drawn(log_weights: np.ndarray, chains: list[np.ndarray], by_worth: bool, key: PRNGKey | None) -> np.ndarray:
    """Return indices of the draws of each chain, resampled by weight from those that belong to it.

    `by_worth` makes chains as long as their weighted draws are worth (the effective sample size, the smallest of all
    chains): more would be copies, which ArviZ counts as separate draws.
    """
    num = min(map(len, chains))
    worth = min(float(np.exp(log_ess(log_weights[own]))) for own in chains) if by_worth else num
    streams = stream_of(jax.random.key(0) if key is None else key, host=True).split(2 * len(chains))
    length = int(np.clip(worth, min(_FEWEST, num), num))
    return np.array(
        [own[_equal(log_weights[own], length, *streams[2 * i : 2 * i + 2])] for i, own in enumerate(chains)]
    )


def _equal(log_weights: np.ndarray, num: int, order: HostStream, draw: HostStream) -> np.ndarray:
    """Return indices of equally weighted draws. They are shuffled: systematic resampling puts copies side by side."""
    return order.generator.permutation(resample("systematic", draw, log_weights, num))


def resampled(result: Finished, num: int, key: PRNGKey | None) -> Point:
    """Return equally weighted draws of a result."""
    if isinstance(num, bool) or not isinstance(num, int | np.integer) or num < 1:
        raise ValueError(f"`num` must be a positive integer, got {num!r}.")
    log_weights = np.asarray(to_host(result.log_weights), float)
    streams = stream_of(jax.random.key(0) if key is None else key, host=True).split(2)
    return _take(result.samples, _equal(log_weights, int(num), *streams))


def columns_of(result: Finished) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return one column for each number of the draws, by names such as `theta[2]`, and weights that sum to 1."""
    columns = {}
    for name, leaf in named_leaves(result.samples).items():
        array = np.asarray(leaf)
        for index in np.ndindex(*array.shape[1:]):
            columns[name + "".join(f"[{i}]" for i in index)] = array[(slice(None), *index)]
    log_weights = np.asarray(to_host(result.log_weights), float)
    return columns, np.asarray(softmax(log_weights))


def to_table(result: Finished, package: str) -> Foreign:
    """Return the weighted draws of a result for pandas, GetDist or anesthetic."""
    try:
        module = importlib.import_module(package)
    except ImportError as error:
        raise ImportError(f"this needs {package}: pip install {package}.") from error
    columns, weights = columns_of(result)
    if package == "pandas":
        table = module.DataFrame(columns | {"weight": weights})
        table.attrs.update(_attributes(result))
        return table
    # Draws without weight say nothing, and some packages take logarithms of the weights.
    kept = weights > 0
    rows, names = np.stack([column[kept] for column in columns.values()], axis=1), list(columns)
    if package == "getdist":
        return module.MCSamples(samples=rows, weights=weights[kept], names=names, labels=names)
    return module.MCMCSamples(data=rows, weights=weights[kept], columns=names)


def _log_likelihoods(result: Finished, log_likelihood: Pointwise, indices: np.ndarray) -> dict[str, np.ndarray]:
    """The log likelihood of each observation at the draws of each chain."""
    flat = indices.ravel()
    if isinstance(log_likelihood, Model):
        if log_likelihood.pointwise is None or result.unconstrained is None:
            raise ValueError(
                "this model has one log likelihood for all observations: give `to_arviz(log_likelihood=...)` a "
                "function of a sample that returns one number for each observation."
            )
        found = log_likelihood.log_likelihoods(_take(result.unconstrained, flat))
    elif callable(log_likelihood):
        found = jax.jit(jax.vmap(log_likelihood))(_take(result.samples, flat))
    else:
        raise TypeError(f"`log_likelihood` must be a model or a function of one sample, got {log_likelihood!r}.")
    leaves: dict[str, Any] = found if isinstance(found, dict) else {"y": found}
    return {name: np.asarray(leaf).reshape(*indices.shape, *np.shape(leaf)[1:]) for name, leaf in leaves.items()}


def _take(tree: Point, rows: np.ndarray) -> Point:
    return jax.tree.map(lambda leaf: np.asarray(leaf)[rows], tree)


def _from_dict(arviz: Foreign, groups: dict[str, Any], axes: dict[str, Any]) -> Foreign:
    """The groups as ArviZ keeps them; version 0 knows only some names, and takes others in a second call."""
    if int(arviz.__version__.split(".")[0]) > 0:
        return arviz.from_dict(groups, **axes)
    extra = groups.pop("unconstrained_posterior", None)
    data = arviz.from_dict(**groups, **axes)
    if extra is not None:
        data.add_groups({"unconstrained_posterior": arviz.dict_to_dataset(extra)}, warn_on_custom_groups=False)
    return data


def _import_arviz() -> Foreign:
    """ArviZ, or an error that says how to install it."""
    try:
        import arviz
    except ImportError as error:
        raise ImportError("`to_arviz` needs ArviZ: pip install 'qpaths[arviz]'.") from error
    return arviz
