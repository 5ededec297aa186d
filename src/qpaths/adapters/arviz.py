"""Weighted samples as equally weighted draws for ArviZ, in its versions before and after 1.0."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Float

from .._types import Point, PRNGKey
from ..resampling import resample


def draws_to_arviz(
    samples: Point, log_weights: Float[ArrayLike, " n"], attributes: dict[str, Any], key: PRNGKey | None
) -> Any:
    """One chain with as many draws as there are samples: an `InferenceData`, or a `DataTree` from ArviZ 1.0 on."""
    arviz = _import_arviz()
    key = jax.random.key(0) if key is None else key
    order_key, resample_key = jax.random.split(key)
    drawn = resample("systematic", resample_key, jnp.asarray(log_weights), np.size(log_weights))
    # Systematic resampling puts copies next to each other, which ArviZ would read as a chain that hardly moves.
    indices = np.asarray(jax.random.permutation(order_key, drawn))
    groups = {
        "posterior": {name: np.asarray(leaf)[None, indices] for name, leaf in _named(samples).items()},
        "sample_stats": {"log_weight": np.asarray(log_weights)[None, indices]},
    }
    major = int(arviz.__version__.split(".")[0])
    data = arviz.from_dict(**groups) if major == 0 else arviz.from_dict(groups)
    data.attrs.update(attributes)
    data["posterior"].attrs.update(attributes)
    return data


def _import_arviz() -> Any:
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
