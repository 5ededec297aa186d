"""A kernel with the parameters that were fitted on the way of a run."""

from typing import Any

import jax

from ..core import namespace
from ..kernels import FrozenKernel
from .loop import Annealing, Recorded
from .population import State


def pilot_params(state: State, stats: Recorded) -> Recorded:
    """A recorder that also keeps the kernel's parameters, one set for all particles."""
    return {**stats, "params": one_group(state.params)}


def one_group(params: Any) -> Any:
    """Parameters for all particles from those of the groups."""
    return jax.tree.map(lambda leaf: namespace(leaf).mean(leaf, axis=0), params)


def frozen(annealing: Annealing, start: State, stats: Recorded) -> tuple[FrozenKernel, Recorded]:
    """The kernel at what was fitted at each beta of a run that `pilot_params` has recorded; and the other records."""
    stats = dict(stats)
    first, rest = one_group(start.params), stats.pop("params")
    xp = namespace(rest)
    params = jax.tree.map(lambda one, many: xp.concatenate([xp.asarray(one)[None], many]), first, rest)
    betas = xp.concatenate([xp.zeros(1, stats["beta"].dtype), stats["beta"]])
    return FrozenKernel(annealing.kernel, betas, params), stats
