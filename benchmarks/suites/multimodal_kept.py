"""Targets with many modes that no tuning decision has looked at. See `multimodal.py`.

Never remove or change a target for its result; add new ones instead. All truths are quadrature and closed forms.
"""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.special import logsumexp
from jax.scipy.stats import norm
from scipy import stats

import qpaths as qp
from benchmarks.suites.multimodal import Target
from benchmarks.suites.problems import log_integral, standard_normal


def linear_evidence(design, y, prior_sd, sd):
    """Log evidence of a normal linear model for each of many designs, an array (models, data, coefficients)."""
    scaled = design * prior_sd / sd
    matrix = np.eye(scaled.shape[2]) + np.einsum("nik,nil->nkl", scaled, scaled)
    right = np.einsum("nik,i->nk", scaled, y / sd)
    found = np.linalg.solve(matrix, right[:, :, None])[:, :, 0]
    squares = (y / sd) @ (y / sd) - np.sum(right * found, axis=1)
    return -0.5 * squares - 0.5 * np.linalg.slogdet(matrix)[1] - len(y) * np.log(sd * np.sqrt(2 * np.pi))


def sinusoids(num, size, seed):
    """Waves of unknown frequency, with a sine and a cosine each, seen at random times."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0, 30, size))
    y = 1.2 * np.cos(2 * np.pi * 0.73 * t) + 0.5 * np.sin(2 * np.pi * 0.31 * t) + 0.8 * rng.normal(size=size)
    prior = {"f": dist.Uniform(0.05, 2.0).expand([num]).to_event(1)}
    prior |= {name: dist.Normal(0, 1).expand([num]).to_event(1) for name in ("a", "b")}

    def log_likelihood(p):
        phase = 2 * jnp.pi * t[:, None] * p["f"]
        return jnp.sum(norm.logpdf(y, jnp.cos(phase) @ p["a"] + jnp.sin(phase) @ p["b"], 0.8))

    axis = np.linspace(0.05, 2.0, 801)[:-1] + 1.95 / 1600
    waves = np.stack([np.cos(2 * np.pi * np.outer(axis, t)), np.sin(2 * np.pi * np.outer(axis, t))], axis=2)
    if num == 1:
        values = linear_evidence(waves, y, 1.0, 0.8)
        return Target(
            {"prior": prior, "log_likelihood": log_likelihood}, log_integral(values - np.log(1.95), 1.95 / 800)
        )
    rows = []
    for one in waves:
        both = np.concatenate([np.broadcast_to(one, waves.shape), waves], axis=2)
        rows.append(linear_evidence(both, y, 1.0, 0.8))
    truth = log_integral(np.array(rows) - 2 * np.log(1.95), 1.95 / 800, 1.95 / 800)
    return Target({"prior": prior, "log_likelihood": log_likelihood}, truth)


def decays():
    """Two exponential decays with normal amplitudes: labels, and rates that are hard to tell apart."""
    rng = np.random.default_rng(22)
    t = np.linspace(0.1, 6, 40)
    y = 2.0 * np.exp(-0.4 * t) + 1.5 * np.exp(-2.5 * t) + 0.1 * rng.normal(size=40)
    prior = {
        "k": dist.LogNormal(0, 1).expand([2]).to_event(1),
        "A": dist.Normal(0, 2).expand([2]).to_event(1),
    }

    def log_likelihood(p):
        return jnp.sum(norm.logpdf(y, jnp.exp(-t[:, None] * p["k"]) @ p["A"], 0.1))

    axis = np.arange(-6, 6, 0.02)
    each = np.exp(-np.exp(axis)[:, None] * t)
    rows = [
        linear_evidence(np.stack([np.broadcast_to(one, each.shape), each], axis=2), y, 2.0, 0.1)
        + stats.norm.logpdf(first)
        + stats.norm.logpdf(axis)
        for first, one in zip(axis, each, strict=True)
    ]
    return Target({"prior": prior, "log_likelihood": log_likelihood}, log_integral(np.array(rows), 0.02, 0.02))


def labels3():
    """A mixture of three with equal shares and unknown means, of which two overlap."""
    rng = np.random.default_rng(23)
    y = np.array([-3.0, 0.5, 2.5])[rng.integers(3, size=60)] + rng.normal(size=60)
    prior = {"m": dist.Normal(0, 4).expand([3]).to_event(1)}

    def log_likelihood(p):
        return jnp.sum(logsumexp(norm.logpdf(y[:, None], p["m"], 1.0), axis=1) - jnp.log(3))

    axis = np.arange(-7, 7, 0.07)
    each = np.exp(stats.norm.logpdf(y, axis[:, None], 1.0)) / 3
    values = [
        np.sum(np.log(one + each[:, None] + each[None]), axis=2)
        + stats.norm.logpdf(first, 0, 4)
        + stats.norm.logpdf(axis, 0, 4)[:, None]
        + stats.norm.logpdf(axis, 0, 4)
        for first, one in zip(axis, each, strict=True)
    ]
    return Target({"prior": prior, "log_likelihood": log_likelihood}, log_integral(np.array(values), 0.07, 0.07, 0.07))


def unequal():
    """Six normals of unequal width and mass in six dimensions."""
    rng = np.random.default_rng(24)
    centers, sds = jnp.asarray(4 * rng.normal(size=(6, 6))), jnp.asarray([0.2, 0.3, 0.5, 0.7, 1.0, 1.5])
    logs = jnp.log(jnp.asarray([0.3, 0.25, 0.2, 0.1, 0.1, 0.05]))

    def target(x):
        return logsumexp(logs + jnp.sum(norm.logpdf(x, centers, sds[:, None]), axis=1))

    return Target({"base": standard_normal(6, 5.0), "target": qp.Density(target)}, 0.0)


def phases():
    """Squares of projections: the sign is lost."""
    rng = np.random.default_rng(25)
    a = rng.normal(size=(12, 3))
    y = (a @ np.array([1.0, -0.5, 0.8])) ** 2 + 0.2 * rng.normal(size=12)
    prior = {"x": dist.Normal(0, 1).expand([3]).to_event(1)}

    def log_likelihood(p):
        return jnp.sum(norm.logpdf(y, (a @ p["x"]) ** 2, 0.2))

    axis = np.arange(-2.5, 2.5, 0.02)
    grids = np.meshgrid(axis, axis, indexing="ij")
    terms = []
    for first in axis:
        points = np.stack([np.full(grids[0].size, first), *(one.ravel() for one in grids)])
        fit = sum(stats.norm.logpdf(value, (row @ points) ** 2, 0.2) for row, value in zip(a, y, strict=True))
        terms.append(log_integral(fit + stats.norm.logpdf(points).sum(0), 0.02, 0.02))
    return Target({"prior": prior, "log_likelihood": log_likelihood}, log_integral(np.array(terms), 0.02))


def product():
    """Two numbers of which only the product is seen, and a third: two curved ridges."""
    y, sd = 2.0, 0.1
    prior = {"x": dist.Normal(0, 1.5).expand([2]).to_event(1)}
    axis = np.arange(-9, 9, 0.005)
    scale = 1.5
    # Given x the likelihood is normal in z: mean y / x and deviation sd / |x|.
    spread = np.sqrt(sd**2 + (scale * axis) ** 2)
    values = stats.norm.logpdf(axis, 0, scale) + stats.norm.logpdf(y, 0, spread)
    arguments = {"prior": prior, "log_likelihood": lambda p: norm.logpdf(y, p["x"][0] * p["x"][1], sd)}
    return Target(arguments, log_integral(values, 0.005))


def sensors():
    """Three sensors in the plane, each with distances to anchors that lie nearly on a line: reflections."""
    rng = np.random.default_rng(27)
    anchors = np.array([[-1.5, 0.0], [0.0, 0.05], [1.5, 0.0]])
    places = rng.normal(size=(3, 2))
    seen = np.linalg.norm(places[:, None] - anchors, axis=2) + 0.05 * rng.normal(size=(3, 3))
    prior = {"x": dist.Normal(0, 1.5).expand([3, 2]).to_event(2)}

    def log_likelihood(p):
        distance = jnp.sqrt(jnp.sum((p["x"][:, None] - anchors) ** 2, axis=2) + 1e-12)
        return jnp.sum(norm.logpdf(seen, distance, 0.05))

    axis = np.arange(-5, 5, 0.01)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
    near = stats.norm.logpdf(grid, 0, 1.5).sum(-1)
    distance = [np.linalg.norm(grid - anchor, axis=-1) for anchor in anchors]
    truth = sum(
        log_integral(near + sum(stats.norm.logpdf(v, d, 0.05) for v, d in zip(row, distance, strict=True)), 0.01, 0.01)
        for row in seen
    )
    return Target({"prior": prior, "log_likelihood": log_likelihood}, truth)


def changes():
    """A level that changes at an unknown time, smoothly within a tenth: many small modes in the time."""
    rng = np.random.default_rng(28)
    t = np.linspace(0, 10, 50)
    y = np.where(t < 6.2, 0.0, 1.0) + 0.7 * rng.normal(size=50)
    prior = {"time": dist.Uniform(0, 10), "levels": dist.Normal(0, 2).expand([2]).to_event(1)}

    def log_likelihood(p):
        share = 1 / (1 + jnp.exp(-(t - p["time"]) / 0.03))
        return jnp.sum(norm.logpdf(y, (1 - share) * p["levels"][0] + share * p["levels"][1], 0.7))

    axis = (np.arange(20_000) + 0.5) / 2000
    with np.errstate(over="ignore"):
        share = 1 / (1 + np.exp(-(t - axis[:, None]) / 0.03))
    values = linear_evidence(np.stack([1 - share, share], axis=2), y, 2.0, 0.7)
    return Target({"prior": prior, "log_likelihood": log_likelihood}, log_integral(values - np.log(10), 1 / 2000))


def blind_bumps(size=8):
    """Four bumps in eight dimensions, a black box without a gradient."""
    rng = np.random.default_rng(29)
    centers, sd = rng.uniform(-3, 3, (4, size)), 0.4
    logs = np.log([0.4, 0.3, 0.2, 0.1])

    def target(rows):
        squares = np.sum((rows[:, None] - centers) ** 2, axis=2)
        values = logs - 0.5 * squares / sd**2 - 0.5 * size * np.log(2 * np.pi * sd**2)
        return np.logaddexp.reduce(values, axis=1)

    def log_base(rows):
        return np.sum(stats.norm.logpdf(rows, 0, 3), axis=1)

    base = qp.Density(log_base, lambda rng: 3 * rng.normal(size=size), backend="numpy", batched=True)
    return Target({"base": base, "target": qp.Density(target, backend="numpy", batched=True)}, 0.0)


KEPT = {
    "wave": lambda: sinusoids(1, 40, 20),
    "waves2": lambda: sinusoids(2, 40, 21),
    "decays": decays,
    "labels3": labels3,
    "unequal6": unequal,
    "phases": phases,
    "product": product,
    "sensors": sensors,
    "changes": changes,
    "bumps": blind_bumps,
}
