# %% [markdown]
# # Write an algorithm
#
# An algorithm that carries one population from the base to the target is an `AbstractAnnealer`. It is a frozen
# [equinox](https://docs.kidger.site/equinox/) module that holds the settings, and it has three methods:
#
# | method | returns |
# |---|---|
# | `begin(path, *, key)` | the run (`Annealing`) and its population at beta = 0 (`State`) |
# | `finish(annealing, state, stats)` | the `Result` |
# | `count(num_steps)` | the `Cost` of the first steps, the start included |
#
# The steps in between are those of `qpaths.annealing`, so `run` is inherited. `qpaths.drive` (progress, checkpoints)
# and `qpaths.ThermodynamicIntegration` then take the algorithm like any other, and so does `Recipe.run`.

# %%
import equinox as eqx
import jax
import jax.numpy as jnp

import qpaths as qp
from qpaths.algorithms import AbstractAnnealer
from qpaths.annealing import Population, anneal, begin
from qpaths.kernels import AbstractKernel
from qpaths.rows import stream_for
from qpaths.schedules import AbstractSchedule
from qpaths.stats import importance_log_evidence
from qpaths.testing import check_algorithm


class WeightedChains(AbstractAnnealer):
    """Independent chains that are weighted and moved, and never resampled."""

    num_chains: int = eqx.field(static=True)  # settings that are not arrays are static
    schedule: AbstractSchedule
    kernel: AbstractKernel

    @property
    def population(self):
        return Population(threshold=None)  # None: never resample

    def begin(self, path, *, key):
        start, run = stream_for(key, path, self).split(2)  # random numbers of the draws, and of the steps
        draw = (start, self.num_chains)
        return begin(path, self.schedule, self.kernel, self.population, stream=run, draw=draw)

    def finish(self, annealing, state, stats):
        num_steps = stats["beta"].shape[0]  # fewer than planned after an interruption
        log_evidence, standard_error = importance_log_evidence(state.log_weights)
        return qp.Result(
            log_evidence=log_evidence,
            log_evidence_se=standard_error,
            samples=annealing.evaluator.layout.points(state.particles.position),
            log_weights=state.log_weights,  # their log-mean-exp is the log evidence
            betas=self.schedule.betas[: num_steps + 1],
            stats=stats,
            status=state.fault.status,
            num_evaluations=self.count(num_steps),
            algorithm="Weighted chains",
        )

    def count(self, num_steps):
        return self.population.cost(self.kernel, self.num_chains, num_steps)


# %% [markdown]
# `check_algorithm` runs it many times on a problem with a known evidence. A failure lists what is wrong.

# %%
kernel = qp.HMC(num_leapfrog=3, step_size=0.5, preconditioner="none")  # has nothing to fit, so weights are unbiased
algorithm = WeightedChains(50, qp.LinearSchedule(6), kernel)

base = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
path = qp.GeometricPath(base, qp.Density(lambda x: -2.0 * jnp.sum((x - 1.0) ** 2)))
check_algorithm(algorithm, path, jnp.log(jnp.pi / 2), num_replicates=30)
print(algorithm.run(path, key=jax.random.key(0)).summary())
result = qp.drive(algorithm, path, key=jax.random.key(0), progress=False)  # the same numbers

# %% [markdown]
# ## The parts
#
# - `stream_for(key, path, self)` decides where the run lives: on the host with NumPy, or in a compiled program.
#     `split` and `fold` make further streams. Use each once.
# - `Population` says how particles go from one beta to the next: `threshold`, `scheme`, `cross_fit`, `chain_length`,
#     `chunk_size`.
# - `begin` evaluates the first particles and fits the kernel. Give `draw=(stream, num)` to start at draws from the
#     base, or `points=`.
# - Take weights from `state.log_weights` (since the last resampling; `state.log_evidence` includes those before) or
#     from `path.log_ratio`, and from nowhere else.
# - `state.fault` is the first problem of the run. `qpaths.algorithms.raising.raise_fault` in `finish` raises it with
#     its point.
# - A kernel that is fitted to the particles that it moves biases the evidence. `AIS` fits it in a pilot and freezes
#     it. `SMC` moves each half of the particles with a kernel that is fitted to the other half.
#
# ## Keep more of a run
#
# `anneal` steps from beta to beta until 1. Its recorder sees the state and the statistics after each step, and what it
# returns is stacked along the steps. Here it also keeps the mean of the particles:


# %%
def with_mean(state, stats):
    return {**stats, "mean": state.particles.position.mean(axis=0)}


annealing, state = algorithm.begin(path, key=jax.random.key(0))
state, kept = anneal(annealing, state, record=with_mean)
for beta, mean in zip(kept["beta"], kept["mean"], strict=True):
    print(f"beta {beta:.1f}: mean {mean[0]:.2f}, {mean[1]:.2f}")

# %% [markdown]
# Outside `jax.jit`, `choose(state)` can replace the schedule, and `observe(state, rows)` is called after each step.
# Inside `jax.jit` the loop is a compiled scan, and the schedule must be fixed.
#
# ## Test it
#
# `check_algorithm` compares the mean of Z-hat / Z with 1, within five standard errors, the reported standard error
# with the spread, and `log_mean_exp(log_weights)` with the log evidence. Without a path it takes normal distributions
# in three dimensions. A good test also rejects a wrong part: `qpaths.testing.StaleBeta`.
#
# An algorithm of another shape, such as parallel tempering, is a plain module with `run(path, *, key)` that returns a
# `Result`. `check_algorithm` takes it too; `drive` does not.
#
# Next: [Decoders on a GPU](decoders.md)
