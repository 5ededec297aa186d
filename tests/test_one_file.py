"""A new path, kernel, algorithm or family is one file: each is written into its own package and used everywhere."""

import importlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.search import start
from qpaths.testing import check_algorithm, check_kernel, check_path

PATH = '''
import equinox as eqx
from qpaths.densities import DensityLike, endpoint
from qpaths.paths import AbstractPointwisePath


class SlowStart(AbstractPointwisePath):
    """Geometric, with beta (1 + beta) / 2 in place of beta."""

    base: DensityLike = eqx.field(converter=endpoint("base"))
    target: DensityLike = eqx.field(converter=endpoint("target"))

    def interpolate(self, beta, log_base, log_target):
        from qpaths.core.arrays import namespace

        xp = namespace(beta, log_base, log_target)
        share = xp.where((beta >= 0) & (beta <= 1), 0.5 * beta * (1 + beta), xp.nan)
        inside = (1 - share) * log_base + share * log_target
        return xp.where(beta == 0, log_base, xp.where(beta == 1, log_target, inside))

    def derivative(self, beta, log_base, log_target):
        from qpaths.core.arrays import namespace

        xp = namespace(beta, log_base, log_target)
        return xp.where((beta >= 0) & (beta <= 1), (0.5 + beta) * (log_target - log_base), xp.nan)
'''

KERNEL = '''
import equinox as eqx
import numpy as np
from qpaths.core.cost import Cost
from qpaths.kernels.base import AbstractKernel, accept, per_particle


class Cube(AbstractKernel):
    """A random walk with uniform steps, as wide as the particles spread."""

    num_steps: int = eqx.field(static=True, default=1)
    with_slopes = False
    needs_fit = True
    cost = Cost.values(1)

    def fit(self, cloud, stream, previous):
        return cloud.evaluator.xp.std(cloud.positions, axis=0)

    def randomness(self, rows, position, num):
        _, uniform = rows.draw(position.shape[0], num, 0, position.shape[1] + 1, dtype=position.dtype)
        return uniform[..., 1:], uniform[..., 0]

    def transition(self, evaluator, beta, particles, randomness, params):
        steps, uniform = randomness
        ahead = particles.position + per_particle(params, len(uniform)) * (2 * steps - 1)
        proposal = evaluator.particles(ahead, with_slopes=False)
        return accept(uniform, evaluator, beta, particles, proposal, evaluator.xp.zeros_like(uniform))
'''

ALGORITHM = '''
from typing import Any
import equinox as eqx
from qpaths.algorithms import AbstractAnnealer
from qpaths.annealing import Population, begin
from qpaths.rows import stream_for
from qpaths.results import Result
from qpaths.stats.standard_errors import importance_log_evidence


class Independent(AbstractAnnealer):
    """Particles with frozen moves that are never resampled."""

    num_particles: int = eqx.field(static=True)
    schedule: Any
    kernel: Any

    def begin(self, path, *, key):
        start, run = stream_for(key, path, self).split(2)
        draw = start, self.num_particles
        return begin(path, self.schedule, self.kernel, Population(threshold=None), stream=run, draw=draw)

    def finish(self, annealing, state, stats):
        value, error = importance_log_evidence(state.log_weights)
        points = annealing.evaluator.layout.points(state.particles.position)
        betas = self.schedule.betas[: stats["beta"].shape[0] + 1]
        cost = self.count(stats["beta"].shape[0])
        return Result(value, error, points, state.log_weights, betas, stats, state.fault.status, cost, "Independent")

    def count(self, num_steps):
        return Population(threshold=None).cost(self.kernel, self.num_particles, num_steps)
'''

PROPOSER = '''
import numpy as np
from qpaths.references.ascents import Mode, component_at
from qpaths.remarks import Source
from qpaths.search.state import Proposal, Proposer


class Told(Proposer):
    """The normal distribution that somebody knows."""

    source = Source.ASCENTS

    def suits(self, search):
        return search.evaluator.dimension == 2

    def propose(self, search):
        return Proposal.of(component_at(Mode(np.ones(2), 0.0, 4.0 * np.eye(2))), judged_alone=True)
'''

FAMILY = '''
import jax
import jax.numpy as jnp
from qpaths.core.types import ScalarLike
from qpaths.families import AbstractExponentialFamily


class Exponential(AbstractExponentialFamily):
    """The exponential distribution with a given rate."""

    rate: ScalarLike

    def log_prob(self, x):
        return jnp.where(x >= 0, jnp.log(self.rate) - self.rate * x, -jnp.inf)

    @property
    def natural(self):
        return (jnp.asarray(-self.rate, float),)

    def sufficient_statistics(self, x):
        return (x,)

    def log_partition(self, natural):
        return -jnp.log(-natural[0])

    def with_natural(self, natural):
        return Exponential(-natural[0])

    def with_moments(self, moments):
        return Exponential(1 / moments[0])

    def sample(self, key):
        return jax.random.exponential(key) / self.rate
'''

BASE = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
TARGET = qp.Density(lambda x: -0.5 * jnp.sum((x - 1.0) ** 2) / 0.25)
TRUTH = float(jnp.log(2 * jnp.pi * 0.25))


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a module of a package of its own and import it."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text("")

    def write(name, text):
        (tmp_path / "mine" / f"{name}.py").write_text(text)
        return importlib.import_module(f"mine.{name}")

    yield write
    for name in [name for name in sys.modules if name.split(".")[0] == "mine"]:
        del sys.modules[name]


def _results(path, kernel, key, tmp_path):
    """One result of every algorithm."""
    betas = qp.LinearSchedule(6)
    adaptive = qp.SMC(200, qp.AdaptiveSchedule(), kernel)
    return {
        "SMC": adaptive.run(path, key=key),
        "AIS": qp.AIS(200, betas, kernel).run(path, key=key),
        "PT": qp.ParallelTempering(5, 4, kernel).run(path, key=key),
        "TI": qp.ThermodynamicIntegration(qp.SMC(200, betas, kernel)).run(path, key=key),
        "driver": qp.drive(adaptive, path, key=key, progress=False, checkpoint=tmp_path / "run.npz"),
        "tune": qp.tune(path, key=key, budget=40_000, kernel=kernel).run(qp.SMC, 200, key=key),
    }


def _check_results(path, kernel, key, tmp_path):
    for name, result in _results(path, kernel, key, tmp_path).items():
        assert abs(float(result.log_evidence) - TRUTH) < 5 * float(result.log_evidence_se) + 0.1, name
    bounds = qp.BDMC(64, qp.LinearSchedule(12), kernel).run(path, jnp.ones(2), key=key)
    assert float(bounds.lower) - 4 * float(bounds.lower_se) < TRUTH < float(bounds.upper) + 4 * float(bounds.upper_se)


def test_a_path(write, key, tmp_path):
    path = write("path", PATH).SlowStart(BASE, TARGET)
    check_path(path, key=key)
    _check_results(path, qp.RandomWalk(3), key, tmp_path)
    tuned = qp.tune(path, key=key, budget=40_000, kernel=qp.RandomWalk(3))
    assert type(tuned.path) is type(path)  # its own path, perhaps from a reference
    with pytest.raises(TypeError, match="got SlowStart"):
        qp.choose_q(path, key=key)


def test_a_kernel(write, key, tmp_path):
    kernel = write("kernel", KERNEL).Cube(5)
    check_kernel(kernel, key=key)
    _check_results(qp.GeometricPath(BASE, TARGET), kernel, key, tmp_path)
    assert isinstance(qp.choose_q(qp.GeometricPath(BASE, TARGET), key=key, method="rho", kernel=kernel), qp.QPath)
    found = qp.evidence(BASE, TARGET, key=key, budget=50_000, kernel=kernel)
    assert abs(float(found.log_evidence) - TRUTH) < 5 * float(found.log_evidence_se)


def test_an_algorithm(write, key, tmp_path):
    algorithm = write("algorithm", ALGORITHM).Independent
    recipe = qp.tune(qp.GeometricPath(BASE, TARGET), key=key, budget=40_000)
    check_algorithm(algorithm(100, recipe.schedule, recipe.kernel), recipe.path, TRUTH, key=key, num_replicates=50)
    mine = algorithm(200, recipe.schedule, recipe.kernel)
    driven = qp.drive(mine, recipe.path, key=key, progress=False, checkpoint=tmp_path / "run.npz")
    np.testing.assert_array_equal(driven.log_evidence, mine.run(recipe.path, key=key).log_evidence)
    assert recipe.run(algorithm, 200, key=key).algorithm == "Independent"
    integrated = qp.ThermodynamicIntegration(mine).run(recipe.path, key=key)
    assert abs(float(integrated.log_evidence) - TRUTH) < 5 * float(integrated.log_evidence_se) + 0.1


def test_a_proposer(write, key, monkeypatch):
    """It is asked, its attempt is recorded, and what it proposes is used."""
    told = write("proposer", PROPOSER).Told
    monkeypatch.setattr(start, "PLAN", (((told,), ()),))
    recipe = qp.tune(qp.GeometricPath(BASE, TARGET), key=key, budget=40_000)
    np.testing.assert_allclose(recipe.path.base.components[0].log_prob_and_slope(np.ones((1, 2)))[1], 0.0)
    assert recipe.barrier < 0.5
    found = qp.evidence(BASE, TARGET, key=key, budget=50_000)
    assert abs(float(found.log_evidence) - TRUTH) < 5 * float(found.log_evidence_se)


def test_a_family(write, key):
    family = write("family", FAMILY).Exponential
    base, target = family(1.0), family(4.0)
    check_path(qp.MomentPath(base, target), points=jnp.array([0.1, 1.0, 3.0]))
    check_path(qp.GeometricPath(base, target), points=jnp.array([0.1, 1.0, 3.0]))
    middle = qp.MomentPath(base, target).at(0.5)
    np.testing.assert_allclose(middle.rate, 1 / (0.5 + 0.125))  # means mix linearly
    result = qp.SMC(500, qp.LinearSchedule(5), qp.RandomWalk(2)).run(qp.MomentPath(base, target), key=key)
    assert abs(float(result.log_evidence)) < 5 * float(result.log_evidence_se)
    assert jax.tree.leaves(target)
