"""Tables of `benchmarks/results/paths.md`: gaps of the paper's toys by quadrature, learned splines, data annealing.

python -m benchmarks.suites.paths gaps|splines|blocks
"""

import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

import qpaths as qp
from qpaths.paths import DataPath, Pilot, SplinePath, describe, learn
from qpaths_paper.experiments.toy_bdmc import path_of
from qpaths_paper.parts.exact import exact_bounds

_PATHS = [
    ("q = 1 (geometric)", ("geometric", "geometric"), 0.0),
    ("q = 0.9, the end of the paper's grid", ("grid", "grid"), 0.1),
    *((f"q = {q:g}", ("grid", "grid"), 1 - q) for q in (0.7, 0.5, 0.3, 0.0)),
    ("moments; escort moments as published", ("moment", "escort_moment"), 0.0),
    ("escort moments as defined", (None, "exact_escort"), 0.0),
    ("q = 2, in the family", (None, "grid"), -1.0),
]


def gaps():
    """Print the expected gap of Figure 10 with exact transitions, by quadrature."""
    print("| path | normal, K = 11 | normal, K = 101 | Student-t, K = 11 | Student-t, K = 101 |")
    print("|---|---|---|---|---|")
    for name, kinds, delta in _PATHS:
        cells = []
        for endpoints, kind in zip(("gaussian", "student_t"), kinds, strict=True):
            for num in (11, 101):
                path = None if kind is None else path_of(endpoints, kind, delta)
                gap = None if path is None else exact_bounds(path, num, 2, key=jax.random.key(0)).exact_gap
                cells.append("" if gap is None else f"{gap:.4f}")
        print(f"| {name} | {' | '.join(cells)} |")


def splines():
    """Print barrier and length of the geometric path and of learned splines between far normals, from exact draws."""
    print("| ends | knots | barrier, geometric | barrier, learned | ratio | seconds |\n|---|---|---|---|---|---|")
    for scale in (0.1, 1.0):
        base, target = qp.Normal(-4.0, scale), qp.Normal(4.0, scale)
        geometric = qp.GeometricPath(base, target)
        first = _exact_pilot(geometric, 80, 200)
        for num_knots in (3, 6):
            start = time.process_time()
            path = learn(SplinePath, first, path=geometric, num_knots=num_knots)
            seconds = time.process_time() - start
            costs = [describe(one, _exact_pilot(one, 81, 200)).barrier for one in (geometric, path)]
            cells = f"{costs[0]:.2f} | {costs[1]:.2f} | {costs[1] / costs[0]:.2f} | {seconds:.1f}"
            print(f"| N(-4, {scale}^2) to N(4, {scale}^2) | {num_knots} | {cells} |")


def _exact_pilot(path, num, states):
    """Draws at each beta from a grid of the line."""
    grid, betas = jnp.linspace(-20.0, 20.0, 8001), np.linspace(0.0, 1.0, num)
    features = jax.vmap(path.features)(grid)
    rows = [
        jax.random.categorical(jax.random.key(i), path.log_density_from(beta, features), shape=(states,))
        for i, beta in enumerate(betas)
    ]
    return Pilot(betas, jax.tree.map(lambda leaf: leaf[jnp.stack(rows)], features))


def blocks(num=100, seeds=4):
    """Print how far the evidence after each of 100 blocks is from the closed form, in standard errors."""
    rng = np.random.default_rng(0)
    x, truth = rng.normal(size=(num, 2)), np.array([0.7, -0.4])
    y = x @ truth + rng.normal(size=num)
    prior = qp.MultivariateNormal(jnp.zeros(2), 4.0 * jnp.eye(2))
    path = DataPath(prior, lambda w: jax.scipy.stats.norm.logpdf(jnp.asarray(y), jnp.asarray(x) @ w))
    exact = [
        float(qp.MultivariateNormal(jnp.zeros(k), jnp.eye(k) + 4.0 * x[:k] @ x[:k].T).log_prob(jnp.asarray(y[:k])))
        for k in range(1, num + 1)
    ]
    algorithm = qp.SMC(500, qp.FixedSchedule(path.ends), qp.RandomWalk(3))
    start = time.process_time()
    runs = [algorithm.run(path, key=jax.random.key(seed)) for seed in range(seeds)]
    found = np.array([run.stats["log_evidence"] for run in runs])
    spread = found.std(axis=0, ddof=1)
    off = np.abs(found - exact)
    last = np.mean([abs(float(run.log_evidence) - exact[-1]) < 2 * float(run.log_evidence_se) for run in runs])
    print(
        f"{np.mean(off < 2 * spread):.1%} of {off.size} errors within two standard deviations over the seeds; the last"
    )
    seconds = (time.process_time() - start) / seeds
    print(f"within two of its own standard errors in {last:.0%}; largest error {off.max():.3f}, mean {off.mean():.4f},")
    print(f"{runs[0].num_evaluations.total:,} evaluations and {seconds:.1f} CPU s for each run.")


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    {"gaps": gaps, "splines": splines, "blocks": blocks}[sys.argv[1]]()
