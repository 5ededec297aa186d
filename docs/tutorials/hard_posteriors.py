# %% [markdown]
# # When the posterior is hard
#
# Some posteriors defeat samplers: funnels, several modes, hard bounds. This page shows what `evidence` does with each,
# what its verdict says when that is not enough, and what you can do.
#
# ## Funnels
#
# In a hierarchical model a scale and the effects that it controls form a funnel. Where the scale is small, the effects
# are confined to a narrow neck. Neal's funnel has this shape and a known evidence: it integrates to 1.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import qpaths as qp

normal = jax.scipy.stats.norm.logpdf


def log_funnel(x):
    return normal(x[0], 0.0, 3.0) + jnp.sum(normal(x[1:], 0.0, jnp.exp(x[0] / 2)))


base = qp.MultivariateNormal(jnp.zeros(10), jnp.eye(10))
funnel = qp.Density(log_funnel)
short = qp.evidence(base, funnel, budget=20_000, key=jax.random.key(0))
print(f"{short.log_evidence:.2f} +- {short.log_evidence_se:.2f}, exact 0, {short.verdict.level}")
print(*short.verdict.findings, sep="\n")
assert short.verdict.level == "doubtful"

# %% [markdown]
# With 100,000 evaluations the pilots recognize which coordinate drives the scales of the others, and fit a curved
# reference distribution. The rest is easy.

# %%
enough = qp.evidence(base, funnel, budget=100_000, key=jax.random.key(0))
print(enough.summary())
assert abs(enough.log_evidence) < 4 * enough.log_evidence_se

# %% picture: Draws from the funnel. Horizontal axis, the first effect; vertical axis, the log scale. The cloud is wide at the top and very narrow at the bottom.
weights = np.asarray(jax.nn.softmax(enough.log_weights))
drawn = np.random.default_rng(0).choice(len(weights), 1500, p=weights)
ax = plt.subplots(layout="constrained", figsize=(5, 3.4))[1]
ax.plot(enough.samples[drawn, 1], enough.samples[drawn, 0], ".", markersize=2)
ax.set(xlabel="first effect", ylabel="log scale", xlim=(-15, 15))

# %% [markdown]
# What you can do: give a larger budget, or write the model with standardized effects (`theta = mu + tau * z`, as in
# `examples/eight_schools.py`). The evidence is the same, and the funnel is gone.
#
# What is not safe: `reference=False`. It always anneals from the base you gave, which here is much narrower than the
# funnel:

# %%
narrow = qp.evidence(base, funnel, budget=100_000, reference=False, key=jax.random.key(3))
print(f"{narrow.log_evidence:.3f} +- {narrow.log_evidence_se:.3f}, exact 0, {narrow.verdict.level}")

# %% [markdown]
# The verdict sees the heavy tail of the weights. Do not rely on it: with other keys the tail looks lighter, and the
# same wrong number is called sound. The base must cover the target, as a prior covers its posterior. Let it err on the
# wide side.
#
# ## Several modes
#
# Each mode that an ascent finds becomes a component of the reference distribution, however far apart they are. One that
# is much harder to reach than the others may be missed: run a second key ([Verdicts that were
# wrong](how_wrong.md#verdicts-that-were-wrong-in-version-01)).


# %%
def log_modes(x):
    return jnp.logaddexp(jnp.sum(normal(x, -4.0, 0.3)), jnp.sum(normal(x, 4.0, 0.3))) - jnp.log(2.0)


wide = qp.MultivariateNormal(jnp.zeros(2), 25.0 * jnp.eye(2))
two = qp.evidence(wide, qp.Density(log_modes), budget=50_000, key=jax.random.key(0))
print(f"{two.log_evidence:.4f} +- {two.log_evidence_se:.4f}, exact 0, {two.verdict.level}")
print(two.verdict.chosen[0])
assert abs(two.log_evidence) < 4 * two.log_evidence_se

# %% [markdown]
# This target has 256 modes. With a small budget ascents find some of them, and the verdict says how much of the mass
# lies in the others, by estimate.


# %%
def log_many(x):
    return jnp.sum(jnp.logaddexp(normal(x, -2.0, 0.3), normal(x, 2.0, 0.3)) - jnp.log(2.0))


base, target = qp.MultivariateNormal(jnp.zeros(8), 9.0 * jnp.eye(8)), qp.Density(log_many)
few = qp.evidence(base, target, budget=20_000, key=jax.random.key(0))
print(f"{few.log_evidence:.2f}, exact 0, {few.verdict.level}")
print(few.verdict.findings[1])
assert few.verdict.level == "doubtful"

# %% [markdown]
# With 300,000 evaluations the ascents find all of them:

# %%
many = qp.evidence(base, target, budget=300_000, key=jax.random.key(0))
print(f"{many.log_evidence:.2f} +- {many.log_evidence_se:.2f}, exact 0")
assert abs(many.log_evidence) < 4 * many.log_evidence_se

# %% [markdown]
# What you can do: order labels that can be exchanged in the prior, and give a larger budget. A mode that no run finds
# appears in no verdict: see [a silent mode](how_wrong.md#a-silent-mode).
#
# ## Hard bounds
#
# Return `-inf` outside: it is exact, and moves that step over the bound are rejected. Below, a normal posterior in
# five dimensions is cut off at `x[0] > 1`.

# %%
prior = qp.MultivariateNormal(jnp.zeros(5), jnp.eye(5))


def log_cut(x):
    inside = prior.log_prob(x) - 2.0 * jnp.sum((x - 1.0) ** 2)
    return jnp.where(x[0] > 1.0, inside, -jnp.inf)


cut = qp.evidence(prior, qp.Density(log_cut), budget=100_000, key=jax.random.key(0))
exact = 5 * (-0.5 * np.log(5) - 0.4) + float(jax.scipy.stats.norm.logsf(1.0, 0.8, 5**-0.5))
print(f"{cut.log_evidence:.3f} +- {cut.log_evidence_se:.3f}, exact {exact:.3f}, {cut.verdict.level}")
print(*cut.verdict.chosen, sep="\n")
assert abs(cut.log_evidence - exact) < 4 * cut.log_evidence_se

# %% [markdown]
# What you can do: prefer a prior with that support, such as `prior={"rate": dist.HalfNormal(1)}`. It works on an
# unconstrained scale, where there is no bound.
#
# ## In short
#
# | what you see | what it means | what to do |
# |---|---|---|
# | few effective draws, large standard error | the budget is too small for this path | a larger `budget` |
# | scores do not average to zero | part of the target was not reached, often a neck | standardize the effects |
# | islands disagree, particles lag | moves do not cross between parts of the target | a larger budget, a kernel with more steps |
# | moves are rarely accepted | scales differ from place to place | reparameterize |
# | the pilot did not reach the target | the base is too far away | a base nearer to the target |
#
# Next: [What is an annealing path?](what_is_a_path.md)
