"""Bounds from both sides on simulated data, where exact draws from the posterior are known."""

from typing import Any, NamedTuple

import numpy as np

from ..algorithms import BDMC
from ..core import Cost, Point, Stream
from ..densities import is_numpy
from ..kernels import AbstractKernel
from ..paths import AbstractPath
from ..remarks import Note, Remark
from ..rows import layout_of
from ..schedules import FixedSchedule
from ..search import tune_population
from .endpoints import path_given

_CHAINS, _FEWEST_DISTRIBUTIONS = 64, 17


class Simulated(NamedTuple):
    """The path for data simulated from the prior, and the point they came from: an exact draw of the posterior."""

    path: AbstractPath[Any]
    truth: Point


def simulated_from(path: AbstractPath[Any], likelihood: Any, simulate: Any, stream: Any) -> Simulated:
    """Simulate data; an error where what `simulate` returns does not fit the likelihood."""
    point, data = stream.split(2)
    prior: Any = path.base
    if is_numpy(prior):
        truth = prior.sample(point.generator)
        simulated = path_given(prior, likelihood, simulate(data.generator, truth))
    else:
        truth = path.sample_base(point.as_key())
        simulated = path_given(prior, likelihood, simulate(data.as_key(), truth))
    layout_of(simulated)  # raises before anything that takes long
    return Simulated(simulated, truth)


def certify(
    simulated: Simulated, budget: int, kernel: AbstractKernel[Any], reference: bool, stream: Stream
) -> tuple[Remark, Cost]:
    """Bounds of bidirectional Monte Carlo by the same procedure, and what they cost on top of the budget."""
    tune_stream, run_stream = stream.fold(2).split(2)
    recipe = tune_population(simulated.path, key=tune_stream, budget=budget, kernel=kernel, reference=reference)
    num = max(_FEWEST_DISTRIBUTIONS, recipe.num_steps + 1)
    betas = np.interp(np.linspace(0, recipe.num_steps, num), np.arange(recipe.num_steps + 1), recipe.betas)
    # The chains back start at states of walks from one point, and should forget what these still share.
    bounds = BDMC(_CHAINS, FixedSchedule(betas), recipe.kernel).run(recipe.path, simulated.truth, key=run_stream)
    numbers = {name: float(getattr(bounds, name)) for name in ("lower", "lower_se", "upper", "upper_se", "gap")}
    return Note.CERTIFICATE(**numbers), recipe.num_evaluations + bounds.num_evaluations
