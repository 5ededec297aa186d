"""Two estimators of log evidence for the truths, written without qpaths: bridge sampling, and importance sampling.

Both take a log density of one point that `jax.vmap` can map. Their standard errors come from independent replicates.
"""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import expit, gammaln, logsumexp

NUM_CHAINS = 500
NUM_LEAPFROG = 8


def _chains(log_density, with_draws):
    """A compiled function that moves chains by Hamiltonian Monte Carlo, preconditioned by a Cholesky factor."""

    def potential(z, center, factor, parameters):
        return log_density(center + factor @ z, *parameters)

    value_and_slope = jax.vmap(jax.value_and_grad(potential), (0, None, None, None))

    def move(carry, key, step_size, center, factor, parameters):
        z, value, slope = carry
        first, second, third = jax.random.split(key, 3)
        momentum = jax.random.normal(first, z.shape)
        step = step_size * jax.random.uniform(second, (len(z), 1), minval=0.6, maxval=1.2)
        start = value - 0.5 * jnp.sum(momentum**2, axis=1)

        def leapfrog(_, state):
            z, momentum, _, slope = state
            momentum = momentum + 0.5 * step * slope
            z = z + step * momentum
            value, slope = value_and_slope(z, center, factor, parameters)
            return z, momentum + 0.5 * step * slope, value, slope

        new = jax.lax.fori_loop(0, NUM_LEAPFROG, leapfrog, (z, momentum, value, slope))
        log_ratio = new[2] - 0.5 * jnp.sum(new[1] ** 2, axis=1) - start
        accepted = jnp.log(jax.random.uniform(third, (len(z),))) < log_ratio
        z = jnp.where(accepted[:, None], new[0], carry[0])
        value, slope = jnp.where(accepted, new[2], carry[1]), jnp.where(accepted[:, None], new[3], carry[2])
        return (z, value, slope), (z if with_draws else None, jnp.mean(accepted))

    @jax.jit
    def run(key, z, step_size, center, factor, parameters, num):
        carry = (z, *value_and_slope(z, center, factor, parameters))
        keys = jax.random.split(key, num.shape[0])
        carry, (draws, accepted) = jax.lax.scan(
            lambda carry, key: move(carry, key, step_size, center, factor, parameters), carry, keys
        )
        return carry[0], draws, jnp.mean(accepted)

    return run


def bridge_sampling(log_density, dimension, num_replicates=6, num_moves=100, num_stages=3, seed=0):
    """Log evidence and standard error by a few bridges from a fitted normal distribution (Meng and Wong, 1996).

    Each replicate fits the normal distribution to draws of its own, makes independent draws from it, runs chains at
    `num_stages` points of the geometric path from it to the target, and joins neighbors by the optimal bridge.
    """
    optimum = minimize(
        jax.jit(lambda x: -log_density(x)), np.zeros(dimension), jac=jax.jit(jax.grad(lambda x: -log_density(x)))
    ).x
    factor = jnp.linalg.cholesky(jnp.linalg.inv(-jax.hessian(log_density)(jnp.asarray(optimum))))

    def between(x, beta, center, inverse):
        log_normal = -0.5 * jnp.sum((inverse @ (x - center)) ** 2)
        return (1 - beta) * log_normal + beta * log_density(x)

    warm_up, run = _chains(between, False), _chains(between, True)

    @jax.jit
    def log_ratio(x, center, inverse):
        return log_density(x) + 0.5 * jnp.sum((inverse @ (x - center)) ** 2)

    @jax.jit
    def log_ratios(z, center, spread, inverse):
        x = center + z.reshape(-1, dimension) @ spread.T
        return jax.lax.map(lambda x: log_ratio(x, center, inverse), x, batch_size=1000)

    betas, estimates = np.linspace(0, 1, num_stages + 1), []
    for key in jax.random.split(jax.random.key(seed), num_replicates):
        keys = jax.random.split(key, 4 + 2 * num_stages)
        start = jax.random.normal(keys[0], (NUM_CHAINS, dimension))
        step_size = jnp.asarray(1.2 / dimension**0.25)
        arguments = (step_size, jnp.asarray(optimum), factor, (1.0, jnp.asarray(optimum), jnp.eye(dimension)))
        start, _, _ = warm_up(keys[1], start, *arguments, jnp.zeros(100))
        start, draws, _ = run(keys[2], start, *arguments, jnp.zeros(num_moves))
        draws = np.asarray(optimum + draws.reshape(-1, dimension) @ factor.T)
        center, spread = jnp.asarray(draws.mean(axis=0)), np.linalg.cholesky(np.cov(draws.T))
        inverse, spread = jnp.asarray(np.linalg.inv(spread)), jnp.asarray(spread)
        exact = jax.random.normal(keys[3], (NUM_CHAINS, num_moves, dimension))
        found, rates, z = [log_ratios(exact, center, spread, inverse)], [], exact[:, 0]
        for beta, first, second in zip(betas[1:], keys[4::2], keys[5::2], strict=True):
            arguments = (step_size, center, spread, (beta, center, inverse))
            z, _, _ = warm_up(first, z, *arguments, jnp.zeros(50))
            z, draws, rate = run(second, z, *arguments, jnp.zeros(num_moves))
            found.append(log_ratios(draws, center, spread, inverse))
            rates.append(float(rate))
        pairs = zip(found, found[1:], np.diff(betas), strict=False)
        ratios = [_bridge(step * np.asarray(a), step * np.asarray(b)) for a, b, step in pairs]
        constant = 0.5 * dimension * np.log(2 * np.pi) - float(jnp.sum(jnp.log(jnp.diag(inverse))))
        estimates.append(constant + sum(ratios))
        print(f"  {estimates[-1]:.5f}, moves accepted {np.round(rates, 2)}", flush=True)
    return float(np.mean(estimates)), float(np.std(estimates, ddof=1) / num_replicates**0.5)


def _bridge(first, second):
    """The log ratio of two integrals from log ratios of the integrands at draws of the first and of the second."""
    lowest, highest = min(first.min(), second.min()), max(first.max(), second.max())
    return brentq(lambda c: np.mean(expit(first - c)) - np.mean(expit(c - second)), lowest, highest, xtol=1e-10)


def importance_sampling(log_density, center, scale, num_draws, num_rounds=8, degrees=6.0, batch=2000, seed=0):
    """Log evidence and standard error from a Student-t distribution, fitted to the weighted draws of earlier rounds."""
    rng = np.random.default_rng(seed)
    dimension = len(center)
    evaluate = jax.jit(lambda x: jax.lax.map(log_density, x, batch_size=batch))
    center, factor = np.asarray(center, float), np.diag(np.asarray(scale, float))

    def weigh(num):
        noise = rng.standard_normal((num, dimension))
        mixing = rng.chisquare(degrees, num) / degrees
        x = center + (noise / np.sqrt(mixing)[:, None]) @ factor.T
        log_student = -0.5 * (degrees + dimension) * np.log1p(np.sum(noise**2, axis=1) / mixing / degrees)
        return x, np.asarray(evaluate(jnp.asarray(x))) - log_student

    for _ in range(num_rounds):
        x, log_weights = weigh(5_000)
        weights = np.exp(log_weights - logsumexp(log_weights))
        # In the first rounds few draws carry all the weight: their covariance is taken with a share of the old one.
        share = min(1.0, 1 / np.sum(weights**2) / 500)
        new = np.cov(x.T, aweights=weights) * (degrees - 2) / degrees
        center = share * (weights @ x) + (1 - share) * center
        factor = np.linalg.cholesky(share * new + (1 - share) * factor @ factor.T)
    log_weights = np.concatenate([weigh(20_000)[1] for _ in range(num_draws // 20_000)])
    weights = np.exp(log_weights - log_weights.max())
    constant = _log_student_constant(degrees, dimension, factor)
    ess = weights.sum() ** 2 / np.sum(weights**2)
    print(f"  effective sample size {ess:,.0f} of {len(weights):,}, largest share {weights.max() / weights.sum():.1e}")
    value = log_weights.max() + np.log(weights.mean()) + constant
    return float(value), float(np.std(weights) / weights.mean() / len(weights) ** 0.5)


def _log_student_constant(degrees, dimension, factor):
    """The log integral of the Student-t density without its constant."""
    log_gammas = gammaln(0.5 * degrees) - gammaln(0.5 * (degrees + dimension))
    return log_gammas + 0.5 * dimension * np.log(degrees * np.pi) + np.sum(np.log(np.diag(factor)))
