"""References fitted to weighted draws in rounds, without gradients and without moves."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...core import Stream, quiet, softmax
from ...references import Component, HostRows
from ...remarks import Refusal, Source
from .. import shares
from ..state import CHECK_PARTICLES, Found, Proposal, Proposer, Search

_SHARE, _MOST, _ROUNDS, _FEWEST_ROUNDS = 0.2, 0.7, 16, 5
"""Shares of what pilots may still cost: for this, and at most for so many rounds of the smallest
size. With fewer rounds than the last number nothing is tried."""
_FEWEST, _PER_DIMENSION, _GROWTH = 64, 10, 0.15
"""Draws of a round: the fewest, for each dimension, and as a share of all draws so far."""
_OF_BASE = 2
"""Rounds that are drawn from the base at the beginning."""
_EFFECTIVE = 3
"""Effective draws for each dimension that a round must leave to fit a distribution to."""
_WELLS, _DF, _STEPS = 4, 6.0, 25
"""Components of a mixture, their degrees of freedom, and steps in which it is fitted."""
_LARGEST = 12
"""Dimensions beyond which weights collapse: in 20 the rounds took a quarter of the pilots and found nothing."""
_EXCELLENT, _GOOD, _POOR = 0.7, 0.5, 0.1
"""Shares of the draws that weights leave: where another round is not worth it, and the least where a run from the base
would do as well, and where it would not arrive."""
_PATIENCE, _GAIN = 4, 1.1
"""Rounds without progress after which there will be none, and the progress that counts."""
_STAGES = 2.0
"""Betas of a run from the base, for each dimension and one more."""


class Mixture(NamedTuple):
    """Components and their shares."""

    components: tuple[Component, ...]
    shares: np.ndarray

    def log_prob(self, rows: HostRows) -> np.ndarray:
        logs = [component.log_prob(rows) + np.log(share) for component, share in zip(*self, strict=True)]
        return np.asarray(np.logaddexp.reduce(logs, axis=0))

    def draw(self, stream: Stream, num: int) -> HostRows:
        """Return rows, as many of each component as its share says."""
        nums = np.floor(num * self.shares).astype(int)
        nums[int(np.argmax(self.shares))] += num - nums.sum()
        parts = [one.draw(stream.fold(k), int(n)) for k, (one, n) in enumerate(zip(self.components, nums, strict=True))]
        return np.concatenate([np.asarray(part, float) for part in parts])


class Weighted(Proposer):
    """A fit to weighted draws, made in rounds (adaptive multiple importance sampling).

    The first draws come from the base. Each round fits a distribution to all draws so far, with weights for a beta that
    leaves enough of them, and draws from it. Every draw counts for all rounds: its proposal is the mixture of all that
    were drawn from (Cornuet, Marin, Mira and Robert, 2012). Some hundred evaluations are enough in few dimensions, a
    tenth of what moves without gradients take. In many dimensions, or where the target is far, the weights collapse.
    """

    source = Source.WEIGHTED

    def suits(self, search: Search) -> bool:
        dimension = search.evaluator.dimension
        affordable = _MOST * search.left / _per_round(dimension) >= _FEWEST_ROUNDS + _OF_BASE
        is_blind = search.path.is_pointwise and not search.kernel.with_slopes
        return is_blind and dimension <= _LARGEST and affordable

    def propose(self, search: Search) -> Proposal | Refusal | None:
        size = _per_round(search.evaluator.dimension)
        most = min(max(_SHARE * search.left, _ROUNDS * size), _MOST * search.left)
        # Where a run from the base would arrive as well, it takes a good fit to be better.
        least = _GOOD if _cost_from_base(search) < search.left else _POOR
        found, share = fitted_in_rounds(search, int(most))
        if share < least:
            return Refusal.POOR_FIT
        assert found is not None
        # Components of a good fit are its shape. Of a poor one they may be modes, of which there may be more.
        return Proposal(*found, judged_alone=True, num_modes=1 if share > _EXCELLENT else len(found.components))

    def confirmed(self, search: Search, found: Found) -> Found | None:
        # Draws of the base are among the weighted ones. A run from there is worth its cost where it would arrive.
        cost = _cost_from_base(search)
        return search.confirmed_by_base(found) if cost < shares.CONFIRMING * search.max_cost else found


def _cost_from_base(search: Search) -> float:
    """Return what a small run from the base takes, about."""
    return CHECK_PARTICLES * search.kernel.num_steps * _STAGES * (1 + search.evaluator.dimension)


def _per_round(dimension: int) -> int:
    return max(_FEWEST, _PER_DIMENSION * dimension)


@quiet()
def fitted_in_rounds(search: Search, most: int) -> tuple[Mixture | None, float]:
    """Return the distribution from which the last round drew, and the share of its draws that weights leave."""
    evaluator, stream = search.evaluator, search.stream.fold(900 + search.num_pilots)
    generator, dimension = (
        np.random.default_rng(np.asarray(stream.fold(0).uniform((4,)) * 2**32, np.uint64)),
        evaluator.dimension,
    )
    size = _per_round(dimension)
    fits: list[Mixture] = []
    nums = [_OF_BASE * size]
    rows = np.asarray(evaluator.draw(stream.fold(1), nums[0]), float)
    at = evaluator.values(rows)
    log_base, log_target = np.asarray(at.log_base, float), np.asarray(at.log_target, float)
    best, since, left = 0.0, 0, most - nums[0]
    betas: list[float] = []
    while True:
        # What is found nowhere, or at a fault at which a call should stop, is said by the pilot that follows.
        if not (log_target < np.inf).all() or not (log_target > -np.inf).any():
            return None, 0.0
        proposals = [log_base, *(fit.log_prob(rows) for fit in fits)]
        log_proposal = np.logaddexp.reduce(
            [np.log(num) + one for num, one in zip(nums, proposals, strict=True)], axis=0
        )

        def weights(beta: float) -> np.ndarray:
            tilted = np.where(log_target > -np.inf, (1 - beta) * log_base + beta * log_target, -np.inf)  # noqa: B023
            return softmax(tilted - log_proposal)  # noqa: B023

        beta = _reachable(weights, _EFFECTIVE * dimension + 10)
        if fits and beta == 1:
            last = np.where(
                log_target[-nums[-1] :] > -np.inf, log_target[-nums[-1] :] - proposals[-1][-nums[-1] :], -np.inf
            )
            share = _effective(softmax(last)) / nums[-1]
            best, since = (share, 0) if share > _GAIN * best else (best, since + 1)
            if share > _EXCELLENT or since >= _PATIENCE or size > left:
                return fits[-1], share
        betas.append(beta)
        stalls = len(betas) > _PATIENCE and beta < 2 * betas[-1 - _PATIENCE] and beta < 1
        if size > left or stalls:
            return None, 0.0
        own = weights(beta)
        fit = _mixture(rows, own, generator)
        num = min(left, max(size, int(_GROWTH * len(rows))))
        new = fit.draw(stream.fold(2 + len(fits)), num)
        found = evaluator.values(new)
        search.spend_values(num)
        fits.append(fit)
        nums.append(num)
        left -= num
        rows = np.concatenate([rows, new])
        log_base = np.concatenate([log_base, np.asarray(found.log_base, float)])
        log_target = np.concatenate([log_target, np.asarray(found.log_target, float)])


def _effective(weights: np.ndarray) -> float:
    return float(1 / np.sum(weights**2)) if np.isfinite(weights).all() else 0.0


def _reachable(weights: Callable[[float], np.ndarray], fewest: int) -> float:
    """Return the largest beta up to which weights leave enough draws."""
    if _effective(weights(1.0)) >= fewest:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _effective(weights(middle)) >= fewest else (low, middle)
    return low


def _mixture(rows: HostRows, weights: np.ndarray, generator: np.random.Generator) -> Mixture:
    """Return a mixture of Student-t distributions with the means and covariances that maximize the weighted likelihood.

    A component that would stand on too few draws is dropped. Covariances are pulled to their diagonal, the more so the
    fewer draws they stand on.
    """
    dimension, effective = rows.shape[1], _effective(weights)
    spread = np.cov(rows.T, aweights=weights).reshape(dimension, dimension)
    spread += 1e-9 * np.diag(np.diag(spread) + 1e-12)
    num = max(1, min(_WELLS, int(np.sum(weights > 0)), int(effective / (dimension + 2))))
    means = rows[generator.choice(len(rows), size=num, p=weights, replace=False)]
    matrices, shares = np.repeat(spread[None], num, axis=0), np.full(num, 1 / num)
    for _ in range(_STEPS):
        logs = [
            np.log(share) + _normal(rows, mean, matrix)
            for share, mean, matrix in zip(shares, means, matrices, strict=True)
        ]
        owned = softmax(np.array(logs).T).T * weights
        sizes = owned.sum(axis=1)
        kept = sizes * effective > dimension + 2
        kept[int(np.argmax(sizes))] = True
        if not kept.all():
            means, matrices, shares = means[kept], matrices[kept], sizes[kept] / sizes[kept].sum()
            continue
        shares, means = sizes / sizes.sum(), owned @ rows / sizes[:, None]
        away = rows[None] - means[:, None]
        matrices = np.einsum("kn,kni,knj->kij", owned, away, away) / sizes[:, None, None]
        pulled = np.minimum(1.0, (dimension + 1) / (effective * sizes))[:, None, None]
        diagonals = np.einsum("kij,ij->kij", matrices, np.eye(dimension))
        matrices = (1 - pulled) * matrices + pulled * diagonals + 1e-9 * np.diag(np.diag(spread))
    components = tuple(Component.linear(_DF, mean, matrix) for mean, matrix in zip(means, matrices, strict=True))
    return Mixture(components, shares)


def _normal(rows: HostRows, mean: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Return log densities of a normal distribution, up to a constant."""
    factor = np.linalg.cholesky(matrix)
    noise = np.linalg.solve(factor, (rows - mean).T)
    return np.asarray(-0.5 * np.sum(noise**2, axis=0) - np.sum(np.log(np.diag(factor))))
