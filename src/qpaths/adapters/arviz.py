"""Weighted samples as equally weighted draws for ArviZ, in its versions before and after 1.0."""

from typing import Any

import jax
import numpy as np

from .._types import Point, PRNGKey, Vector
from ..arrays import stream_of, to_host
from ..resampling import resample


def draws_to_arviz(samples: Point, log_weights: Vector, attributes: dict[str, Any], key: PRNGKey | None) -> Any:
    """One chain with as many draws as there are samples: an `InferenceData`, or a `DataTree` from ArviZ 1.0 on.

    The samples are resampled by weight and shuffled, so that every draw counts alike and the order means nothing.
    """
    arviz = _import_arviz()
    order, draw = stream_of(jax.random.key(0) if key is None else key, host=True).split(2)
    log_weights = to_host(log_weights)
    drawn = resample("systematic", draw, log_weights, log_weights.size)
    # Systematic resampling puts copies next to each other, which ArviZ would read as a chain that hardly moves.
    indices = order.generator.permutation(drawn)
    groups = {
        "posterior": {name: np.asarray(leaf)[None, indices] for name, leaf in _named(samples).items()},
        "sample_stats": {"log_weight": log_weights[None, indices]},
    }
    major = int(arviz.__version__.split(".")[0])
    data = arviz.from_dict(**groups) if major == 0 else arviz.from_dict(groups)
    data.attrs.update(attributes)
    data["posterior"].attrs.update(attributes)
    return data


def _import_arviz() -> Any:
    """ArviZ, or an error that says how to install it."""
    try:
        import arviz
    except ImportError as error:
        raise ImportError("`to_arviz` needs ArviZ: pip install 'qpaths[arviz]'.") from error
    return arviz


def _named(samples: Point) -> dict[str, Any]:
    """Arrays by name: the keys of a dictionary, or x; deeper ones by where they stand, joined by points."""
    tree = samples if isinstance(samples, dict) else {"x": samples}
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}
