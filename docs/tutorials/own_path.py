# %% [markdown]
# # Write a path
#
#
# A path whose density at a point depends on the two endpoint densities there is an `AbstractPointwisePath` with one
# method. Every algorithm, kernel, schedule and tuner takes it.

# %%
import equinox as eqx
import jax
import jax.numpy as jnp

import qpaths as qp
from qpaths.core import namespace
from qpaths.densities import DensityLike, endpoint
from qpaths.testing import check_path


class SlowStart(qp.paths.AbstractPointwisePath):
    """The geometric path with beta (1 + beta) / 2 in place of beta: smaller steps at the base."""

    base: DensityLike = eqx.field(converter=endpoint("base"))  # a plain function becomes a `Density`
    target: DensityLike = eqx.field(converter=endpoint("target"))

    def interpolate(self, beta, log_base, log_target):
        xp = namespace(beta, log_base, log_target)  # NumPy on the host, JAX in a compiled program
        share = xp.where((beta >= 0) & (beta <= 1), beta * (1 + beta) / 2, xp.nan)
        inside = (1 - share) * log_base + share * log_target
        return xp.where(beta == 0, log_base, xp.where(beta == 1, log_target, inside))  # 0 * inf would be NaN

    def derivative(self, beta, log_base, log_target):
        xp = namespace(beta, log_base, log_target)
        return xp.where((beta >= 0) & (beta <= 1), (0.5 + beta) * (log_target - log_base), xp.nan)


# %% [markdown]
# `check_path` tries the rules that every path must follow. A failure lists all rules that are broken.

# %%
base = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
path = SlowStart(base, lambda x: -2.0 * jnp.sum((x - 1.0) ** 2))
check_path(path)

# %% [markdown]
# Now it runs in every algorithm, and in `evidence(path=path, key=...)`. The exact answer is `log(pi / 2)`.

# %%
result = qp.SMC(500, qp.AdaptiveSchedule(), qp.RandomWalk(5)).run(path, key=jax.random.key(0))
print(result.summary())
assert abs(result.log_evidence - jnp.log(jnp.pi / 2)) < 4 * result.log_evidence_se

# %% [markdown]
# A mistake is caught. This path forgets the base:


# %%
class Forgetful(SlowStart):
    """Wrong: at beta = 0 it is not the base."""

    def interpolate(self, beta, log_base, log_target):
        return beta * log_target


try:
    check_path(Forgetful(base, path.target))
except AssertionError as error:
    print("\n".join(str(error).splitlines()[:2]))
else:
    raise RuntimeError("the mistake went unseen")

# %% [markdown]
# ## The rules
#
# - `interpolate(beta, log_base, log_target)` is elementwise. It returns the endpoints themselves at beta = 0 and 1, and
#   NaN outside [0, 1].
# - `derivative` and `shares` (the weights of the two scores) follow by automatic differentiation. Write them where you
#   know a closed form, or where `interpolate` selects cases, as it does at the ends here.
# - With `jax.numpy` alone a path works everywhere. With `namespace` it is also fast on the host.
# - A path that is not a function of the two endpoint values subclasses `AbstractPath` and writes `features`,
#   `log_density_from` and `at`. A path through the members of a family subclasses `AbstractParametricPath` and writes
#   `member(beta)`.
# - A path with an order q has `delta` and `with_delta(delta)` (`qpaths.paths.Ordered`). Tuning may then choose another
#   order. It leaves any other path as it is.
# - `check_path` draws its points from the base. Give `points=` to include some where an endpoint is `-inf`.
#   `qpaths.testing.StuckEnds` is a wrong path that it rejects.
#
# Next: [Write a kernel](own_kernel.md)
