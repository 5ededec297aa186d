"""Densities along a line of stations: by the weights of draws as far as these reach, and by carrying draws beyond."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from ..core import Cost, Point, QpathsTypeError, Stream, to_host
from ..densities import Density, as_pytree, is_numpy
from ..remarks import Remark
from ..rows import AtMost, in_pieces
from .carry import Carried, Ensemble, carry
from .given import Given

_LEAST, _MOST_SHAPE = 0.4, 0.5
"""The least effective sample size, and the largest Pareto index, for draws to be reweighted and not carried."""
_CHUNK = 1024


class Stations(NamedTuple):
    """Densities that differ from the target of a model by factors.

    Attributes:
        given: The model.
        factor: `factor(x, setting)`, the log of the factor at one point.
        settings: One for each station, stacked.
        constant: What all stations share, as data; `factor(x, setting, constant)` where there is some.
    """

    given: Given
    factor: Callable[..., Any]
    settings: Any
    constant: Any = None

    def _ask(self, point: Point, data: Any) -> Any:
        setting, constant = data
        return self.factor(point, setting) if constant is None else self.factor(point, setting, constant)

    def density(self, number: int) -> Density:
        """Return the density at a station, not normalized."""
        setting = jax.tree.map(lambda leaf: np.asarray(leaf[number]), self.settings)
        return self.given.plus(jax.tree_util.Partial(_of_station, as_pytree(self.factor)), (setting, self.constant))

    def log_factors(self, points: Point) -> np.ndarray:
        """Return the logs of the factors at points with axes of islands and of draws: the last axis is the station."""
        leaf = jax.tree.leaves(points)[0]
        flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), points)
        program = jax.jit(jax.vmap(lambda x: jax.vmap(lambda s: self._ask(x, (s, self.constant)))(self.settings)))
        found = in_pieces(lambda part: to_host(program(part)), flat, AtMost(_CHUNK, "draws"))
        return np.asarray(found, float).reshape(*leaf.shape[:2], -1)


def _of_station(factor: Any, x: Point, data: Any) -> Any:
    setting, constant = data
    return factor(x, setting) if constant is None else factor(x, setting, constant)


class Visit(NamedTuple):
    """Hold what is known at a station."""

    ensemble: Ensemble
    shape: float
    """Pareto index of the weights there."""
    findings: tuple[Remark, ...]


def check_jax(given: Given, what: str) -> None:
    """Raise for densities that JAX cannot trace."""
    if is_numpy(given.target):
        raise QpathsTypeError(f"`{what}` needs a model that JAX can trace, and this one has `backend='numpy'`.")


def walk(
    stations: Stations, start: Ensemble, numbers: Sequence[int], stream: Stream, observe: Callable[[int, Visit], None]
) -> tuple[Carried | None, int, Cost]:
    """Visit stations in order, beginning with draws of the model's target.

    From where the draws are, stations are reached by weights while these are good. Then the draws are carried to the
    last good station, or to the next one where none is, and moved there.

    Returns:
        The draws at the last place to which some were carried, how often that was, and what it cost.
    """
    here, at, anchor, carried = start, stations.given, None, None
    left, num, cost = list(numbers), 0, Cost()
    findings: tuple[Remark, ...] = ()
    while left:
        factors = stations.log_factors(here.points)
        before = 0.0 if anchor is None else factors[..., anchor]
        reached = None
        while left:
            there = here.reweighted(factors[..., left[0]] - before)
            if left[0] != anchor and not _is_near(here, there):
                break
            reached = left.pop(0)
            observe(reached, Visit(there, there.shape, findings))
        if not left:
            break
        goal = left[0] if reached in (None, anchor) else reached
        density = stations.density(goal)
        carried = carry(at, here, density, stream.fold(num))
        here, at, anchor, num = carried.ensemble, stations.given.moved_to(density), goal, num + 1
        findings, cost = tuple(carried.findings(0.0)), cost + carried.cost
    return carried, num, cost


def _is_near(here: Ensemble, there: Ensemble) -> bool:
    """Tell whether weights alone lead from draws to a station."""
    return there.effective >= _LEAST * here.effective and there.shape <= _MOST_SHAPE
