# %% [markdown]
# # After the evidence
#
# A result answers more questions than one. This page takes one small model through them: draws, other priors, new data,
# left-out data, and many data sets.

# %%
import jax
import numpy as np

import qpaths as qp

jax.config.update("jax_enable_x64", True)
log_normal = jax.scipy.stats.norm.logpdf

# %% [markdown]
# Speeds of 20 runs, in units in which 1 is expected. The last one looks odd.

# %%
rng = np.random.default_rng(1)
y = np.append(1.2 + 0.5 * rng.normal(size=19), 4.0)


def each(p, y):
    return log_normal(y, p["mean"], p["spread"])


model = {
    "prior": {"mean": qp.Normal(0.0, 2.0), "spread": qp.families.Gamma(2.0, 2.0)},
    "log_likelihood": lambda p, y: each(p, y).sum(),
}
result = qp.evidence(**model, data=y, key=jax.random.key(0))
print(f"log evidence {result.log_evidence:.3f} +- {result.log_evidence_se:.3f}")

# %% [markdown]
# ## Draws
# The draws of a result have weights. `draws` returns some of equal weight, moved by the kernel until copies are no copies.

# %%
draws = result.draws(4000, key=jax.random.key(1))
print(draws.summary())

# %% [markdown]
# ## Another prior
# How much does the evidence depend on the scale of the prior of the mean? The curve has the exact answer at each value,
# within its errors, and needs no further run.

# %% picture: The log evidence has a maximum near a scale of 1 and falls on both sides, while the posterior means hardly move.
curve = qp.sensitivity(result, {"mean.scale": np.geomspace(0.3, 30, 15)}, key=jax.random.key(2))
qp.plotting.plot_sensitivity(curve)

# %% [markdown]
# ## New data
# Five more runs arrive. `update` starts from the draws.

# %%
later = result.update(1.2 + 0.5 * rng.normal(size=5), key=jax.random.key(3))
predictive, error = later.stats["log_predictive"][0], later.stats["log_predictive_se"][0]
print(f"log evidence {later.log_evidence:.3f} +- {later.log_evidence_se:.3f}")
print(f"log predictive density of the new data {predictive:.3f} +- {error:.3f}")

# %% [markdown]
# ## Left-out data
# `loo` says how well each observation is predicted by the others. The odd one is taken out exactly, since weights would
# say little about it.

# %%
left_out = qp.loo(result, key=jax.random.key(4), log_likelihood=each)
print(left_out)
worst = int(np.argmin(left_out.pointwise))
print(f"worst: observation {worst}, log density {left_out.pointwise[worst]:.2f}, exact: {left_out.exact[worst]}")
assert worst == 19

# %% [markdown]
# ## Many data sets
# Two hundred laboratories have 20 runs each. One compiled program answers for all.

# %%
centers = 2 * rng.normal(size=(200, 1))
everyone = centers + 0.5 * rng.normal(size=(200, 20))
many = qp.evidence_many(**model, data=everyone, key=jax.random.key(5))
print(many.summary())
off = many.mean["mean"] - centers[:, 0]
assert np.abs(off).max() < 1

# %% [markdown]
# Does a laboratory agree with the expected value of 1?

# %%
fixed = qp.evidence_many(
    prior={"spread": qp.families.Gamma(2.0, 2.0)},
    log_likelihood=lambda p, y: log_normal(y, 1.0, p["spread"]).sum(),
    data=everyone,
    key=jax.random.key(6),
)
print(qp.compare_many({"free": many, "fixed": fixed}))

# %% [markdown]
# The page [After the evidence](../after.md) says how each of these works.
