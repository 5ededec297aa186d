"""What comes after the evidence, against exact answers.

    python -m benchmarks.reliability.after many 2000     # logistic regressions, 3 parameters, 50 rows each
    python -m benchmarks.reliability.after sensitivity   # eight schools, 50 values of the scale of tau's prior
    python -m benchmarks.reliability.after batches       # 100 blocks of a logistic regression
    python -m benchmarks.reliability.after loo           # 20 outliers in a regression
    python -m benchmarks.reliability.after draws         # means and sds of known posteriors

A line for each: the largest error in standard errors, the share within two of them, and CPU seconds of this process.
"""

import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import halfcauchy, multivariate_normal, norm

import qpaths as qp

EFFECTS = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
ERRORS = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])


class Clock:
    """CPU seconds of this process since it was made."""

    def __init__(self):
        self.start = time.process_time()

    @property
    def seconds(self):
        return time.process_time() - self.start


def report(name, error, se, seconds, **more):
    z = np.abs(np.asarray(error)) / np.asarray(se)
    words = ", ".join(f"{key} {value}" for key, value in more.items())
    print(
        f"{name}: error {np.median(np.abs(error)):.4f} median, {np.max(np.abs(error)):.4f} largest; {np.max(z):.1f} se "
        f"largest, {np.mean(z < 2):.1%} within two; {seconds:.1f} CPU s; {words}",
        flush=True,
    )


def logistic(num, rows, key):
    """Predictors, labels, and the model of one data set."""
    x, b, u = jax.random.split(key, 3)
    x = jax.random.normal(x, (num, rows, 3))
    chances = jax.nn.sigmoid(jnp.einsum("nij,nj->ni", x, 2 * jax.random.normal(b, (num, 3))))
    y = jnp.where(jax.random.uniform(u, (num, rows)) < chances, 1.0, -1.0)
    model = {
        "prior": {"b": qp.MultivariateNormal(jnp.zeros(3), 4 * jnp.eye(3))},
        "log_likelihood": lambda p, d: jax.nn.log_sigmoid(d["y"] * (d["x"] @ p["b"])).sum(),
    }
    return {"x": x, "y": y}, model


def many(num=2000):
    """Truth from the same method with ten other keys, whose mean has a third of the error."""
    data, model = logistic(int(num), 50, jax.random.key(0))
    small = jax.tree.map(lambda leaf: leaf[:8], data)
    qp.evidence_many(**model, data=small, key=jax.random.key(1))  # compiles
    clock = Clock()
    found = qp.evidence_many(**model, data=data, key=jax.random.key(2))
    seconds = clock.seconds
    some = jax.tree.map(lambda leaf: leaf[:200], data)
    others = [qp.evidence_many(**model, data=some, key=jax.random.key(10 + i)) for i in range(10)]
    truth = np.log(np.mean([np.exp(one.log_evidence) for one in others], axis=0))
    error = found.log_evidence[:200] - truth
    se = np.hypot(found.log_evidence_se[:200], others[0].log_evidence_se / 10**0.5)
    levels = [str(level) for level in found.levels]
    report("many", error, se, seconds, each=f"{seconds / int(num):.4f} s", sound=levels.count("sound"), of=num)


def sensitivity():
    """Exact curve: given tau the effects are normal, and tau is integrated on a grid."""
    model = {
        "prior": {
            "mu": qp.Normal(0.0, 5.0),
            "tau": _half_cauchy(5.0),
            "z": qp.MultivariateNormal(jnp.zeros(8), jnp.eye(8)),
        },
        "log_likelihood": lambda p: jax.scipy.stats.norm.logpdf(EFFECTS, p["mu"] + p["tau"] * p["z"], ERRORS).sum(),
    }
    scales = np.geomspace(0.1, 50, 50)
    grid = np.geomspace(1e-4, 1e5, 20_001)
    given = [multivariate_normal(np.zeros(8), np.diag(ERRORS**2 + t**2) + 25.0).logpdf(EFFECTS) for t in grid]
    exact = [np.log(np.trapezoid(np.exp(given) * halfcauchy(scale=s).pdf(grid), grid)) for s in scales]
    for seed in range(5):
        clock = Clock()
        result = qp.evidence(**model, key=jax.random.key(seed))
        run = clock.seconds
        curve = qp.sensitivity(result, {"tau": scales}, key=jax.random.key(100 + seed))
        cost = curve.num_evaluations.total / result.num_evaluations.total
        report(
            f"sensitivity {seed}",
            curve.log_evidence - exact,
            curve.log_evidence_se,
            clock.seconds - run,
            evaluations_of_the_run=f"{cost:.2f}",
            seconds_of_the_run=f"{run:.1f}",
            carried=curve.num_moves,
        )


def _half_cauchy(scale):
    import numpyro.distributions as dist

    return dist.HalfCauchy(scale)


def batches():
    """Fresh answers for all blocks from `evidence_many` on masked data."""
    data, model = logistic(1, 1000, jax.random.key(3))
    data = jax.tree.map(lambda leaf: leaf[0], data)
    blocks = [{name: leaf[10 * k : 10 * k + 10] for name, leaf in data.items()} for k in range(100)]
    masks = np.arange(1000) < 10 * np.arange(1, 101)[:, None]
    repeated = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (100, *leaf.shape)), data) | {"there": masks}
    masked = {
        "prior": model["prior"],
        "log_likelihood": lambda p, d: jnp.sum(d["there"] * jax.nn.log_sigmoid(d["y"] * (d["x"] @ p["b"]))),
    }
    fresh = qp.evidence_many(**masked, data=repeated, key=jax.random.key(4), standard_error=0.01)
    for seed in range(5):
        clock = Clock()
        whole = qp.evidence(**model, data=data, key=jax.random.key(seed))
        run = clock.seconds
        result = qp.evidence(**model, batches=blocks, key=jax.random.key(seed))
        error = result.stats["log_evidence"] - fresh.log_evidence
        report(
            f"batches {seed}",
            error,
            np.hypot(result.stats["log_evidence_se"], fresh.log_evidence_se),
            clock.seconds - run,
            seconds_of_a_fresh_run=f"{run:.1f}",
            evaluations=f"{result.num_evaluations.total / whole.num_evaluations.total:.2f} fresh runs",
        )


def loo():
    """Conjugate normal regression with eight coefficients, in which 20 of 60 rows have a large leverage."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 8))
    x[:20] *= 5
    y = x @ rng.normal(size=8) + rng.normal(size=60) + np.where(np.arange(60) < 20, 8.0 * rng.normal(size=60), 0.0)

    def log_evidence(keep):
        return multivariate_normal(np.zeros(keep.sum()), 4 * x[keep] @ x[keep].T + np.eye(keep.sum())).logpdf(y[keep])

    everything = np.ones(60, bool)
    exact = np.array([log_evidence(everything) - log_evidence(np.arange(60) != j) for j in range(60)])

    def each(p):
        return jax.scipy.stats.norm.logpdf(y, x @ p["b"])

    model = {
        "prior": {"b": qp.MultivariateNormal(jnp.zeros(8), 4 * jnp.eye(8))},
        "log_likelihood": lambda p: each(p).sum(),
    }
    for seed in range(3):
        clock = Clock()
        result = qp.evidence(**model, key=jax.random.key(seed))
        run = clock.seconds
        found = qp.loo(result, key=jax.random.key(100 + seed), log_likelihood=each)
        share = found.num_evaluations.total / (int(found.exact.sum()) * result.num_evaluations.total)
        error = found.pointwise - exact
        report(
            f"loo {seed}",
            error,
            found.pointwise_se,
            clock.seconds - run,
            taken_out=int(found.exact.sum()),
            largest_error_there=f"{np.max(np.abs(error[found.exact]), initial=0.0):.3f}",
            evaluations=f"{share:.1%} of refits",
            seconds_of_a_run=f"{run:.1f}",
        )


def draws():
    """Means and standard deviations, in posterior standard deviations, against exact ones."""
    rng = np.random.default_rng(1)
    for d in (2, 10, 30):
        root = rng.normal(size=(d, d)) / d**0.5
        center, cov = rng.normal(size=d), root @ root.T + 0.1 * np.eye(d)
        factor = np.linalg.inv(np.linalg.cholesky(cov))
        prior = qp.MultivariateNormal(jnp.zeros(d), 9 * jnp.eye(d))
        precision = np.linalg.inv(cov) + np.eye(d) / 9
        exact_cov = np.linalg.inv(precision)
        mean, sd = exact_cov @ np.linalg.solve(cov, center), np.sqrt(np.diag(exact_cov))
        result = qp.evidence(
            prior={"x": prior},
            log_likelihood=lambda p: -0.5 * jnp.sum((factor @ (p["x"] - center)) ** 2),  # noqa: B023
            key=jax.random.key(d),
        )
        clock = Clock()
        found = result.draws(4000, key=jax.random.key(0))
        x = found.samples["x"]
        _posterior(f"normal, {d} dimensions", x.mean(axis=0), x.std(axis=0), mean, sd, found, clock)
    y = norm.ppf((np.arange(20) + 0.5) / 20) * 2 + 1
    grid = np.linspace(0.5, 6, 4001)
    log_post = -grid - 20 * np.log(grid) - 0.5 * np.sum(np.square(y)) / grid**2
    weights = np.exp(log_post - log_post.max())
    mean = np.average(grid, weights=weights)
    sd = np.average((grid - mean) ** 2, weights=weights) ** 0.5
    result = qp.evidence(
        prior={"s": qp.families.Gamma(1.0, 1.0)},
        log_likelihood=lambda p: jax.scipy.stats.norm.logpdf(y, 0.0, p["s"]).sum(),
        key=jax.random.key(5),
    )
    clock = Clock()
    found = result.draws(4000, key=jax.random.key(0))
    x = found.samples["s"]
    _posterior("a scale", x.mean(), x.std(), mean, sd, found, clock)


def _posterior(name, mean, sd, exact_mean, exact_sd, found, clock):
    off = np.max(np.abs(mean - exact_mean) / exact_sd), np.max(np.abs(sd / exact_sd - 1))
    r_hat, ess = max(found.r_hat.values()), min(found.ess.values())
    print(
        f"draws, {name}: means off by {off[0]:.3f} sd, sds by {off[1]:.1%} at most; r-hat {r_hat:.3f}, ESS {ess:.0f}, "
        f"{found.num_rounds} rounds, {clock.seconds:.1f} CPU s",
        flush=True,
    )


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    name, *numbers = sys.argv[1:]
    {"many": many, "sensitivity": sensitivity, "batches": batches, "loo": loo, "draws": draws}[name](*numbers)
