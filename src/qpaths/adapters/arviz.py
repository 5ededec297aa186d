"""Weighted samples as equally weighted draws for ArviZ, in its versions before and after 1.0."""

from typing import Any

import jax
import numpy as np

from ..core import Point, PRNGKey, log_ess, named_leaves, stream_of, to_host
from ..resampling import resample
from .model import Model

_FEWEST = 4
"""Draws of a chain, the least with which ArviZ computes anything."""


def to_arviz(result: Any, log_likelihood: Any, key: PRNGKey | None) -> Any:
    """The draws of a result, one chain for each island."""
    arviz = _import_arviz()
    log_weights = np.asarray(to_host(result.log_weights), float)
    num_chains = 1 if result.islands is None else len(result.islands["log_evidence"])
    indices = _drawn(log_weights.reshape(num_chains, -1), result.islands is not None, key)

    def chains(leaf: Any) -> np.ndarray:
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
    data = _from_dict(arviz, groups)
    attributes = _attributes(result)
    data.attrs.update(attributes)
    data["posterior"].attrs.update(attributes)
    return data


def _attributes(result: Any) -> dict[str, Any]:
    """What a file of ArviZ should say about where the draws come from."""
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


def _drawn(log_weights: np.ndarray, by_worth: bool, key: PRNGKey | None) -> np.ndarray:
    """Indices of the draws of each chain, resampled by weight and shuffled: the order means nothing.

    `by_worth` makes chains as long as the weighted draws of an island are worth (their effective sample size, the
    smallest of all islands): more would be copies, which ArviZ counts as separate draws.
    """
    num_chains, num = log_weights.shape
    if by_worth:
        worth = float(np.min(np.exp(log_ess(log_weights))))
        length = int(np.clip(worth, _FEWEST, num))
    else:
        length = num
    streams = stream_of(jax.random.key(0) if key is None else key, host=True).split(2 * num_chains)
    rows = []
    for chain, own in enumerate(log_weights):
        order, draw = streams[2 * chain : 2 * chain + 2]
        drawn = resample("systematic", draw, own, length)
        # Systematic resampling puts copies next to each other, which ArviZ would read as a chain that hardly moves.
        rows.append(chain * num + order.generator.permutation(drawn))
    return np.array(rows)


def _log_likelihoods(result: Any, log_likelihood: Any, indices: np.ndarray) -> dict[str, np.ndarray]:
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


def _from_dict(arviz: Any, groups: dict[str, Any]) -> Any:
    """The groups as ArviZ keeps them; version 0 knows only some names, and takes others in a second call."""
    if int(arviz.__version__.split(".")[0]) > 0:
        return arviz.from_dict(groups)
    extra = groups.pop("unconstrained_posterior", None)
    data = arviz.from_dict(**groups)
    if extra is not None:
        data.add_groups({"unconstrained_posterior": arviz.dict_to_dataset(extra)}, warn_on_custom_groups=False)
    return data


def _import_arviz() -> Any:
    """ArviZ, or an error that says how to install it."""
    try:
        import arviz
    except ImportError as error:
        raise ImportError("`to_arviz` needs ArviZ: pip install 'qpaths[arviz]'.") from error
    return arviz
