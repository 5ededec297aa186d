# %% [markdown]
# # Choosing q, schedule, kernel and reference
#
# `evidence` chooses all four. This page shows what each of them is worth, so that you can choose yourself when you
# build your own sampler. In short: tune the kernel and the schedule first, anneal from a reference where one fits, and
# choose q last.
#
# ## A problem
#
# A logistic regression with 200 rows and eight weights. The prior N(0, 25) is wide, so the path is long. `evidence` gives
# a number to compare with.

# %%
import jax
import jax.numpy as jnp
import numpy as np

import qpaths as qp

generator = np.random.default_rng(0)
rows = generator.normal(size=(200, 8))
labels = np.where(generator.uniform(size=200) < 1 / (1 + np.exp(-rows @ np.linspace(-2, 2, 8))), 1.0, -1.0)
prior = qp.MultivariateNormal(jnp.zeros(8), 25.0 * jnp.eye(8))


def log_joint(w):
    return prior.log_prob(w) - jnp.sum(jax.nn.softplus(-labels * (w @ rows.T)))


path = qp.GeometricPath(prior, qp.Density(log_joint))
truth = qp.evidence(path.base, path.target, budget=30_000, key=jax.random.key(0))
print(f"{truth.log_evidence:.3f} +- {truth.log_evidence_se:.3f}")

# %% [markdown]
# ## The kernel
#
# We run the same population with three kernels. A random walk needs no gradient, but many moves. Hamiltonian Monte Carlo
# (HMC) needs the gradient and follows it. Evaluations count values of the density once and gradients twice.


# %%
def root_mean_square_error(name, path, schedule, kernel):
    runs = [qp.SMC(200, schedule, kernel).run(path, key=jax.random.key(seed)) for seed in (0, 1)]
    error = np.sqrt(np.mean([(run.log_evidence - truth.log_evidence) ** 2 for run in runs]))
    print(f"{name:24} error {error:6.2f} with {runs[0].num_evaluations.total:6,} evaluations")
    return error


hmc = qp.HMC(num_leapfrog=3)
adaptive = qp.AdaptiveSchedule(0.5)
kernels = {"random walk, 1 move": qp.RandomWalk(1), "random walk, 10 moves": qp.RandomWalk(10), "HMC": hmc}
errors = [root_mean_square_error(name, path, adaptive, kernel) for name, kernel in kernels.items()]
assert errors[0] > 3 * errors[2]

# %% [markdown]
# One move is not enough: the particles stay behind the path, and the estimate is far too small.
#
# ## The schedule
#
# Equal steps in `beta` are rarely equal steps in difficulty: most of the change happens near the base.
# `AdaptiveSchedule` finds each next beta from the effective sample size. `equalize` places the betas at equal lengths,
# measured in pilot runs. Its schedule is fixed, as AIS, BDMC and compiled runs need.

# %%
linear = qp.LinearSchedule(12)
equal = qp.equalize(path, key=jax.random.key(3), schedule=12, kernel=hmc, num_particles=200)
on_linear = root_mean_square_error("12 distributions, linear", path, linear, hmc)
on_equal = root_mean_square_error("12 at equal lengths", path, equal.schedule, hmc)
print("betas:", ", ".join(f"{beta:.4f}" for beta in equal.schedule.betas))
print(f"length {equal.barrier:.1f}; AIS needs {equal.num_for(0.1)} distributions to come within 0.1 nats")
assert on_linear > 3 * on_equal

# %% [markdown]
# ## q
#
# On a linear schedule a q a little below 1 spreads the change over more of the steps. `choose_q` finds one. Its rule
# `"bound"` needs no known answer: the mean of the estimates of SMC is a lower bound of the log evidence. `deltas` are
# the values of `1 - q` to try. The random walk saves time on this page; as a rule, take the kernel that you will run
# with.

# %%
chosen = qp.choose_q(
    path, key=jax.random.key(4), schedule=linear, kernel=qp.RandomWalk(10), deltas=[0.003, 0.01], num_particles=100
)
print(f"q = {float(chosen.q):g}")
assert root_mean_square_error("the same q-path, linear", chosen, linear, hmc) < on_linear

# %% [markdown]
# The paper's rules are there as well: `method="rho"`, `"ess"` and `"grid"`. Once the schedule is tuned, q adds little,
# and once a reference is fitted it adds nothing: [Where q helps](../atlas.md) has measurements on eleven problems.
#
# ## The reference
#
# A *reference* was fitted to the posterior in pilot runs. It is normalized and can be sampled, so the path from there
# is exact, and much shorter. `tune` chooses a reference, q, a schedule and a kernel and freezes them.

# %%
recipe = qp.tune(path, key=jax.random.key(6), budget=40_000)
print(*recipe.notes, sep="\n")
tuned = recipe.run(qp.SMC, 300, key=jax.random.key(7))
print(f"error {abs(tuned.log_evidence - truth.log_evidence):.3f} with {tuned.num_evaluations.total:,} evaluations")
assert abs(tuned.log_evidence - truth.log_evidence) < 0.2

# %% [markdown]
# A reference is refused where it does not fit: at a hard bound, in a neck, with heavy tails. The notes then say why,
# and the path starts at the prior.
#
# ## What to use when
#
# | you have | use |
# |---|---|
# | a model and a question | `evidence` |
# | a path of your own | `evidence(path=...)`, or `SMC` with `AdaptiveSchedule` and `HMC` |
# | no gradients | `RandomWalk` with 10 moves or more, or `SMC(..., chain_length=50)` |
# | a bound rather than an estimate | `AIS` or `BDMC` with the schedule and kernel of `tune` |
# | many similar problems | `tune(path_of, problems=..., num_gradients=...)`, then one compiled run |
# | a target with separate modes that a kernel must cross | `ParallelTempering` |
#
# Next: write [a path](own_path.md), [a kernel](own_kernel.md) or [an algorithm](own_algorithm.md)
