# %% [markdown]
# # What is an annealing path, and what does q do?
#
# The target is hard to sample, and its integral is unknown. The base is easy: the prior, say. An *annealing path* joins
# the two by densities at `beta` between 0 (the base) and 1 (the target). A sampler walks along the path in small steps.
# Each step changes the density a little, so that draws from one density, with weights, represent the next.
#
# ## The geometric path
#
# The usual path multiplies powers of both ends, `base^(1-beta) target^beta`. Here are the densities between two normal
# distributions with means -4 and 4 and variances 3 and 1, by beta from bottom to top.

# %% picture: Ridges of normalized densities, from the base at the bottom to the target at the top. The bump moves from minus four to plus four and becomes narrower.
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import qpaths as qp
from qpaths.plotting import plot_paths, plot_ridges

base, target = qp.Normal(-4.0, 3.0**0.5), qp.Normal(4.0, 1.0)
grid = jnp.linspace(-10, 8, 150)
plot_ridges(qp.GeometricPath(base, target), grid, np.linspace(0, 1, 9), ax=plt.subplots(layout="constrained")[1])

# %% [markdown]
# ## Power means
#
# A geometric mean is one of many means. The *q-path* takes the power mean of order `1 - q` of the two densities at each
# point:
#
# $$\pi_{\beta, q}(x) = \left[(1-\beta)\, \pi_0(x)^{1-q} + \beta\, \pi_1(x)^{1-q}\right]^{1/(1-q)} .$$
#
# At `q = 1` this is the geometric path, at `q = 0` the mixture.

# %% picture: Four panels of densities between the same two normals. At q = 0 and 0.5 two bumps trade heights. At q = 0.9 a bump spreads across. At q = 1 one bump moves.
values = {f"q = {q:g}": qp.QPath(base, target, q=q) for q in (0.0, 0.5, 0.9, 1.0)}
plot_paths(values, grid, np.linspace(0, 1, 9))

# %% [markdown]
# The geometric path carries a single bump through places where neither end has mass. The mixture never goes there. In
# between are paths that do some of both. Try it in the [explorer](../explorer/index.html).
#
# ## What one step costs
#
# Take draws from the base and weight them for the density at `beta`. The effective sample size (ESS) says how many
# draws are left. The weights need only the two log densities at each draw: changing `beta` or `q` evaluates nothing
# again.

# %% picture: Effective share of draws against beta for four values of q. The geometric path falls first, the mixture last, and all are near zero at beta = 1.
draws = jax.vmap(base.sample)(jax.random.split(jax.random.key(0), 2000))
log_base, log_target = (np.asarray(jax.vmap(end.log_prob)(draws)) for end in (base, target))


def effective_share(path, beta):
    weights = np.exp(path.interpolate(beta, log_base, log_target) - log_base)
    return np.mean(weights) ** 2 / np.mean(weights**2)


ax = plt.subplots(layout="constrained")[1]
betas = np.linspace(0, 1, 60)
for name, path in values.items():
    ax.plot(betas, [effective_share(path, beta) for beta in betas], label=name)
ax.set(xlabel="beta", ylabel="effective share of the draws")
ax.legend()
assert effective_share(values["q = 1"], 0.1) < effective_share(values["q = 0"], 0.1)

# %% [markdown]
# The mixture keeps nearly all draws for a long time, which looks good and is not: no draw from the base has come near
# the target, so all weights are alike.
#
# ## How long is the path?
#
# The length of a short step is the standard deviation of its log weight. The sum over the path is its *length*. It does
# not depend on how the betas are spaced. For a given accuracy, the number of distributions grows with the square of the
# length. With exact draws at every beta the length falls as q falls to 0: a mixture is a shortcut.

# %%
points = np.linspace(-20, 15, 4000)
on_grid = [np.asarray(jax.vmap(end.log_prob)(points)) for end in (base, target)]


def length(path, num=400):
    lengths = []
    for beta in (np.arange(num) + 0.5) / num:
        density = np.exp(path.interpolate(beta, *on_grid))
        slope = path.derivative(beta, *on_grid)
        mean = np.average(slope, weights=density)
        lengths.append(np.sqrt(np.average((slope - mean) ** 2, weights=density)))
    return np.mean(lengths)


for name, path in values.items():
    print(f"{name:8} length {length(path):.2f}")
assert length(values["q = 0"]) < length(values["q = 0.9"]) < length(values["q = 1"])

# %% [markdown]
# ## A short path is not a good path
#
# A real sampler moves its particles by local steps. On the mixture they would have to jump from one end to the other.
# So the shortest path is the worst one for a sampler. Below, one SMC run per q goes from N(-4, 1) to N(4, 1) in five
# dimensions, with the same 20 distributions and the same moves. The exact log evidence is 0.

# %%
first = qp.MultivariateNormal(-4.0 * jnp.ones(5), jnp.eye(5))
second = qp.MultivariateNormal(4.0 * jnp.ones(5), jnp.eye(5))
sampler = qp.SMC(400, qp.LinearSchedule(20), qp.HMC(num_leapfrog=3))
found = {}
for q in (0.0, 0.9, 0.99, 1.0):
    result = sampler.run(qp.QPath(first, second, q=q), key=jax.random.key(0))
    found[q] = result.log_evidence
    print(f"q = {q:<5} log evidence {result.log_evidence:8.2f} +- {result.log_evidence_se:.2f}")
assert abs(found[1.0]) < 1.0 < abs(found[0.0])

# %% [markdown]
# At `q = 0` and 0.9 no particle arrives. Values a little below 1 are the useful ones: `1 - q` is usually between
# 0.0001 and 0.01, since the log densities differ by hundreds.
#
# On a q-path a constant factor in the target shifts the path along beta: [The scale of the
# target](../paths.md#the-scale-of-the-target).
#
# Next: [Choosing q, schedule, kernel and reference](choosing.md)
