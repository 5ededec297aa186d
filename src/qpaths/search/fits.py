"""Fits to what a search has: draws from the base, and the last draws of a pilot."""

import dataclasses
from typing import Any

import numpy as np

from ..core import quiet, softmax
from ..references import (
    LARGEST,
    NUM_HESSIANS,
    Blocks,
    Component,
    Fit,
    HostRows,
    Images,
    Reference,
    best_fit,
    find_blocks,
    find_frame,
    fit_in_noise,
    fit_map,
    hessians_at,
)
from ..remarks import Shape
from ..rows import Evaluator
from .pilot import Pilot

NUM_OF_BASE = 1024
"""Draws from the base to which a map is fitted."""
_FEWEST_PER_DIMENSION, _FEWEST_OF_MODE = 5, 64
"""Draws for each dimension below which a covariance is not fitted to them where the curvature is known, and draws of
one mode of several below which it keeps its component."""
_LEAST_SHARE = 0.01
"""Least share of a mode of several."""


def map_of_base(draws: HostRows) -> Component | None:
    """A curved map fitted to draws from the base; None where the base is not curved.

    The prior of a hierarchical model is: scales of some coordinates depend on others. In the coordinates of the map the
    model is not centered, and a run from the prior gets into the necks. It costs no evaluation of the target.
    """
    fitted = fit_map(draws).fitted
    if fitted is None or fitted.map.is_linear:
        return None
    with quiet():  # scales of priors with huge tails overflow, or are lost in rounding
        again = fitted.map.forward(fitted.map.inverse(draws).noise).points
        is_exact = np.allclose(again, draws, rtol=1e-6, atol=1e-6 * np.std(draws, axis=0).min())
    return fitted if is_exact else None


def fit_each(base: Reference, pilot: Pilot, images: Images) -> tuple[tuple[Component, ...], np.ndarray] | None:
    """Components of several modes, each fitted to the draws of a pilot that are its own, and their shares.

    Modes that are images of each other are fitted together. A component with few draws stays as it is. None where all
    of them do.
    """
    positions, scores = pilot.draws
    weights = np.asarray(softmax(pilot.state.log_weights), float)
    logs = np.array([component.log_prob(positions) for component in base.components])
    own = np.argmax(logs + np.log(base.shares)[:, None], axis=0)
    first, by = images.orbits(
        np.concatenate([one.map.forward(np.zeros((1, one.map.dimension))).points for one in base.components])
    )
    fewest = max(_FEWEST_PER_DIMENSION * positions.shape[1], _FEWEST_OF_MODE)
    shares = np.bincount(first[own], weights, len(logs))[first] / np.bincount(first)[first]
    back = [images.back(rows, by[own]) for rows in (positions, scores) if rows is not None]
    components, changed = list(base.components), False
    for number in np.flatnonzero(np.bincount(first[own], minlength=len(logs)) >= fewest):
        fitted = fit_map(*(rows[first[own] == number] for rows in back)).fitted
        if fitted is not None:
            changed = True
            for k in np.flatnonzero(first == number):
                components[k] = dataclasses.replace(
                    fitted, map=images.after(fitted.map, by[k]) if by[k] else fitted.map
                )
    if not changed:
        return None
    # A mode that no draw of the pilot is in keeps a little: it was found, and the pilot may have lost it.
    shares = np.maximum(shares, min(_LEAST_SHARE, 0.1 / len(logs)))
    return tuple(components), shares / np.sum(shares)


def num_for_blocks(dimension: int) -> int:
    """Gradients that `blocks_of` takes."""
    return 2 * dimension * NUM_HESSIANS if 1 < dimension <= LARGEST else 0


def blocks_of(evaluator: Evaluator, draws: HostRows) -> Blocks | None:
    """Linear coordinates in which the target is a product of small blocks, from Hessians at some draws."""
    rows = np.asarray(draws, float)
    if not num_for_blocks(rows.shape[1]) or len(rows) <= rows.shape[1]:
        return None

    def slopes_at(points: HostRows) -> HostRows:
        return np.asarray(evaluator.waypoints(points).slopes.target, float)

    hessians = hessians_at(slopes_at, rows, float(np.finfo(evaluator.layout.dtype).eps))
    return find_blocks(hessians, np.cov(rows.T))


def fit_to_pilot(base: Any, pilot: Pilot, of_base: Component | None = None, blocks: Blocks | None = None) -> Fit:
    """To the draws of a pilot that began at `base`, after the map of the model's base where there is one.

    A curved map may be in the coordinates of blocks. Where the draws are few for the dimension, the fit is one scale
    for each coordinate of the reference's map.
    """
    particles = pilot.state.particles
    num, dimension = particles.position.shape
    is_linear = isinstance(base, Reference) and base.is_mapped and base.components[0].shape is Shape.STUDENT
    if num < _FEWEST_PER_DIMENSION * dimension and is_linear and particles.slopes is not None:
        scores = pilot.annealing.evaluator.score(1.0, particles)
        return fit_in_noise(base.components[0], particles.position, scores)
    draws, scores = pilot.draws
    frame = None if blocks is None else find_frame(blocks, np.asarray(draws, float))
    if of_base is None:
        return fit_map(draws, scores, frame)
    return best_fit(draws, scores, of_base.map, frame)
