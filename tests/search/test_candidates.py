"""Where to anneal from: the right candidate on targets of each kind, and the mass that it finds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm

import qpaths as qp
from qpaths.core.arrays import HostStream
from qpaths.front_door.batches import CLASSES
from qpaths.io import Codec, parts_of
from qpaths.maps import Conditional, Rotate, Triangular
from qpaths.references import Hierarchy
from qpaths.references.components import Component
from qpaths.references.hierarchy import fit_mixture
from qpaths.remarks import Finding, Refusal, Shape
from qpaths.rows import evaluator_of
from qpaths.search import start
from qpaths.search.choices import Confirmation, Source
from qpaths.search.fits import NUM_OF_BASE, map_of_base
from qpaths.search.proposers.from_drivers import _drivers_at
from qpaths.search.start import choose_start
from qpaths.search.state import Search
from qpaths.search.weighted import weighted_fit

FROM_DRIVERS = {Source.DRIVERS, Source.REFINED, Source.SCANS}


def choose(log_target, dimension, base_scale=1.0, num=400, max_cost=250_000.0, kernel=None):
    base = qp.MultivariateNormal(jnp.zeros(dimension), base_scale**2 * jnp.eye(dimension))
    path = qp.GeometricPath(base, qp.Density(log_target))
    return choose_start(path, kernel or qp.HMC(num_leapfrog=5), num, HostStream((1,)), max_cost)


def through_a_file(reference):
    codec = Codec(CLASSES, parts_of(inner=reference.inner, layout=reference.layout))
    again = codec.decode(*codec.encode(reference))
    assert again.inner is reference.inner
    return again


def test_normal_posterior_in_150_dimensions():
    scales = jnp.geomspace(1e-3, 1.0, 150)
    choice = choose(lambda x: jnp.sum(norm.logpdf(x, 0.5, scales)), 150, num=100)
    assert choice.used.source is Source.ASCENTS
    assert choice.check is Confirmation.TOO_FAR
    value, error = choice.pilot.mass
    assert abs(value) < 3 * error < 0.3
    assert choice.cost.total < 30_000


def funnel(x):
    return norm.logpdf(x[0], scale=3.0) + jnp.sum(norm.logpdf(x[1:], scale=jnp.exp(0.5 * x[0])))


def wells(x):
    """Fourteen double wells: 2^14 modes."""
    return jnp.sum(0.5 * x + 6 * x**2 - x**4)


def test_wells_in_every_coordinate_are_found_by_scans_and_survive_a_file():
    choice = choose(wells, 14)
    assert choice.used.source is Source.SCANS
    assert choice.used.shape is Shape.WELLS
    grid = np.linspace(-4, 4, 8001)
    truth = 14 * np.log(np.sum(np.exp(0.5 * grid + 6 * grid**2 - grid**4)) * 0.001)
    value, error = choice.pilot.mass
    assert abs(value - truth) < 4 * error < 0.3
    assert choice.pilot.barrier < 0.6
    reference = choice.path.base
    again = through_a_file(reference)
    x = np.random.default_rng(0).standard_normal((5, 14))
    np.testing.assert_array_equal(again.components[0].log_prob(x), reference.components[0].log_prob(x))


def groups(num):
    """Effects of `num` groups around 0 with an unknown scale, each seen once with a noise of 0.5."""
    data = jnp.asarray(np.random.default_rng(3).normal(0.0, 0.8, num))

    def log_prior(x):
        return norm.logpdf(x[0], 0.0, 2.0) + jnp.sum(norm.logpdf(x[1:], scale=jnp.exp(x[0])))

    def sample(key):
        first, rest = jax.random.split(key)
        log_scale = 2.0 * jax.random.normal(first)
        return jnp.append(log_scale, jnp.exp(log_scale) * jax.random.normal(rest, (num,)))

    target = qp.Density(lambda x: log_prior(x) + jnp.sum(norm.logpdf(data, x[1:], 0.5)))
    grid = np.linspace(-14.0, 14.0, 5601)
    spread = np.hypot(0.5, np.exp(grid))
    logs = norm.logpdf(grid, 0.0, 2.0) + jnp.sum(norm.logpdf(data[:, None], 0.0, spread), axis=0)
    return qp.GeometricPath(qp.Density(log_prior, sample), target), float(jax.nn.logsumexp(logs) + np.log(0.005))


def test_hyperparameters_of_the_prior_lead_to_optima_and_curvature():
    path, truth = groups(15)
    assert drivers_of_base(path) == (0,)
    choice = choose_start(path, qp.HMC(num_leapfrog=5), 400, HostStream((1,)), 250_000.0)
    # Nothing was annealed from the prior.
    assert {attempt.source for attempt in choice.attempts} <= {Source.ASCENTS, *FROM_DRIVERS}
    assert choice.used.source in FROM_DRIVERS
    value, error = choice.pilot.mass
    assert abs(value - truth) < 4 * error < 0.4


def drivers_of_base(path):
    search = Search(path, qp.HMC(num_leapfrog=5), 400, HostStream((1,)), 1e5)
    return _drivers_at(search, np.asarray(search.evaluator.draw(HostStream((2,)), NUM_OF_BASE), float), "base")


def test_scales_of_single_effects_are_no_hyperparameters():
    """As in a horseshoe: no coordinate drives most of the others."""
    path, _ = local_scales(np.zeros(4))
    assert drivers_of_base(path) == ()


def regression(num_rows=80, num_predictors=40):
    """Predictors that resemble their neighbors, and noise of an unknown scale, whose mode is far too small."""
    rng = np.random.default_rng(5)
    design = rng.standard_normal((num_rows, num_predictors))
    for j in range(1, num_predictors):
        design[:, j] = 0.95 * design[:, j - 1] + 0.3 * design[:, j]
    response = design @ rng.normal(0.0, 0.5, num_predictors) + rng.normal(0.0, 0.5, num_rows)

    def log_target(x):
        of_data = norm.logpdf(response, design @ x[1:], jnp.exp(x[0]))
        return jnp.sum(norm.logpdf(x)) + jnp.sum(of_data)

    grid = np.linspace(-5.0, 4.0, 901)
    values, vectors = np.linalg.eigh(design @ design.T)
    variances = values + np.exp(2 * grid)[:, None]
    logs = -0.5 * np.sum(np.log(2 * np.pi * variances) + (vectors.T @ response) ** 2 / variances, axis=1)
    return log_target, float(jax.nn.logsumexp(logs + norm.logpdf(grid)) + np.log(0.01))


def test_a_mode_whose_curvature_disagrees_with_the_draws_is_a_start_if_the_base_finds_less():
    log_target, truth = regression()
    choice = choose(log_target, 41, num=200, max_cost=100_000.0)
    assert Source.BASE not in [attempt.source for attempt in choice.attempts]
    assert choice.pilot.barrier < 2
    value, error = choice.pilot.mass
    assert abs(value - truth) < 4 * error < 0.4


def test_a_map_that_overflows_is_none_of_the_prior():
    """Precisions of a gamma distribution with shape 0.01 span hundreds of orders of magnitude."""
    rng = np.random.default_rng(0)
    log_precision = np.log(rng.uniform(size=NUM_OF_BASE)) / 0.01
    effects = np.exp(-0.5 * np.maximum(log_precision, -1000.0))[:, None] * rng.standard_normal((NUM_OF_BASE, 6))
    component = map_of_base(np.column_stack([log_precision, effects]))
    assert component is None


def local_scales(data):
    """Normal means whose scales are unknown, each by itself: log scales are standard normal."""
    num = len(data)

    def log_prior(x):
        return jnp.sum(norm.logpdf(x[:num])) + jnp.sum(norm.logpdf(x[num:], scale=jnp.exp(2 * x[:num])))

    def sample(key):
        first, second = jax.random.normal(key, (2, num))
        return jnp.concatenate([first, jnp.exp(2 * first) * second])

    target = qp.Density(lambda x: log_prior(x) + jnp.sum(norm.logpdf(x[num:], data)))
    path = qp.GeometricPath(qp.Density(log_prior, sample), target)
    grid = np.linspace(-8, 8, 4001)
    spread = np.hypot(1, np.exp(2 * grid))
    each = [np.sum(norm.pdf(grid) * norm.pdf(y, scale=spread)) * 0.004 for y in data]
    return path, float(np.sum(np.log(each)))


def test_map_of_the_prior_leads_to_a_fit_with_all_necks(monkeypatch):
    """Each mean has a funnel of its own. In coordinates that are not centered, and pulled to the data, none is left."""
    monkeypatch.setattr(start, "PLAN", start.PLAN[1:])  # fits to the modes that ascents find would do as well
    data = np.array([0.1, -0.7, 3.0, 6.0])
    path, truth = local_scales(data)
    choice = choose_start(path, qp.HMC(num_leapfrog=5), 400, HostStream((4,)), 250_000.0)
    assert Source.PRIOR in [attempt.source for attempt in choice.attempts if attempt.refusal is None]
    assert Source.REFINED in [attempt.source for attempt in choice.attempts if attempt.refusal is None]
    assert choice.pilot.barrier < 1.2
    value, error = choice.pilot.mass
    assert abs(value - truth) < 4 * error < 0.3
    reference = choice.path.base
    assert any(isinstance(layer, Conditional) and layer.pulls for layer in reference.components[0].map.layers)
    again = through_a_file(reference)
    x = np.random.default_rng(0).standard_normal((5, 8))
    np.testing.assert_array_equal(again.components[0].log_prob(x), reference.components[0].log_prob(x))


def test_neck_of_a_funnel_is_refused_and_a_curved_map_is_found():
    choice = choose(funnel, 6, num=600)
    assert choice.attempts[0].source is Source.ASCENTS
    assert choice.attempts[0].refusal in (Refusal.NECK, Refusal.LESS_MASS, Refusal.NO_OPTIMUM, Refusal.FLAT)
    assert choice.used.shape is Shape.CURVED
    value, error = choice.pilot.mass
    assert abs(value) < 4 * error < 0.4


def test_a_rotated_product_of_funnels_is_found_and_survives_a_file():
    """Hessians show the rotation. Without it the path is four times as long, and the pilot finds too little."""
    turn = jnp.asarray(np.linalg.qr(np.random.default_rng(7).standard_normal((6, 6)))[0])

    def log_target(x):
        first, second = jnp.split(x @ turn, 2)
        return jnp.sum(norm.logpdf(first, scale=2.0)) + jnp.sum(norm.logpdf(second, scale=jnp.exp(0.5 * first)))

    choice = choose(log_target, 6, 2.0)
    assert choice.used.source is Source.REFINED
    assert choice.pilot.barrier < 0.6
    value, error = choice.pilot.mass
    assert abs(value) < 4 * error < 0.1
    reference = choice.path.base
    assert [type(layer) for layer in reference.components[0].map.layers[-2:]] == [Triangular, Rotate]
    again = through_a_file(reference)
    x = np.random.default_rng(0).standard_normal((5, 6))
    np.testing.assert_allclose(again.components[0].log_prob(x), reference.components[0].log_prob(x), rtol=1e-12)


def test_the_direction_of_a_rotated_funnel_is_exact():
    turn = jnp.asarray(np.linalg.qr(np.random.default_rng(9).standard_normal((6, 6)))[0])
    choice = choose(lambda x: funnel(x @ turn), 6, num=600)
    assert choice.used.source is Source.DRIVERS
    fitted = choice.path.base.components[0].map
    assert abs(float(fitted.layers[-1].rotation[:, 0] @ turn[:, 0])) > 1 - 1e-6
    value, error = choice.pilot.mass
    assert abs(value) < 4 * error < 0.2


def two_modes(x):
    near, far = norm.logpdf(x - 3.0, scale=0.5), norm.logpdf(x + 3.0, scale=0.5)
    return jnp.logaddexp(jnp.log(0.3) + jnp.sum(near), jnp.log(0.7) + jnp.sum(far))


def test_two_modes_become_two_components():
    choice = choose(two_modes, 3, 3.0)
    assert choice.check is Confirmation.CONFIRMED
    np.testing.assert_allclose(choice.path.base.shares, [0.7, 0.3], atol=0.01)
    value, error = choice.pilot.mass
    assert abs(value) < 4 * error < 0.2


def curved_modes(x):
    """Two twisted modes, mirror images of each other, each with a mass of one half."""

    def mode(y):
        others = norm.logpdf(y[1:], 0.5 * (y[0] - 6) ** 2, 0.3)
        return norm.logpdf(y[0], 6.0) + jnp.sum(others)

    return jnp.logaddexp(mode(x), mode(x * jnp.array([-1.0, *[1.0] * (len(x) - 1)]))) - jnp.log(2)


def test_each_of_several_modes_gets_a_map_of_its_own():
    choice = choose(curved_modes, 3, 6.0, num=1600, max_cost=1_200_000.0)
    first, *_, last = [attempt for attempt in choice.attempts if attempt.refusal is None]
    assert first.source is Source.ASCENTS
    assert last.source is Source.REFINED
    assert last.num_modes == 2
    assert last.length < 0.85 * first.length
    assert all(component.shape is Shape.CURVED for component in choice.path.base.components)
    np.testing.assert_allclose(choice.path.base.shares, 0.5, atol=0.1)
    value, error = choice.pilot.mass
    assert abs(value) < 4 * error < 0.2


def test_the_search_that_finds_more_mass_is_used():
    """Two searches, of which one has missed a mode."""
    both = choose(two_modes, 3, 3.0)
    one = choose(lambda x: jnp.log(0.3) + jnp.sum(norm.logpdf(x - 3.0, scale=0.5)), 3, 3.0)
    for choice in (one.or_better(both), both.or_better(one)):
        assert choice.pilot is both.pilot
        assert choice.disagreement == 0  # the path is short, and weights would show what is missing
    longer = both.pilot._replace(lengths=both.pilot.lengths + 1.5)
    doubtful = both._replace(pilot=longer).or_better(one)
    np.testing.assert_allclose(doubtful.disagreement, -np.log(0.3), atol=0.1)
    assert Finding.ROUTES in [finding.kind for finding in doubtful.findings]
    assert both._replace(pilot=longer).or_better(both).pilot is both.pilot  # as much mass: the shorter one


def test_without_gradients_ascents_climb_by_differences():
    choice = choose(two_modes, 3, 3.0, kernel=qp.RandomWalk(10))
    assert choice.attempts[0].source is Source.ASCENTS
    assert choice.attempts[0].refusal is None
    np.testing.assert_allclose(choice.path.base.shares, [0.7, 0.3], atol=0.01)
    assert choice.cost.target_gradient == 0


def test_too_few_evaluations_for_differences_are_a_finding():
    choice = choose(two_modes, 3, 3.0, kernel=qp.RandomWalk(2), num=100, max_cost=10_000.0)
    assert choice.attempts[0].refusal is Refusal.NO_GRADIENT
    assert Finding.NOT_SEARCHED in [finding.kind for finding in choice.findings]


def test_hard_bound_keeps_the_base():
    """A density that is highest at its end: neither ascents nor a fit reach beyond it."""

    def log_target(x):
        return jnp.where(x[0] > 0, norm.logpdf(x[0]) + norm.logpdf(x[1]) + jnp.log(2.0), -jnp.inf)

    choice = choose(log_target, 2)
    assert choice.used.source is Source.BASE
    assert choice.attempts[0].refusal is Refusal.HARD_BOUND


def test_a_narrow_mode_that_ascents_overlook_is_found_from_the_base():
    """Most of the mass in a narrow mode beside a wide one: the run from the base leads to it."""

    def log_target(x):
        wide, narrow = jnp.sum(norm.logpdf(x, scale=1.0)), jnp.sum(norm.logpdf(x - 2.0, scale=0.1))
        return jnp.logaddexp(jnp.log(0.2) + wide, jnp.log(0.8) + narrow)

    choice = choose(log_target, 2, 1.5)
    value, error = choice.pilot.mass
    assert abs(value) < 4 * error < 0.4


@pytest.mark.parametrize("value", [-jnp.inf, jnp.inf, jnp.nan])
def test_a_fit_to_draws_without_weight(value):
    """A model may overflow at all draws from a fit, which is then of no use, and no error."""
    rows = np.random.default_rng(0).standard_normal((200, 2))
    each = np.full(200, 1 / 200)
    component = Component.linear(30.0, np.zeros(2), np.eye(2))
    fit = Hierarchy(Component(30.0, component.map, drivers=fit_mixture(rows[:, :1], each)), rows[:, :1], each)
    base = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
    stream = HostStream((1,))
    evaluator = evaluator_of(qp.GeometricPath(base, lambda x: value + 0 * x[0]), stream, with_slopes=False)
    assert weighted_fit(fit, evaluator, stream)[1] == 0
