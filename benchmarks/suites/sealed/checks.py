"""Importance sampling of prior times likelihood, to check the truths of `models.py`. It uses nothing of qpaths.

Where a model has one latent value for each group, these are drawn given the other parameters: from a Student-t
distribution about the mode of the model's own density, with the curvature there. So most models can be checked at full
size.
"""

import jax
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy.special import gammaln, logsumexp


def t_constant(freedom, size):
    return gammaln((freedom + size) / 2) - gammaln(freedom / 2) - 0.5 * size * np.log(freedom * np.pi)


def tempered(log_weights, wanted):
    """Weights to a power, at most one, for which the effective sample size is as wanted: the first rounds have few."""
    for power in 0.8 ** np.arange(60):
        weights = np.exp(power * (log_weights - log_weights.max()))
        if weights.sum() ** 2 / np.sum(weights**2) > wanted:
            break
    return weights


def importance(log_joint, points, log_weights, num, rounds, freedom=3.0):
    """The log integral and its standard error, from prior draws and their log likelihoods.

    The proposal is a Student-t distribution with the mean and covariance that the round before has found.
    """
    rng, size = np.random.default_rng(0), points.shape[1]
    for _ in range(rounds):
        weights = tempered(log_weights, 20.0 * (1 + size))
        mean = np.average(points, axis=0, weights=weights)
        factor = np.linalg.cholesky(np.cov(points.T, aweights=weights).reshape(size, size))
        white = rng.standard_normal((num, size)) / np.sqrt(rng.chisquare(freedom, (num, 1)) / freedom)
        points = mean + white @ factor.T
        log_t = t_constant(freedom, size) - 0.5 * (freedom + size) * np.log1p(np.sum(white**2, axis=1) / freedom)
        log_weights = np.asarray(log_joint(points)) - log_t + np.sum(np.log(np.diag(factor)))
    weights = np.exp(log_weights - log_weights.max())
    return float(logsumexp(log_weights) - np.log(num)), float(np.std(weights) / weights.mean() / num**0.5)


def by_own_density(model, num=200_000, rounds=10):
    """Importance sampling of all parameters together."""
    log_prior, log_likelihood, sample_prior = model
    draws = jax.vmap(sample_prior)(jax.random.split(jax.random.key(1), num))
    unravel = ravel_pytree(jax.tree.map(lambda leaf: leaf[0], draws))[1]
    points = np.asarray(jax.vmap(lambda x: ravel_pytree(x)[0])(draws))
    log_joint = jax.jit(jax.vmap(lambda point: log_prior(unravel(point)) + log_likelihood(unravel(point))))
    return importance(log_joint, points, np.asarray(jax.vmap(log_likelihood)(draws)), num, rounds)


def by_conditional_draws(model, name, num, rounds=5, num_steps=6):
    """Importance sampling where the latent values called `name` are drawn given the other parameters."""
    log_prior, log_likelihood, sample_prior = model
    draws = jax.vmap(sample_prior)(jax.random.split(jax.random.key(1), num))
    size = draws.pop(name).shape[1]
    freedom = 20.0 if size > 6 else 3.0
    unravel = ravel_pytree(jax.tree.map(lambda leaf: leaf[0], draws))[1]
    points = np.asarray(jax.vmap(lambda x: ravel_pytree(x)[0])(draws))

    def log_joint(latent, point):
        x = unravel(point) | {name: latent}
        return log_prior(x) + log_likelihood(x)

    raw_joints = jax.jit(jax.vmap(log_joint))
    slopes, hessians = jax.jit(jax.vmap(jax.grad(log_joint))), jax.jit(jax.vmap(jax.hessian(log_joint)))
    rng = np.random.default_rng(1)

    def joints(latents, points):
        return np.nan_to_num(np.asarray(raw_joints(latents, points)), nan=-np.inf, neginf=-np.inf)

    def curvatures(latents, points):
        precisions = -np.asarray(hessians(latents, points))
        # Far out in the tails of the proposal the model overflows. There its density is zero.
        is_finite = np.isfinite(precisions).all(axis=(1, 2))
        values, vectors = np.linalg.eigh(np.where(is_finite[:, None, None], precisions, np.eye(size)))
        return np.maximum(np.abs(values), 1e-8 * np.abs(values).max(axis=1, keepdims=True)), vectors

    def newton_step(latents, points):
        values, vectors = curvatures(latents, points)
        slope = np.nan_to_num(np.asarray(slopes(latents, points)))
        move = np.einsum("nij,nj->ni", vectors, np.einsum("nij,ni->nj", vectors, slope) / values)
        trials = np.stack([latents + length * move for length in (1.0, 0.5, 0.25, 0.1, 0.03, 0.0)])
        gains = np.stack([joints(trial, points) for trial in trials])
        return trials[np.argmax(gains, axis=0), np.arange(len(points))]

    def log_weights(points):
        latents = np.zeros((len(points), size))
        for _ in range(num_steps):
            before, latents = latents, newton_step(latents, points)
            if np.allclose(before, latents, rtol=1e-4, atol=1e-4):
                break
        values, vectors = curvatures(latents, points)
        white = rng.standard_normal(latents.shape) / np.sqrt(rng.chisquare(freedom, (len(points), 1)) / freedom)
        log_t = t_constant(freedom, size) - 0.5 * (freedom + size) * np.log1p(np.sum(white**2, axis=1) / freedom)
        latents = latents + np.einsum("nij,nj->ni", vectors, white / np.sqrt(values))
        return joints(latents, points) - log_t - 0.5 * np.sum(np.log(values), axis=1)

    # A prior draw should be weighed without its prior density. It only makes the first proposal wider or narrower.
    return importance(log_weights, points, log_weights(points), num, rounds)
