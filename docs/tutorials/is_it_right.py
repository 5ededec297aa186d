# %% [markdown]
# # Is the number right?
#
# Every estimate comes with three things that help you judge it: a standard error, a verdict, and, if you can simulate
# data, a certificate. This page shows what each of them sees, and ends with a case in which all of them are fooled.
#
# ## The standard error
#
# The standard error is estimated from a single run. To see whether it has the right size, take a problem with a known
# answer and run it with many keys (JAX's random seeds). Here the prior is normal, the likelihood is normal, and the exact
# log evidence is `-log 5 - 4/5`.

# %% picture: Six estimates with error bars of two standard errors around a horizontal line, the exact log evidence. The bars touch the line.
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import qpaths as qp

normal = jax.scipy.stats.norm.logpdf


def log_prior(x):
    return jnp.sum(normal(x))


def log_likelihood(x):
    return -2.0 * jnp.sum((x - 1.0) ** 2)


def sample_prior(key):
    return jax.random.normal(key, (2,))


runs = [
    qp.evidence(
        log_prior=log_prior,
        log_likelihood=log_likelihood,
        sample_prior=sample_prior,
        budget=20_000,
        key=jax.random.key(seed),
    )
    for seed in range(6)
]
exact = -np.log(5) - 0.8
estimates, errors = np.array([(run.log_evidence, run.log_evidence_se) for run in runs]).T
print(f"within two standard errors: {np.sum(abs(estimates - exact) < 2 * errors)} of 6")
assert np.mean(abs(estimates - exact) < 2 * errors) >= 0.8

ax = plt.subplots(layout="constrained")[1]
ax.errorbar(range(6), estimates, 2 * errors, fmt="o", markersize=3)
ax.axhline(exact, color="0.5")
ax.set(xlabel="key", ylabel="log evidence")

# %% [markdown]
# About 19 of 20 runs should touch the line. `benchmarks/results/error_bars.md` and `benchmarks/results/suite.md` have the
# same count for harder problems.
#
# ## The verdict
#
# `result.verdict` is a record. Its `level` is one word:
#
# | level | meaning |
# |---|---|
# | `sound` | nothing looks unreliable |
# | `doubtful` | something does, and the verdict says what to do about it |
# | `wrong` | the answer is not that of the model you meant |
#
# A common mistake: the density of the prior uses a standard deviation of 4, and its sampler takes 4 for the variance.

# %%
mistaken = qp.evidence(
    log_prior=lambda x: jnp.sum(normal(x, 0.0, 4.0)),
    log_likelihood=log_likelihood,
    sample_prior=lambda key: jnp.sqrt(4.0) * jax.random.normal(key, (2,)),
    budget=20_000,
    key=jax.random.key(0),
)
print(mistaken.verdict.level)
print(mistaken.verdict.findings[0])
assert mistaken.verdict.level == "wrong"

# %% [markdown]
# Findings are also Python warnings. Each has a `kind` and its numbers, for programs that look at them:

# %%
finding = mistaken.verdict.findings[0]
print(finding.kind.name, f"{finding.ratio:.2f}")

# %% [markdown]
# An answer that rests on too few draws is `doubtful`: [When the posterior is hard](hard_posteriors.md) has such cases. [The
# log evidence of your model](../evidence.md#the-verdict) lists all checks.
#
# ## The certificate
#
# With `simulate(key, x)`, which draws data given a point, the same procedure also runs on simulated data. There an
# exact draw from the posterior is known: the point that the data were simulated from. So bidirectional Monte Carlo can
# bound the log evidence of the simulated data from below and from above. A small gap says that the procedure works for
# data like yours, without knowing any answer.

# %%
y = jnp.array([0.3, 1.1, 0.9])
certified = qp.evidence(
    log_prior=log_prior,
    log_likelihood=lambda x, y: jnp.sum(normal(y, x[0], jnp.exp(x[1]))),
    sample_prior=sample_prior,
    data=y,
    simulate=lambda key, x: x[0] + jnp.exp(x[1]) * jax.random.normal(key, (3,)),
    budget=40_000,
    key=jax.random.key(0),
)
certificate = certified.verdict.chosen[0]
print(certificate)
assert certificate.gap < 0.3

# %% [markdown]
# ## What fools all of them
#
# A sampler knows only the places it has visited. Suppose that 90 % of the likelihood's mass sits in a needle of width
# 0.05 in four dimensions, far from a wide hill that has the rest.

# %%
center = 4.0 * jnp.ones(4)


def needle(x):
    hill = jnp.log(0.1) + jnp.sum(normal(x, 0.0, 1.0))
    return jnp.logaddexp(hill, jnp.log(0.9) + jnp.sum(normal(x, center, 0.05)))


wide = qp.MultivariateNormal(jnp.zeros(4), 25.0 * jnp.eye(4))
fooled = qp.evidence(
    log_prior=wide.log_prob, log_likelihood=needle, sample_prior=wide.sample, budget=50_000, key=jax.random.key(0)
)
parts = [jnp.log(0.1) + jnp.sum(normal(jnp.zeros(4), 0.0, 26.0**0.5))]
parts += [jnp.log(0.9) + jnp.sum(normal(center, 0.0, 25.0025**0.5))]
exact = float(jnp.logaddexp(*parts))
print(f"{fooled.log_evidence:.3f} +- {fooled.log_evidence_se:.3f}, exact {exact:.3f}, {fooled.verdict.level}")
assert fooled.verdict.level == "sound"
assert exact - fooled.log_evidence > 1.0

# %% [markdown]
# The answer is off by more than a nat, with a tiny standard error and a good verdict. No ascent and no particle came
# near the needle. Another key or a larger budget seldom helps, because the needle fills a hundred-millionth of the
# prior.
#
# What helps is knowledge. If you suspect a second explanation of the data, start there as well: give a base that covers
# both. The base only has to be normalized and easy to sample. The target is still prior times likelihood.


# %%
def sample_both(key):
    first, second = jax.random.split(key)
    near = center + 0.1 * jax.random.normal(second, (4,))
    return jnp.where(jax.random.bernoulli(first), near, wide.sample(second))


def log_both(x):
    return jnp.logaddexp(wide.log_prob(x), jnp.sum(normal(x, center, 0.1))) - jnp.log(2.0)


known = qp.evidence(
    qp.Density(log_both, sample_both),
    qp.Density(lambda x: wide.log_prob(x) + needle(x)),
    budget=50_000,
    key=jax.random.key(0),
)
print(f"{known.log_evidence:.3f} +- {known.log_evidence_se:.3f}, exact {exact:.3f}, {known.verdict.level}")
assert abs(known.log_evidence - exact) < 4 * known.log_evidence_se

# %% [markdown]
# Three habits catch most errors of this kind:
#
# 1. Run again with another key, and compare with `evidence_from_draws` on the draws of another sampler.
# 2. Look at the posterior. Does it contain what you know about the problem?
# 3. Simulate data from the model and use the certificate. If the prior produces such modes, the gap shows it.
#
# Next: [Compare models](compare_models.md)
