"""Likelihoods without gradients, at few calls: errors and standard errors of `evidence`.

    python -m benchmarks.suites.black_boxes [--keys 2] [--budgets 5000 20000] [--stan]

Prints tables. Truths are closed forms, sums over a fine grid (two dimensions), or long runs.
"""

import argparse
import time
import warnings

import jax
import numpy as np

import qpaths as qp

EIGHT = """
data { int<lower=0> J; array[J] real y; array[J] real<lower=0> sigma; }
parameters { real mu; real<lower=0> tau; vector[J] theta_tilde; }
transformed parameters { vector[J] theta = mu + tau * theta_tilde; }
model { mu ~ normal(0, 5); tau ~ cauchy(0, 5) T[0, ]; theta_tilde ~ normal(0, 1); y ~ normal(theta, sigma); }
"""
SCHOOLS = {"J": 8, "y": [28, 8, -3, 7, -1, 1, 18, 12], "sigma": [15, 10, 16, 11, 9, 11, 10, 18]}


def shells(x):
    radii = [np.hypot(x[0] - side, x[1]) for side in (-3.5, 3.5)]
    return np.logaddexp(*(-0.5 * ((r - 2) / 0.1) ** 2 for r in radii)) - 0.5 * np.log(2 * np.pi * 0.01)


def rosenbrock(x):
    return -np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def line_fit():
    rng, x = np.random.default_rng(0), np.linspace(0, 10, 60)
    y = 5 * np.exp(-0.5 * ((x - 4) / 0.7) ** 2) + 1 + 0.2 * x - 0.02 * x**2 + 0.5 * rng.normal(size=60)
    low, high = np.array([0, 0, 0.1, -5, -2, -0.5, 0.05]), np.array([20, 10, 3, 5, 2, 0.5, 3])

    def log_likelihood(p):
        fit = p[0] * np.exp(-0.5 * ((x - p[1]) / p[2]) ** 2) + p[3] + p[4] * x + p[5] * x**2
        return -0.5 * np.sum(((y - fit) / p[6]) ** 2) - 60 * np.log(p[6]) - 30 * np.log(2 * np.pi)

    return log_likelihood, lambda u: low + (high - low) * u, 7, -61.234


def normal(dimension):
    matrix = np.random.default_rng(1).normal(size=(dimension, dimension))
    covariance = matrix @ matrix.T / dimension + 0.1 * np.eye(dimension)
    precision = np.linalg.inv(covariance)
    truth = 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1] - dimension * np.log(20)
    return lambda x: -0.5 * x @ precision @ x, lambda u: 20 * u - 10, dimension, truth


def on_a_grid(log_likelihood, transform, num=2000):
    """The log of the mean of a likelihood over the square."""
    u = (np.arange(num) + 0.5) / num
    logs = np.array([[log_likelihood(transform(np.array([a, b]))) for b in u[::4]] for a in u[::4]])
    return float(np.log(np.mean(np.exp(logs - logs.max()))) + logs.max())


def problems():
    square = {
        "shells, 2-d": (shells, lambda u: 12 * u - 6),
        "eggbox, 2-d": (lambda x: (2 + np.cos(x[0] / 2) * np.cos(x[1] / 2)) ** 5, lambda u: 10 * np.pi * u),
        "Rosenbrock, 2-d": (rosenbrock, lambda u: 10 * u - 5),
    }
    found = {name: (*parts, 2, on_a_grid(*parts)) for name, parts in square.items()}
    return found | {"normal, 5-d": normal(5), "normal, 10-d": normal(10), "line, 7-d": line_fit()}


def transformed(transform):
    """A transform that JAX cannot trace, as most are."""
    return lambda u: np.asarray(transform(np.array(u)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=2)
    parser.add_argument("--budgets", type=int, nargs="*", default=[5000, 20000])
    parser.add_argument("--stan", action="store_true", help="the eight schools as a Stan program, too")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    jax.config.update("jax_enable_x64", True)
    print("| target | calls | error +- standard error, by key | CPU s each |\n|---|---|---|---|")
    for name, (log_likelihood, transform, dimension, truth) in problems().items():
        for budget in arguments.budgets:
            cells, begun = [], time.process_time()
            for number in range(arguments.keys):
                result = qp.evidence(
                    prior_transform=transformed(transform),
                    log_likelihood=lambda x, own=log_likelihood: float(own(x)),
                    num_parameters=dimension,
                    budget=budget,
                    key=jax.random.key(number),
                )
                short = "at least " if result.verdict.fell_short else ""
                error = f"{result.log_evidence - truth:+.3f}"
                cells.append(f"{short}{error}" + ("" if short else f" +- {result.log_evidence_se:.3f}"))
            each = (time.process_time() - begun) / arguments.keys
            print(f"| {name} | {budget:,} | {'; '.join(cells)} | {each:.1f} |", flush=True)
    if arguments.stan:
        from qpaths.adapters import from_stan

        begun = time.process_time()
        result = qp.evidence(from_stan(EIGHT, SCHOOLS), key=jax.random.key(0))
        seconds = time.process_time() - begun
        print(
            f"\nEight schools in Stan: {result.log_evidence:.4f} +- {result.log_evidence_se:.4f}, {seconds:.1f} CPU s"
        )


if __name__ == "__main__":
    main()
