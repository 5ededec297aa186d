"""Step sizes on rough ground: one for all particles, spread over orders of magnitude, or chosen for each particle.

    python -m benchmarks.reliability.step_sizes [names]

The final particles of a pilot are moved on at the target, with the pilot's preconditioner and step size, and 60
gradients for each particle: 12 moves of 5 leapfrog steps with one step size (a jitter of 20 %) or with step sizes
spread by a factor of 3 or 10, or 5 moves whose step size each particle chooses. That rule is reversible, as those of
autoMALA (Biron-Lattes et al., 2024) and AutoStep (Liu et al., 2025): of four step sizes, each a quarter of the one
before, a particle takes the largest whose first leapfrog step keeps the energy within a random threshold. A move is
accepted only if its end would have chosen the same. Shown is how much of the start is left: the correlation of the
path's derivative before and after, and that of the slowest coordinate. Smaller is better.
"""

import sys
from typing import NamedTuple

import jax
import numpy as np

import qpaths as qp
from benchmarks.suites.fresh import models as fresh
from benchmarks.suites.held_out import models as held_out
from benchmarks.suites.public.targets import PROBLEMS
from qpaths.core.arrays import softmax
from qpaths.front_door.problem import path_given
from qpaths.rows import stream_for
from qpaths.schedules import AdaptiveSchedule
from qpaths.search.pilot import run_pilot
from qpaths.search.start import choose_start

MODELS = {**held_out.MODELS, **fresh.MODELS, **PROBLEMS}
NAMES = ["funnel", "volatility", "horseshoe", "brownian", "eight_schools", "seeds", "sonar", "banana"]
NUM, NUM_LEAPFROG, MOVES, BUDGET = 600, 5, 12, 75_000
MOVES_CHOSEN = 5  # of 11 to 12 gradients: 5 of the trajectory, and 3 of the choice at either end
RUNGS = 4
FIRST = 3.0  # the longest step, in units of the pilot's


class At(NamedTuple):
    """Rows with the log density of the target, its gradient in the kernel's coordinates, and the path's derivative."""

    rows: np.ndarray
    value: np.ndarray
    slope: np.ndarray
    derivative: np.ndarray


class Ground:
    """The target of a pilot, in the coordinates of its kernel."""

    def __init__(self, pilot):
        self.evaluator = pilot.annealing.evaluator
        params = pilot.kernel.params_at(np.float64(1.0))
        scale = np.asarray(params.scale)
        self.scale = np.diag(scale) if scale.ndim == 1 else scale.reshape(scale.shape[-2:])
        self.step_size = float(np.ravel(params.step_size)[0])
        weights = softmax(np.asarray(pilot.state.log_weights))
        rows = np.asarray(pilot.state.particles.position)
        self.start = rows[np.random.default_rng(1).choice(len(rows), NUM, p=weights)]

    def at(self, rows):
        particles = self.evaluator.particles(self.evaluator.xp.asarray(rows), with_slopes=True)
        base, value = (np.asarray(self.evaluator.log_density(beta, particles.features)) for beta in (0.0, 1.0))
        slope = np.nan_to_num(np.asarray(self.evaluator.score(1.0, particles))) @ self.scale
        return At(rows, np.where(np.isnan(value), -np.inf, value), slope, value - base)

    def leapfrog(self, here, momentum, step, num):
        """Where a trajectory ends, its momentum there, and the energy that it has lost."""
        before, step = np.sum(momentum**2, axis=1), step[:, None]
        value, momentum = here.value, momentum + 0.5 * step * here.slope
        for number in range(num):
            here = self.at(here.rows + step * (momentum @ self.scale.T))
            momentum = momentum + (1.0 if number < num - 1 else 0.5) * step * here.slope
        gained = here.value - value - 0.5 * (np.sum(momentum**2, axis=1) - before)
        return here, momentum, np.nan_to_num(gained, nan=-np.inf)

    def rung(self, here, momentum, longest, threshold):
        """Which step size each particle takes: the largest of four that keeps the energy."""
        chosen = np.full(NUM, RUNGS - 1)
        for number in reversed(range(RUNGS - 1)):
            _, _, gained = self.leapfrog(here, momentum, longest * 4.0**-number, 1)
            chosen = np.where(np.abs(gained) < threshold, number, chosen)
        return chosen

    def left(self, spread):
        """Correlations left of the path's derivative and of the slowest coordinate; each chooses where it is None."""
        generator = np.random.default_rng(5)
        first = here = self.at(self.start)
        for _ in range(MOVES if spread else MOVES_CHOSEN):
            momentum = generator.normal(size=here.rows.shape)
            step = self.step_size * generator.uniform(0.8, 1.2, NUM)
            number, around = generator.random(NUM), generator.uniform(-1, 1, NUM)
            if spread:
                end, _, gained = self.leapfrog(here, momentum, step * spread**around, NUM_LEAPFROG)
                accepted = np.log(number) < gained
            else:
                threshold = 0.3 * (0.05 + 0.5 * generator.exponential(size=NUM))
                rung = self.rung(here, momentum, FIRST * step, threshold)
                end, last, gained = self.leapfrog(here, momentum, FIRST * step * 4.0**-rung, NUM_LEAPFROG)
                accepted = (np.log(number) < gained) & (self.rung(end, -last, FIRST * step, threshold) == rung)
            both = zip(here, end, strict=True)
            here = At(*(np.where(accepted.reshape(-1, *[1] * (old.ndim - 1)), new, old) for old, new in both))
        slowest = max(np.corrcoef(a, b)[0, 1] for a, b in zip(first.rows.T, here.rows.T, strict=True))
        return np.corrcoef(first.derivative, here.derivative)[0, 1], slowest


def pilots(arguments):
    """A pilot from the base, and the one from the reference that the library would choose."""
    if "base" in arguments:
        path = qp.GeometricPath(arguments["base"], arguments["target"])
    else:
        prior = qp.Density(arguments["log_prior"], arguments["sample_prior"])
        path = path_given(prior, arguments["log_likelihood"], None)
    kernel = qp.HMC(num_leapfrog=NUM_LEAPFROG)
    first, second = stream_for(jax.random.key(0), path, pilots=True).split(2)
    yield "base", run_pilot(path, AdaptiveSchedule(), kernel, NUM, key=first, max_cost=4.0 * BUDGET)
    yield "reference", choose_start(path, kernel, NUM, second, float(BUDGET)).pilot


def main(names):
    jax.config.update("jax_enable_x64", True)
    np.seterr(all="ignore")
    kinds = {"one step size": 1.0, "spread by 3": 3.0, "spread by 10": 10.0, "each its own": None}
    print(f"| target | annealed from | {' | '.join(kinds)} |\n|---|---|{'---|' * len(kinds)}")
    for name in names or NAMES:
        for source, pilot in pilots(MODELS[name]().arguments):
            if not pilot.reached:
                print(f"| {name} | {source} | the pilot did not reach the target |", flush=True)
                continue
            ground = Ground(pilot)
            found = [ground.left(spread) for spread in kinds.values()]
            print(f"| {name} | {source} | {' | '.join(f'{a:.2f}, {b:.2f}' for a, b in found)} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
