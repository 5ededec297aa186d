# %% [markdown]
# # How wrong is my evidence?
#
# A log evidence can be precise and wrong. This page shows five real failures, two of them of earlier versions of this
# library, and what reveals each. All have a known answer, so you can see the error.

# %%
import jax
import jax.numpy as jnp
import numpy as np

import qpaths as qp

normal = jax.scipy.stats.norm.logpdf


def show(result, exact):
    error = float(result.log_evidence - exact)
    print(f"error {abs(error):.3f}, standard error {result.log_evidence_se:.3f}, {result.verdict.level}")
    print(*result.verdict.findings, sep="\n")


# %% [markdown]
# ## Half a prior
#
# `sigma` is positive, and its prior is the positive half of a normal distribution. The density below lacks the factor 2.
# Stan programs do the same: `sigma ~ normal(0, 1)` with `sigma > 0` keeps half of the mass, which posterior draws never
# notice. The log evidence is off by log 2 = 0.69 nats for each such parameter, a Bayes factor of 2.

# %%
y = jnp.array([1.1, 0.4, 2.3, 1.7, 0.9, 1.4])


def log_likelihood(x, y):
    return jnp.sum(normal(y, 1.0, jnp.exp(x[0])))


def log_half(x):  # of log sigma, the Jacobian x[0] included
    return normal(jnp.exp(x[0])) + x[0]


half = qp.evidence(
    log_prior=log_half,
    log_likelihood=log_likelihood,
    sample_prior=lambda key: jnp.log(jnp.abs(jax.random.normal(key, (1,)))),
    data=y,
    budget=20_000,
    key=jax.random.key(0),
)
grid = jnp.linspace(-15, 4, 4001)
exact = jax.nn.logsumexp(jax.vmap(lambda u: log_half(u[None]) + log_likelihood(u[None], y) + jnp.log(2.0))(grid))
show(half, exact + jnp.log(grid[1] - grid[0]))
assert half.verdict.level == "wrong"

# %% [markdown]
# What shows it: `evidence` compares the density of the prior with draws from its sampler. Priors as objects
# (`prior={"sigma": dist.HalfNormal(1)}`), `from_numpyro` and `from_pymc` have the factor.
#
# ## A bridge with bad draws
#
# Bridge sampling takes draws on trust. Here they come from a normal posterior, but with deviations that are 1.5 times
# too large, as from a sampler that mixes up two scales. A plain bridge from a fitted normal distribution:


# %%
def log_joint(x):
    return jnp.sum(normal(x, 0.0, 3.0)) + jnp.sum(normal(jnp.array([1.0, -2.0, 0.5]), x, 0.5))


generator, scale = np.random.default_rng(0), (1 / 9 + 4) ** -0.5
draws = 4 * scale**2 * np.array([1.0, -2.0, 0.5]) + 1.5 * scale * generator.standard_normal((4000, 3))
exact = sum(float(normal(value, 0.0, 9.25**0.5)) for value in (1.0, -2.0, 0.5))

fitted = qp.MultivariateNormal(draws[:2000].mean(axis=0), jnp.cov(draws[:2000].T))
log_ratio = jax.vmap(lambda x: log_joint(x) - fitted.log_prob(x))
from_fitted = log_ratio(jax.vmap(fitted.sample)(jax.random.split(jax.random.key(0), 2000)))
plain = qp.stats.bridge(np.asarray(from_fitted)[None], -np.asarray(log_ratio(draws[2000:]))[None])[0]
print(f"error of a plain bridge {plain - exact:+.3f}")
checked = qp.evidence_from_draws(log_joint, draws, key=jax.random.key(0))
show(checked, exact)
assert checked.verdict.level != "sound"

# %% [markdown]
# What shows it: moves that leave a density as it is must leave its draws as they are. `evidence_from_draws` makes them;
# version 0.1 did not. Trace plots and r-hat show nothing, since the chains mix well, only to another density.
#
# ## Draws of one mode
#
# A sampler that starts in one of two modes stays there. All chains agree, and half of the evidence is missing.


# %%
def log_two(x):
    return jnp.logaddexp(jnp.sum(normal(x, -4.0, 0.5)), jnp.sum(normal(x, 4.0, 0.5))) - jnp.log(2.0)


one = 4.0 + 0.5 * generator.standard_normal((2000, 2))
stuck = qp.evidence_from_draws(log_two, one, key=jax.random.key(0))
show(stuck, 0.0)
assert stuck.verdict.level != "sound"

# %% [markdown]
# What shows it: ascents from far around the draws end at a mode where no draw is. `evidence` starts from the prior, and
# depends on no sampler.
#
# ## A silent mode
#
# A sampler knows only places that it has visited. Here 90 % of the likelihood's mass sits in a needle of width 0.05 in
# four dimensions, far from a wide hill that has the rest.

# %%
center = 4.0 * jnp.ones(4)


def needle(x):
    hill = jnp.log(0.1) + jnp.sum(normal(x, 0.0, 1.0))
    return jnp.logaddexp(hill, jnp.log(0.9) + jnp.sum(normal(x, center, 0.05)))


wide = qp.MultivariateNormal(jnp.zeros(4), 25.0 * jnp.eye(4))
target = qp.Density(lambda x: wide.log_prob(x) + needle(x))
parts = [jnp.log(0.1) + jnp.sum(normal(jnp.zeros(4), 0.0, 26.0**0.5))]
parts += [jnp.log(0.9) + jnp.sum(normal(center, 0.0, 25.0025**0.5))]
exact = float(jnp.logaddexp(*parts))
fooled = qp.evidence(wide, target, budget=50_000, key=jax.random.key(0))
show(fooled, exact)
assert fooled.verdict.level == "sound"
assert exact - fooled.log_evidence > 1.0

# %% [markdown]
# **This is wrong by more than a nat, and called sound.** No ascent and no particle came near the needle, which fills a
# hundred-millionth of the prior. Another key or a larger budget seldom helps. Knowledge does: if you suspect a second
# explanation of the data, give a base that covers both. It only has to be normalized and easy to sample. The target is
# still prior times likelihood.


# %%
def sample_both(key):
    first, second = jax.random.split(key)
    near = center + 0.1 * jax.random.normal(second, (4,))
    return jnp.where(jax.random.bernoulli(first), near, wide.sample(second))


def log_both(x):
    return jnp.logaddexp(wide.log_prob(x), jnp.sum(normal(x, center, 0.1))) - jnp.log(2.0)


known = qp.evidence(qp.Density(log_both, sample_both), target, budget=50_000, key=jax.random.key(0))
show(known, exact)
assert abs(known.log_evidence - exact) < 4 * known.log_evidence_se

# %% [markdown]
# ## Verdicts that were wrong in version 0.1
#
# **Eight equal wells in ten dimensions.** Version 0.1 lost one or two of them with two of four keys, and said
# "-0.289 +- 0.002, sound". Each ascent ends in one well, and a well that no ascent meets goes unseen.

# %%
centers = 2.5 * jax.random.normal(jax.random.key(5), (8, 10))
base = qp.MultivariateNormal(jnp.zeros(10), 9.0 * jnp.eye(10))


def log_wells(x):
    return jax.nn.logsumexp(-0.5 * jnp.sum((x - centers) ** 2, axis=-1) / 0.16)


exact = np.log(8) + 5 * np.log(2 * np.pi * 0.16)
wells = [qp.evidence(base, qp.Density(log_wells), key=jax.random.key(seed)) for seed in (1, 2)]
for found in wells:
    weighted = np.asarray(found.samples)[np.asarray(found.log_weights) > -np.inf]
    nearest = np.argmin(np.sum((weighted[:, None] - np.asarray(centers)) ** 2, axis=-1), axis=1)
    print(f"error {abs(found.log_evidence - exact):.3f}; draws in {len(np.unique(nearest))} wells")
assert abs(max(found.log_evidence for found in wells) - exact) < 4 * max(found.log_evidence_se for found in wells)

# %% [markdown]
# What showed it: a second key. The answers differed by 0.15 nats with standard errors of 0.002, and their draws lay in
# different numbers of wells. What all islands of a run have missed together, no spread between them can show. Lost mass
# makes an answer too low, so of two that disagree the higher one is nearer to the truth. It happens less often now, and
# it can still happen.
#
# **Eight schools, from draws of NUTS.** Version 0.1 said "-1e75 +- nan, sound". A log scale stands in an exponential, so
# the log density falls to huge negative values far from the draws, and the bridge ended there.

# %%
from numpyro.infer import MCMC, NUTS

effects = jnp.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
errors = jnp.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def log_schools(x):  # mu, log tau, and a standardized effect for each school
    tau, z = jnp.exp(x[1]), x[2:]
    log_prior = normal(x[0], 0.0, 5.0) + jnp.log(2 / (jnp.pi * 5)) - jnp.log1p((tau / 5) ** 2) + x[1]
    return log_prior + jnp.sum(normal(z)) + jnp.sum(normal(effects, x[0] + tau * z, errors))


mcmc = MCMC(NUTS(potential_fn=lambda x: -log_schools(x)), num_warmup=500, num_samples=1000, progress_bar=False)
mcmc.run(jax.random.key(1), init_params=jnp.zeros(10))
schools = qp.evidence_from_draws(log_schools, np.asarray(mcmc.get_samples()), key=jax.random.key(2))
show(schools, -31.3113)
assert abs(schools.log_evidence + 31.3113) < 4 * schools.log_evidence_se

# %% [markdown]
# What showed it: the number itself. A log evidence that no data of that size can have, or an error that is no number, is
# "wrong" today in every result. The exact value is on the page of [reference log evidences](../reference_evidences.md).
#
# ## What shows what
#
# | failure | what shows it |
# |---|---|
# | a prior that does not integrate to 1, or a sampler of something else | the verdict: `wrong`; `benchmarks/results/mistakes.md` has how often |
# | draws of another density | `evidence_from_draws`: moves change the draws |
# | draws that miss a mode | `evidence_from_draws` and ascents, if an ascent meets it |
# | too small a budget | the verdict: few effective draws, islands that disagree, heavy weights |
# | a mode that no run has met | another key, another method, what you know of the problem; no verdict |
#
# So before you rely on a number:
#
# 1. Run again with another key. Compare with `evidence_from_draws` on the draws of another sampler.
# 2. Look at the posterior. Does it hold what you know about the problem?
# 3. Simulate data from the model and use the [certificate](is_it_right.md#the-certificate). If the prior produces such
#    modes, the gap shows it.
#
# Next: [Compare models](compare_models.md)
