"""Evaluation of densities in both worlds: the same numbers, whatever the chunks, and errors in words."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.core.arrays import stream_of
from qpaths.rows import Evaluator, HostDensities, Layout, TracedDensities, clear_cache, evaluator_of, layout_of

BASE = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
TARGET = qp.Density(lambda x: jnp.where(x[0] > -1.0, 3.0 * x[1] - jnp.exp(x[1]) - 0.5 * jnp.sum(x**2), -jnp.inf))
POSITIONS = np.random.default_rng(0).normal(size=(7, 2))
POSITIONS[:, 0] = [0.1, -1.3, 0.5, -0.7, -2.0, 1.6, 0.9]  # at two of them the target is -inf
HOST = stream_of(jax.random.key(0), host=True)


class Guided(eqx.Module):
    """A target with a cheaper density that steers."""

    guide: qp.Density

    def log_prob(self, x):
        return -2.0 * jnp.sum((x - 1.0) ** 2)


PATHS = {
    "geometric": qp.GeometricPath(BASE, TARGET),
    "q": qp.QPath(BASE, TARGET, q=jnp.asarray(0.9), log_scale=jnp.asarray(1.5)),
    "reversed": qp.Reversed(qp.QPath(BASE, TARGET, q=0.9)),
    "guided": qp.QPath(BASE, Guided(qp.Density(lambda x: -1.9 * jnp.sum((x - 1.1) ** 2))), q=0.9),
    "generalized": qp.GeneralizedMeanPath(BASE, TARGET, lambda v: jnp.exp(0.3 * v), lambda v: jnp.log(v) / 0.3),
    "parametric": qp.MomentPath(BASE, qp.MultivariateNormal(jnp.ones(2), 2 * jnp.eye(2))),
}


def _everything(evaluator, positions):
    """All that an evaluator knows about some positions, with one beta for each."""
    betas = evaluator.xp.linspace(0.0, 1.0, positions.shape[0])
    waypoints = evaluator.waypoints(positions)
    particles = evaluator.completed(waypoints)
    features = particles.features
    return {
        "features": tuple(features),
        "of values alone": tuple(evaluator.particles(positions, with_slopes=False).features),
        "waypoints": tuple(waypoints.features),
        "score": evaluator.score(betas, particles),
        "log_density": evaluator.log_density(betas, features),
        "log_ratio": evaluator.log_ratio(0.5 * betas, betas, features),
        "derivatives": evaluator.derivatives(betas, features),
        "derivative": evaluator.derivative(betas, features),
    }


@pytest.mark.parametrize("name", PATHS)
def test_both_worlds_agree(name):
    """And with the path's own functions of one point."""
    path = PATHS[name]
    host = _everything(Evaluator.of(path, HostDensities(layout_of(path), with_slopes=True)), POSITIONS)
    assert all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(host))
    traced = jax.jit(lambda x: _everything(Evaluator.of(path, TracedDensities(layout_of(path))), x))(POSITIONS)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9), host, traced)
    betas, points = jnp.linspace(0.0, 1.0, 7), jnp.asarray(POSITIONS)
    np.testing.assert_allclose(host["log_density"], jax.jit(jax.vmap(path.log_density))(betas, points), rtol=1e-9)
    if name != "guided":
        scores = jax.jit(jax.vmap(jax.grad(path.log_density, argnums=1)))(betas, points)
        np.testing.assert_allclose(host["score"], scores, rtol=1e-9, atol=1e-9)
    else:
        steered = qp.QPath(BASE, path.target.guide, q=0.9)
        np.testing.assert_allclose(
            host["score"], jax.jit(jax.vmap(jax.grad(steered.log_density, argnums=1)))(betas, points), rtol=1e-9
        )
        np.testing.assert_allclose(host["features"][1], jax.jit(jax.vmap(path.target.log_prob))(points))
        np.testing.assert_allclose(host["waypoints"][1], jax.jit(jax.vmap(path.target.guide.log_prob))(points))


@pytest.fixture
def chunks_of(monkeypatch):
    """Sets the sizes of chunks; programs that were compiled for another are forgotten."""

    def set_sizes(large, small):
        monkeypatch.setattr("qpaths.rows.backends.CHUNKS", (large, small))
        clear_cache()

    yield set_sizes
    monkeypatch.undo()
    clear_cache()


def test_numbers_do_not_depend_on_chunks(chunks_of):
    """Rows that fill one chunk, several, and a part of the last."""
    path, found = PATHS["q"], []
    for sizes in ((4, 2), (7, 3), (2048, 128)):
        chunks_of(*sizes)
        evaluator = Evaluator.of(path, HostDensities(layout_of(path), with_slopes=True))
        found.append({"draws": evaluator.draw(HOST.fold(1), 11), **_everything(evaluator, POSITIONS)})
    for other in found[1:]:
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-13), found[0], other)


def test_a_run_does_not_depend_on_chunks(chunks_of, key):
    results = []
    for sizes in ((20, 8), (2048, 128)):
        chunks_of(*sizes)
        results.append(qp.SMC(48, qp.LinearSchedule(4), qp.RandomWalk(2)).run(PATHS["geometric"], key=key))
    np.testing.assert_allclose(results[0].samples, results[1].samples, rtol=1e-12)
    np.testing.assert_allclose(results[0].log_evidence, results[1].log_evidence, rtol=1e-12)


def test_points_are_trees_of_arrays():
    """Of several shapes and types; axes in front stay."""
    point = {"a": jnp.asarray(1.0), "b": jnp.arange(6.0, dtype=jnp.float32).reshape(2, 3)}
    layout = Layout.of(point)
    assert (layout.dimension, layout.dtype) == (7, np.float64)
    rows = np.arange(28.0).reshape(4, 7)
    points = layout.points(rows)
    assert (points["a"].shape, points["b"].shape, points["b"].dtype) == ((4,), (4, 2, 3), np.float32)
    np.testing.assert_array_equal(layout.rows(points), rows)
    assert layout.rows(point).shape == (7,)


def test_the_host_keeps_64_bits_where_densities_have_32(key):
    base = qp.Density(lambda x: -0.5 * jnp.sum(x**2), lambda key: jax.random.normal(key, (3,), jnp.float32))
    target = qp.Density(lambda x: (-jnp.sum(x**2)).astype(jnp.float32))
    evaluator = evaluator_of(qp.GeometricPath(base, target), HOST, with_slopes=True)
    assert evaluator.layout.dtype == np.float32
    particles = evaluator.particles(evaluator.draw(HOST, 5), with_slopes=True)
    assert {leaf.dtype for leaf in jax.tree.leaves(particles)} == {np.dtype(np.float64)}
    np.testing.assert_allclose(particles.features.log_target, 2 * particles.features.log_base, rtol=1e-6)


# Densities that are not JAX.

SAMPLE = {"sample": lambda generator: generator.standard_normal(2), "backend": "numpy"}
NUMPY = {
    "one point": (
        qp.Density(lambda x: -0.5 * float(x @ x), **SAMPLE, gradient=lambda x: -x),
        qp.Density(lambda x: -np.sum((x - 1) ** 2), backend="numpy", gradient=lambda x: -2 * (x - 1)),
    ),
    "batched": (
        qp.Density(lambda x: -0.5 * np.sum(x**2, axis=1), **SAMPLE, batched=True, gradient=lambda x: -x),
        qp.Density(
            lambda x: -np.sum((x - 1) ** 2, axis=1), backend="numpy", batched=True, gradient=lambda x: -2 * (x - 1)
        ),
    ),
    "with a JAX base": (
        BASE,
        qp.Density(lambda x: -np.sum((x - 1) ** 2), backend="numpy", gradient=lambda x: -2 * (x - 1)),
    ),
}


@pytest.mark.parametrize("name", NUMPY)
def test_numpy_densities_are_evaluated_like_those_of_jax(name):
    path = qp.QPath(*NUMPY[name], q=0.9)
    constant = 0.0 if name == "with a JAX base" else np.log(2 * np.pi)
    same = qp.QPath(
        qp.Density(lambda x: BASE.log_prob(x) + constant, BASE.sample),
        qp.Density(lambda x: -jnp.sum((x - 1) ** 2)),
        q=0.9,
    )
    found, expected = (_everything(Evaluator.of(p, HostDensities(layout_of(p), True)), POSITIONS) for p in (path, same))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12), found, expected)


@pytest.mark.parametrize("batched", [False, True])
def test_numpy_densities_of_trees(batched):
    def log_prob(x):
        return -(x["a"] ** 2) - np.sum(x["b"] ** 2, axis=-1)

    def gradient(x):
        return {"a": -2 * x["a"], "b": -2 * x["b"]}

    def sample(generator):
        return {"a": generator.normal(), "b": generator.normal(size=2)}

    base = qp.Density(log_prob, sample, backend="numpy", batched=batched, gradient=gradient)
    evaluator = evaluator_of(qp.GeometricPath(base, base), HOST, with_slopes=True)
    positions = evaluator.draw(HOST, 4)
    assert positions.shape == (4, 3)
    particles = evaluator.particles(positions, with_slopes=True)
    np.testing.assert_allclose(particles.features.log_base, -np.sum(positions**2, axis=1))
    np.testing.assert_allclose(particles.slopes.base, -2 * positions)


def _numpy(log_prob, **options):
    return qp.Density(log_prob, backend="numpy", **options)


def _raises_for_some(x):
    if x[0] > 1:
        raise FloatingPointError("the solver did not converge")
    return -x @ x


def _evaluate(target, with_slopes=False, base=NUMPY["one point"][0]):
    path = qp.GeometricPath(base, target)
    evaluator = evaluator_of(path, HOST, with_slopes=with_slopes)
    return evaluator.particles(np.array([[0.5, 0.0], [1.25, -2.0], [0.0, 0.0]]), with_slopes=with_slopes)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: _evaluate(_numpy(lambda x: x)),
            ValueError,
            r"`target.log_prob` must return one number for one point, got shape \(2,\)",
        ),
        (
            lambda: _evaluate(_numpy(lambda x: -(x**2), batched=True)),
            ValueError,
            r"one number for each of the points of a batch, got shape \(3, 2\) for 3 points: sum over the coordinates",
        ),
        (
            lambda: _evaluate(_numpy(lambda x: -np.sum(x**2), batched=True)),
            ValueError,
            r"one number for each of the points of a batch, got shape \(\) for 3 points",
        ),
        (
            lambda: _evaluate(_numpy(_raises_for_some)),
            RuntimeError,
            r"`target.log_prob` raised FloatingPointError at the point \[ 1.25 -2.  \]: the solver did not converge",
        ),
        (
            lambda: _evaluate(_numpy(lambda x: 1 / 0, batched=True)),
            RuntimeError,
            r"`target.log_prob` raised ZeroDivisionError at a batch that begins with \[0.5 0. \]",
        ),
        (
            lambda: _evaluate(_numpy(lambda x: -x @ x), with_slopes=True),
            ValueError,
            r"`target` is a NumPy density without a gradient.*give `Density\(..., gradient=...\)`",
        ),
        (
            lambda: _evaluate(_numpy(lambda x: -x @ x, gradient=lambda x: x[:1]), with_slopes=True),
            ValueError,
            r"`target.gradient` must return one number for each coordinate, got shape \(1,\)",
        ),
        (
            lambda: _evaluate(qp.Density(lambda x: float(np.asarray(x) @ np.asarray(x))), base=BASE),
            TypeError,
            "`target.log_prob` cannot be traced by JAX: it calls NumPy.*say `backend='numpy'`",
        ),
        (
            lambda: evaluator_of(
                qp.GeometricPath(*NUMPY["batched"]), stream_of(jax.random.key(0), host=False), with_slopes=False
            ),
            TypeError,
            "a density with `backend='numpy'` cannot run under `jax.jit`",
        ),
        (
            lambda: layout_of(qp.GeometricPath(qp.Density(lambda x: 0.0, lambda key: jnp.zeros(0)), TARGET)),
            ValueError,
            "`base.sample` must return a point with at least one number",
        ),
        (
            lambda: layout_of(qp.GeometricPath(qp.Density(lambda x: 0.0, lambda key: jnp.zeros(2, int)), TARGET)),
            TypeError,
            "`base.sample` must return floating-point numbers",
        ),
        (lambda: layout_of(BASE), TypeError, "`path` must be a path such as `QPath.*got MultivariateNormal"),
    ],
)
def test_what_is_wrong_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


FROZEN = {
    "NumPy's numbers in a JAX sampler": qp.Density(
        BASE.log_prob, lambda key: jnp.asarray(np.random.default_rng(3).normal(size=2))
    ),
    "a generator made anew": qp.Density(
        lambda x: -x @ x, lambda generator: np.random.default_rng(3).normal(size=2), backend="numpy"
    ),
}


@pytest.mark.parametrize("name", FROZEN)
def test_a_sampler_that_returns_one_point_for_every_key_is_reported(name, key):
    path = qp.GeometricPath(FROZEN[name], _numpy(lambda x: -2 * (x @ x)))
    with pytest.raises(ValueError, match=r"`base.sample`.*returned the same point .* for each of 20 keys: it probably"):
        qp.SMC(20, qp.LinearSchedule(3), qp.RandomWalk()).run(path, key=key)
    evaluator = evaluator_of(path, HOST, with_slopes=False)
    assert evaluator.draw(HOST, 1).shape == (1, 2)  # a single draw tells nothing


@pytest.mark.parametrize(("cut", "is_mended"), [(-3.5, True), (-1.0, False)])
def test_a_few_draws_beyond_the_largest_number_are_others(cut, is_mended):
    """As of a prior with huge tails; many of them are a mistake, which must show."""

    def sample(key):
        x = jax.random.normal(key, (2,))
        return jnp.where(x[0] < cut, jnp.array([x[0], jnp.inf]), x)

    path = qp.GeometricPath(qp.Density(BASE.log_prob, sample), TARGET)
    rows = evaluator_of(path, HOST, with_slopes=False).draw(HOST, 20_000)
    assert np.isfinite(rows).all() == is_mended
    assert rows.shape == (20_000, 2)


def test_draws_that_are_not_numbers_stay():
    def sample(key):
        x = jax.random.normal(key, (2,))
        return jnp.where(x[0] < -3.5, jnp.array([jnp.nan, jnp.inf]), x)

    path = qp.GeometricPath(qp.Density(BASE.log_prob, sample), TARGET)
    assert np.isnan(evaluator_of(path, HOST, with_slopes=False).draw(HOST, 20_000)).any()
