"""Fits to what a search has: draws from the base, and the last draws of a pilot."""

from typing import Any

import numpy as np

from ..evaluation import AbstractEvaluator
from ..references.components import Component
from ..references.curves import best_fit, fit_map
from ..references.fitting import Fit, fit_in_noise
from ..references.reference import Reference
from ..remarks import Shape
from .pilot import Pilot

_NUM_OF_BASE = 1024
"""Draws from the base to which a map is fitted."""
_FEWEST_PER_DIMENSION = 5
"""Draws below which a covariance is not fitted to them where the curvature is known."""


def map_of_base(evaluator: AbstractEvaluator, stream: Any) -> Component | None:
    """A curved map fitted to draws from the base; None where the base is not curved.

    The prior of a hierarchical model is: scales of some coordinates depend on others. In the coordinates of the map the
    model is not centered, and a run from the prior gets into the necks. It costs no evaluation of the target.
    """
    fitted = fit_map(np.asarray(evaluator.draw(stream, _NUM_OF_BASE), float)).fitted
    return None if fitted is None or fitted.map.is_linear else fitted


def fit_to_pilot(base: Any, pilot: Pilot, base_map: Any = None) -> Fit:
    """To the draws of a pilot that began at `base`, after the map of the model's base where there is one.

    Where the draws are few for the dimension, one scale for each coordinate of the reference's map.
    """
    particles = pilot.state.particles
    num, dimension = particles.position.shape
    is_linear = isinstance(base, Reference) and base.is_mapped and base.components[0].shape is Shape.STUDENT
    if num < _FEWEST_PER_DIMENSION * dimension and is_linear and particles.slopes is not None:
        scores = pilot.annealing.evaluator.score(1.0, particles)
        return fit_in_noise(base.components[0], particles.position, scores)
    return fit_map(*pilot.draws) if base_map is None else best_fit(*pilot.draws, base_map)
