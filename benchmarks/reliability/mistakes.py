"""How often common mistakes in a model are found, and how often sound models are called doubtful.

    python -m benchmarks.reliability.mistakes [priors] [mistakes] [budgets] [models] [number of runs]

`priors` runs the checks of the sampler alone on sound priors of many kinds. `mistakes` puts mistakes into the priors of
five models and looks for the finding that names them. `budgets` runs `evidence` with too few moves and too small a
budget. `models` runs `evidence` with defaults on ten sound models.
"""

import sys
import time
import warnings

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.scipy.special import gammaln  # noqa: E402
from jax.scipy.stats import beta, cauchy, expon, gamma, laplace, norm, t, uniform  # noqa: E402

import qpaths as qp  # noqa: E402
from qpaths.core.arrays import stream_of  # noqa: E402
from qpaths.front_door.inputs import probe  # noqa: E402
from qpaths.front_door.problem import model_path  # noqa: E402
from qpaths.rows import evaluator_of  # noqa: E402

warnings.simplefilter("ignore")


# Sound priors: heavy tails, hard bounds, strong dependence, very different scales.


def product(log_prob, sample, num):
    return lambda x: jnp.sum(log_prob(x)), lambda key: sample(key, (num,))


def correlated(num, rho):
    distances = jnp.abs(jnp.arange(num)[:, None] - jnp.arange(num))
    factor = jnp.linalg.cholesky(rho**distances)
    return (
        lambda x: (
            jnp.sum(norm.logpdf(jax.scipy.linalg.solve_triangular(factor, x, lower=True)))
            - jnp.sum(jnp.log(jnp.diag(factor)))
        ),
        lambda key: factor @ jax.random.normal(key, (num,)),
    )


def funnel(num, sd):
    def log_prior(x):
        return norm.logpdf(x[0], 0.0, sd) + jnp.sum(norm.logpdf(x[1:], 0.0, jnp.exp(0.5 * x[0])))

    def sample(key):
        first, rest = jax.random.split(key)
        v = sd * jax.random.normal(first)
        return jnp.concatenate([v[None], jnp.exp(0.5 * v) * jax.random.normal(rest, (num - 1,))])

    return log_prior, sample


def half_cauchy_log(x):
    """Of the log of a number with a half-Cauchy distribution."""
    return jnp.log(2 / jnp.pi) - jnp.log1p(jnp.exp(2 * x)) + x


def draw_half_cauchy(key):
    return jnp.log(jnp.abs(jax.random.cauchy(key)))


def eight_schools():
    def log_prior(x):
        log_tau = half_cauchy_log(x["log_tau"])
        return (
            norm.logpdf(x["mu"], 0.0, 5.0) + log_tau + jnp.sum(norm.logpdf(x["theta"], x["mu"], jnp.exp(x["log_tau"])))
        )

    def sample(key):
        a, b, c = jax.random.split(key, 3)
        mu, log_tau = 5 * jax.random.normal(a), draw_half_cauchy(b)
        return {"mu": mu, "log_tau": log_tau, "theta": mu + jnp.exp(log_tau) * jax.random.normal(c, (8,))}

    return log_prior, sample


def horseshoe(num):
    def log_prior(x):
        tau, lam, b = x[0], x[1 : num + 1], x[num + 1 :]
        return half_cauchy_log(tau) + jnp.sum(half_cauchy_log(lam)) + jnp.sum(norm.logpdf(b, 0.0, jnp.exp(tau + lam)))

    def sample(key):
        a, b, c = jax.random.split(key, 3)
        tau, lam = draw_half_cauchy(a), jax.vmap(draw_half_cauchy)(jax.random.split(b, num))
        return jnp.concatenate([tau[None], lam, jnp.exp(tau + lam) * jax.random.normal(c, (num,))])

    return log_prior, sample


def mixture():
    def log_prior(x):
        return jnp.sum(jnp.logaddexp(norm.logpdf(x, -4.0), norm.logpdf(x, 4.0)) - jnp.log(2))

    def sample(key):
        a, b = jax.random.split(key)
        return jax.random.normal(a, (3,)) + 8.0 * jax.random.bernoulli(b, shape=(3,)) - 4.0

    return log_prior, sample


def truncated():
    mass = jnp.log(norm.cdf(2.0) - norm.cdf(-0.5))
    return product(
        lambda x: jnp.where((x > -0.5) & (x < 2.0), norm.logpdf(x) - mass, -jnp.inf),
        lambda key, shape: jax.random.truncated_normal(key, -0.5, 2.0, shape),
        3,
    )


def on_half_line(log_prob):
    """Zero below zero, with a finite gradient there."""
    return lambda x: jnp.where(x > 0, log_prob(jnp.where(x > 0, x, 1.0)), -jnp.inf)


def log_gamma(shape, rate):
    return product(
        lambda x: shape * x - rate * jnp.exp(x) + shape * jnp.log(rate) - gammaln(shape),
        lambda key, size: jax.random.loggamma(key, shape, size) - jnp.log(rate),
        2,
    )


def log_ratios(concentration):
    """Of a Dirichlet distribution: the log Jacobian is the sum of the log shares."""
    total = concentration.sum()

    def log_prior(x):
        log_shares = jax.nn.log_softmax(jnp.append(x, 0.0))
        return gammaln(total) - jnp.sum(gammaln(concentration)) + jnp.sum(concentration * log_shares)

    def sample(key):
        logs = jax.random.loggamma(key, concentration)
        return logs[:-1] - logs[-1]

    return log_prior, sample


def sound_priors():
    normal = jax.random.normal
    yield "normal, 1", product(norm.logpdf, normal, 1)
    yield "normal, 50", product(lambda x: norm.logpdf(x, 3.0, 0.01), lambda k, s: 3.0 + 0.01 * normal(k, s), 50)
    yield "correlated, 10", correlated(10, 0.95)
    yield "correlated, 200", correlated(200, 0.99)
    yield "Cauchy, 3", product(cauchy.logpdf, jax.random.cauchy, 3)
    yield "Student-t 2, 5", product(lambda x: t.logpdf(x, 2.0), lambda k, s: jax.random.t(k, 2.0, s), 5)
    yield "Laplace, 4", product(laplace.logpdf, jax.random.laplace, 4)
    yield "log half-Cauchy, 3", product(half_cauchy_log, lambda k, s: jnp.log(jnp.abs(jax.random.cauchy(k, s))), 3)
    yield "log gamma(0.01), 2", log_gamma(0.01, 0.01)
    yield "log gamma(3), 2", log_gamma(3.0, 0.5)
    yield "uniform, 3", product(uniform.logpdf, jax.random.uniform, 3)
    yield (
        "uniform, 30",
        product(lambda x: uniform.logpdf(x, -2.0, 4.0), lambda k, s: 4 * jax.random.uniform(k, s) - 2, 30),
    )
    yield "truncated normal, 3", truncated()
    yield (
        "half normal, 2",
        product(on_half_line(lambda x: jnp.log(2) + norm.logpdf(x)), lambda k, s: jnp.abs(normal(k, s)), 2),
    )
    yield "exponential, 2", product(on_half_line(expon.logpdf), jax.random.exponential, 2)
    yield (
        "half Cauchy, 2",
        product(
            on_half_line(lambda x: jnp.log(2) + cauchy.logpdf(x)), lambda k, s: jnp.abs(jax.random.cauchy(k, s)), 2
        ),
    )
    yield (
        "gamma(0.5), 2",
        product(on_half_line(lambda x: gamma.logpdf(x, 0.5)), lambda k, s: jax.random.gamma(k, 0.5, s), 2),
    )
    yield (
        "log-normal, 2",
        product(
            on_half_line(lambda x: norm.logpdf(jnp.log(x), 0.0, 2.0) - jnp.log(x)),
            lambda k, s: jnp.exp(2 * normal(k, s)),
            2,
        ),
    )
    yield (
        "beta(0.5, 2), 2",
        product(lambda x: beta.logpdf(x, 0.5, 2.0), lambda k, s: jax.random.beta(k, 0.5, 2.0, s), 2),
    )
    yield "funnel, 10", funnel(10, 3.0)
    yield "centered eight schools", eight_schools()
    yield "horseshoe, 5", horseshoe(5)
    yield "two modes, 3", mixture()
    yield "Dirichlet log ratios, 4", log_ratios(jnp.array([0.3, 1.0, 2.0, 5.0]))


# Five models, and the mistakes that can be made in each.


def regression(mistake):
    """Intercept and slope with standard deviations 2 and 0.5, a noise scale with a half-normal prior on its log."""
    widths = jnp.array([4.0, 0.25] if mistake == "variance for sd" else [2.0, 0.5])

    def log_prior(x):
        jacobian = 0.0 if mistake == "Jacobian" else x["log_sigma"]
        log_sigma = jnp.log(2) + norm.logpdf(jnp.exp(x["log_sigma"])) + jacobian
        return jnp.sum(norm.logpdf(x["weights"], 0.0, jnp.array([2.0, 0.5]))) + log_sigma

    def sample(key):
        a, b = (key, key) if mistake == "shared key" else jax.random.split(key)
        noise = jax.random.normal(b, (1,))[0] if mistake != "NumPy in a part" else np.random.default_rng(0).normal()
        weights = widths * jax.random.normal(a, (2,))
        # With a shared key the first of two normal numbers is not the one that is drawn alone, so draw as many.
        noise = jax.random.normal(b, (2,))[0] if mistake == "shared key" else noise
        return {"weights": weights, "log_sigma": jnp.log(jnp.abs(noise))}

    return log_prior, sample


def schools(mistake):
    """Eight schools with standardized effects: a mean, a log scale with a half-Cauchy prior."""

    def log_prior(x):
        log_tau = half_cauchy_log(x["log_tau"]) - (x["log_tau"] if mistake == "Jacobian" else 0.0)
        return norm.logpdf(x["mu"], 0.0, 5.0) + log_tau + jnp.sum(norm.logpdf(x["effects"]))

    def sample(key):
        a, b, c = (key, key, key) if mistake == "shared key" else jax.random.split(key, 3)
        effects = jax.random.normal(c, (8,))
        mu = (25.0 if mistake == "variance for sd" else 5.0) * jax.random.normal(a, (8,))[0]
        if mistake == "NumPy in a part":
            effects = jnp.asarray(np.random.default_rng(1).normal(size=8))
        return {"mu": mu, "log_tau": draw_half_cauchy(b), "effects": effects}

    return log_prior, sample


def groups(mistake, centered=False):
    """Twenty groups: a mean, a scale with an exponential prior through softplus, effects (standardized or centered)."""

    def log_prior(x):
        scale = jax.nn.softplus(x[1])
        jacobian = 0.0 if mistake == "Jacobian" else jax.nn.log_sigmoid(x[1])
        center, width = (x[0], scale) if centered else (0.0, 1.0)
        return norm.logpdf(x[0], 0.0, 1.5) - scale + jacobian + jnp.sum(norm.logpdf(x[2:], center, width))

    def sample(key):
        a, b, c = jax.random.split(key, 3)
        effects = jax.random.normal(a if mistake == "shared key" else c, (20,))
        mean = effects[0] if mistake == "shared key" else jax.random.normal(a)
        mean = (1.5**2 if mistake == "variance for sd" else 1.5) * mean
        scale = jax.random.exponential(b)
        scale = jnp.asarray(np.random.default_rng(2).exponential()) if mistake == "NumPy in a part" else scale
        effects = mean + scale * effects if centered else effects
        return jnp.concatenate([mean[None], jnp.log(jnp.expm1(scale))[None], effects])

    return log_prior, sample


def centered_groups(mistake):
    """The same with centered effects, which hide their scale: a case beyond the five."""
    return groups(mistake, centered=True)


def rates(mistake):
    """Three rates with a gamma prior on their logs; the rate of the gamma distribution may be taken for a scale."""

    def log_prior(x):
        jacobian = 0.0 if mistake == "Jacobian" else jnp.sum(x)
        return jnp.sum(gamma.logpdf(jnp.exp(x), 2.0, scale=0.5)) + jacobian

    def sample(key):
        keys = jnp.stack([key, key, key]) if mistake == "shared key" else jax.random.split(key, 3)
        logs = jax.vmap(lambda one: jax.random.loggamma(one, 2.0))(keys)
        logs = logs.at[0].set(np.random.default_rng(3).normal()) if mistake == "NumPy in a part" else logs
        return logs + jnp.log(2.0 if mistake == "variance for sd" else 0.5)

    return log_prior, sample


def shares(mistake):
    """Two shares with beta priors through a logit, and an offset with standard deviation 0.5."""

    def log_prior(x):
        share = jax.nn.sigmoid(x[:2])
        jacobian = 0.0 if mistake == "Jacobian" else jnp.sum(jnp.log(share * (1 - share)))
        return jnp.sum(beta.logpdf(share, 2.0, 3.0)) + jacobian + norm.logpdf(x[2], 0.0, 0.5)

    def sample(key):
        a, b, c = jax.random.split(key, 3)
        first = jax.random.beta(a, 2.0, 3.0)
        second = jax.random.beta(a if mistake == "shared key" else b, 2.0, 3.0)
        second = jnp.asarray(np.random.default_rng(4).beta(2.0, 3.0)) if mistake == "NumPy in a part" else second
        offset = (0.25 if mistake == "variance for sd" else 0.5) * jax.random.normal(c)
        return jnp.stack([jnp.log(first / (1 - first)), jnp.log(second / (1 - second)), offset])

    return log_prior, sample


MODELS = (regression, schools, groups, rates, shares, centered_groups)
MISTAKES = {
    "none": set(),
    "variance for sd": {"SAMPLER"},
    "Jacobian": {"JACOBIAN"},
    "shared key": {"DEPENDENCE"},
    "NumPy in a part": {"FROZEN", "SAMPLER"},
}


def square(x):
    return -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(x))


def checked(log_prior, sample, key):
    """Names of the findings of the checks of a model, or the error."""
    path, _ = model_path(None, None, log_prior, square, sample, None, "jax")
    stream = stream_of(key, host=True)
    found = probe(evaluator_of(path, stream, with_slopes=True), stream)
    return [finding.kind.name for finding in found.findings]


def run_priors(num):
    print("| sound prior | runs | findings | CPU s per run |\n|---|---|---|---|")
    for name, (log_prior, sample) in sound_priors():
        start = time.process_time()
        found = [one for seed in range(num) for one in checked(log_prior, sample, jax.random.key(seed))]
        seconds = (time.process_time() - start) / num
        print(f"| {name} | {num} | {', '.join(sorted(set(found)))} {len(found)} | {seconds:.3f} |", flush=True)


def run_mistakes(num):
    print("| model | mistake | found | named | findings |\n|---|---|---|---|---|")
    for model in MODELS:
        for mistake, names in MISTAKES.items():
            log_prior, sample = model(mistake)
            found = [checked(log_prior, sample, jax.random.key(seed)) for seed in range(num)]
            named = sum(bool(names & set(one)) for one in found)
            kinds = ", ".join(sorted({kind for one in found for kind in one}))
            print(
                f"| {model.__name__} | {mistake} | {sum(map(bool, found))} of {num} | {named} | {kinds} |", flush=True
            )


# Whole calls: sound models with their likelihoods, and budgets that are too small.

POINTS = jnp.linspace(-1.0, 1.0, 20)
NOISE = jnp.asarray(np.random.default_rng(5).normal(size=20))
EFFECTS = jnp.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = jnp.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
COUNTS = jnp.asarray(np.random.default_rng(6).binomial(10, np.linspace(0.2, 0.8, 20)))


def binomial(logits, counts, total):
    return jnp.sum(counts * jax.nn.log_sigmoid(logits) + (total - counts) * jax.nn.log_sigmoid(-logits))


def of_line(x):
    mean = x["weights"] @ jnp.stack([POINTS**0, POINTS])
    return jnp.sum(norm.logpdf(0.7 - 0.3 * POINTS + 0.5 * NOISE, mean, jnp.exp(x["log_sigma"])))


def sound_models():
    yield "regression", *regression("none"), of_line
    yield (
        "eight schools",
        *schools("none"),
        lambda x: jnp.sum(norm.logpdf(EFFECTS, x["mu"] + jnp.exp(x["log_tau"]) * x["effects"], ERRORS)),
    )
    yield "20 groups", *groups("none"), lambda x: binomial(x[0] + jax.nn.softplus(x[1]) * x[2:], COUNTS, 10)
    yield "rates", *rates("none"), lambda x: jnp.sum(jnp.array([3.0, 9.0, 1.0]) * x - 5 * jnp.exp(x))
    yield "shares", *shares("none"), lambda x: binomial(x[:2] + x[2], jnp.array([3.0, 8.0]), 10)
    yield "Cauchy location", *product(cauchy.logpdf, jax.random.cauchy, 2), lambda x: jnp.sum(norm.logpdf(x, 2.0, 0.5))
    yield "uniform", *product(uniform.logpdf, jax.random.uniform, 3), lambda x: jnp.sum(norm.logpdf(x, 0.4, 0.2))
    yield "correlated, 10", *correlated(10, 0.95), lambda x: jnp.sum(norm.logpdf(NOISE[:10], x, 0.7))
    yield "log gamma", *log_gamma(3.0, 0.5), lambda x: jnp.sum(jnp.array([4.0, 30.0]) * x - 3 * jnp.exp(x))
    yield (
        "Dirichlet",
        *log_ratios(jnp.array([0.3, 1.0, 2.0, 5.0])),
        lambda x: jnp.array([2.0, 3.0, 9.0, 1.0]) @ (jax.nn.log_softmax(jnp.append(x, 0.0))),
    )


def called(log_prior, sample, likelihood, seed, **limits):
    return qp.evidence(
        log_prior=log_prior, log_likelihood=likelihood, sample_prior=sample, key=jax.random.key(seed), **limits
    )


def run_models(num):
    """With defaults; all of these models are easy, so anything but "sound" is a false alarm."""
    print("| sound model | runs | doubtful | wrong | findings | CPU s per run |\n|---|---|---|---|---|---|")
    for name, *model in sound_models():
        start = time.process_time()
        verdicts = [called(*model, seed).verdict for seed in range(num)]
        seconds = (time.process_time() - start) / num
        levels = [verdict.level for verdict in verdicts]
        kinds = ", ".join(sorted({finding.kind.name for verdict in verdicts for finding in verdict.findings}))
        doubtful, wrong = levels.count("doubtful"), levels.count("wrong")
        print(f"| {name} | {num} | {doubtful} | {wrong} | {kinds} | {seconds:.2f} |", flush=True)


def run_budgets(num):
    """Misleading 2 and 3: an answer with a large error, few effective draws or a lag is never called sound."""
    print("| model | runs | error > 0.5, ESS < 100 or lag > error | of these sound |\n|---|---|---|---|")
    kernel = qp.RandomWalk(1)
    for name, *model in sound_models():
        results = [called(*model, seed, budget=20_000, kernel=kernel) for seed in range(num)]
        bad = [result for result in results if _looks_bad(result)]
        sound = sum(result.verdict.level == "sound" for result in bad)
        print(f"| {name} | {num} | {len(bad)} | {sound} |", flush=True)


def _looks_bad(result):
    error, lag = float(result.log_evidence_se), float(result.stats["log_evidence_lag"][-1])
    return error > 0.5 or float(result.ess) < 100 or abs(lag) > error


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    parts = {"priors": (run_priors, 100), "mistakes": (run_mistakes, 10), "models": (run_models, 20)}
    for word, (part, default) in (parts | {"budgets": (run_budgets, 10)}).items():
        if word in sys.argv:
            part(numbers[0] if numbers else default)
