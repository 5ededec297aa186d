# %% [markdown]
# # Is the number right?
#
# Every estimate comes with three things that help you judge it: a standard error, a verdict, and, if you can simulate
# data, a certificate. This page shows what each of them sees.
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
# No standard error, verdict or certificate accounts for a part of the target that no run came near. [How wrong is my
# evidence?](how_wrong.md) has failures of this kind and of others, and what shows each.
#
# Next: [How wrong is my evidence?](how_wrong.md)
