# %% [markdown]
# # Write a kernel
#
# A kernel moves all particles at once. Its arrays have a leading particle axis. They are NumPy arrays on the host and
# JAX arrays in a compiled program, and `evaluator.xp` is the library to compute with.

# %%
import equinox as eqx
import jax
import jax.numpy as jnp

import qpaths as qp
from qpaths.core import Cost
from qpaths.kernels.base import AbstractKernel, accept, per_particle
from qpaths.testing import check_kernel


class Cube(AbstractKernel):
    """A random walk with uniform steps, as wide as the particles spread."""

    num_steps: int = eqx.field(static=True, default=1)  # settings that are not arrays are static
    with_slopes = False  # needs no gradient
    needs_fit = True  # looks at the particles
    cost = Cost.values(1)  # of one transition of one particle: one value of each endpoint

    def fit(self, cloud, stream, previous):
        """The parameters of one group of particles: here one width for each coordinate."""
        return cloud.evaluator.xp.std(cloud.positions, axis=0)

    def randomness(self, rows, position, num):
        """All random numbers of `num` transitions: arrays whose first two axes are transition and particle."""
        _, uniform = rows.draw(position.shape[0], num, 0, position.shape[1] + 1, dtype=position.dtype)
        return uniform[..., 1:], uniform[..., 0]

    def transition(self, evaluator, beta, particles, randomness, params):
        steps, uniform = randomness
        width = per_particle(params, len(uniform))  # parameters have a leading axis of groups
        ahead = particles.position + width * (2 * steps - 1)
        proposal = evaluator.particles(ahead, with_slopes=False)  # evaluates both endpoints, once
        return accept(uniform, evaluator, beta, particles, proposal, evaluator.xp.zeros_like(uniform))


# %% [markdown]
# `check_kernel` moves exact draws and checks that they are still exact draws, also next to a hard bound. A failure
# lists what is wrong.

# %%
check_kernel(Cube(5))

base = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
path = qp.GeometricPath(base, qp.Density(lambda x: -2.0 * jnp.sum((x - 1.0) ** 2)))
result = qp.SMC(500, qp.AdaptiveSchedule(), Cube(5)).run(path, key=jax.random.key(0))
print(result.summary())
assert abs(result.log_evidence - jnp.log(jnp.pi / 2)) < 4 * result.log_evidence_se

# %% [markdown]
# ## The methods
#
# | name | meaning |
# |---|---|
# | `num_steps` | transitions at each beta |
# | `with_slopes` | whether the kernel needs gradients |
# | `needs_fit` | whether `fit` looks at the particles |
# | `cost` | the `Cost` of one transition of one particle |
# | `fit_cost(num_particles, again)` | the `Cost` of one call of `fit`; nothing unless `fit` evaluates densities |
# | `fit(cloud, stream, previous)` | the parameters of one group of particles, for the beta of the cloud |
# | `between(low, high, share)` | parameters between those of two betas; linear unless the kernel says otherwise |
# | `first_memory(position, stream)` | what the kernel keeps about each particle, at the start of a run; as a rule nothing |
# | `randomness(rows, position, num)` | the random numbers of `num` transitions |
# | `transition(evaluator, beta, particles, randomness, params)` | the new particles, and an `Info` |
#
# - `cloud` holds `evaluator`, `beta`, `particles`, `log_weights` and `positions`. `previous` are the parameters at the
#     beta before, or None. `stream` has random numbers for `fit`. A kernel without parameters needs no `fit`. A class
#     of parameters (a named tuple) stands in the module of the kernel, so that checkpoints can hold it.
# - `transition` must use its parameters and nothing else. With frozen parameters it then leaves the density at `beta`
#     exactly invariant, and AIS and BDMC are exact. `accept` is the Metropolis rule; its last argument is the log of
#     the proposal ratio.
# - `evaluator.particles(positions, with_slopes=...)` evaluates both endpoints once per row, and
#     `evaluator.log_density(beta, features)` is arithmetic on what was found. `waypoints` and `score` serve kernels
#     that follow gradients (`src/qpaths/kernels/gradient.py`).
# - Particles fall into groups of equal size, and each array of the parameters has a leading axis of groups: two in
#     SMC, where each half is moved by the kernel that was fitted to the other, and one for each beta in parallel
#     tempering.
# - `Cost.values(n)` counts n values of each endpoint, and `Cost.gradients(n)` n values with gradient.
# - `particles.memory` is None, unless `first_memory` returns something, as `HMC(persistence=0.7)` does for the
#     momenta. It travels with the particle, and `transition` returns it. The kernel must leave the density times the
#     law of the momentum invariant.
# - `between` interpolates parameters between the betas of a pilot. Scales should go geometrically
#     (`qpaths.kernels.factors`). `KernelWrapper` passes everything on to another kernel.
#
# ## Test it
#
# `check_kernel` also compares the host with the compiled program, chunks with the whole, and the evaluations with
# `cost`. `qpaths.testing.check_algorithm(qp.SMC(200, qp.LinearSchedule(8), Cube(3)))` runs the kernel against a known
# evidence. A kernel that always accepts (`qpaths.testing.NoRejection`) fails both.
#
# Next: [Write an algorithm](own_algorithm.md)
