"""Stan programs: densities and gradients against closed forms for all kinds of variables, and mistakes in priors."""

import importlib
import json
import pickle
import sys

import jax
import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

import qpaths as qp
from qpaths.adapters import from_stan
from qpaths.remarks import Finding, Note

pytest.importorskip("stanli", reason="stanli is an extra")
stan = importlib.import_module("qpaths.adapters.stan")
pytestmark = pytest.mark.filterwarnings("ignore:evidence")


@pytest.fixture
def rng(key):
    return np.random.default_rng(np.asarray(jax.random.key_data(key)))


def _program(code, data=None):
    return stan._Program(stan._Interpreted(stan._with_constants(code, "."), stan._data_of(data)))


def _iid(scipy_distribution):
    return lambda x: np.sum(scipy_distribution.logpdf(x))


def _lower(matrix):
    return np.arange(matrix.size).reshape(matrix.shape, order="F")[np.tril_indices(len(matrix))]


PRIORS = {
    "normal(0.3, 1.2)": _iid(stats.norm(0.3, 1.2)),
    "std_normal()": _iid(stats.norm()),
    "cauchy(0.2, 2)": _iid(stats.cauchy(0.2, 2)),
    "student_t(4, 0.1, 1.5)": _iid(stats.t(4, 0.1, 1.5)),
    "double_exponential(0, 2)": _iid(stats.laplace(0, 2)),
    "logistic(0.5, 2)": _iid(stats.logistic(0.5, 2)),
    "gumbel(0.5, 2)": _iid(stats.gumbel_r(0.5, 2)),
    "skew_normal(0.1, 1.5, 2)": _iid(stats.skewnorm(2, 0.1, 1.5)),
    "exp_mod_normal(0, 1, 0.5)": _iid(stats.exponnorm(2, 0, 1)),
}
POSITIVE = {
    "gamma(2, 3)": _iid(stats.gamma(2, scale=1 / 3)),
    "inv_gamma(2, 3)": _iid(stats.invgamma(2, scale=3)),
    "lognormal(0.2, 0.7)": _iid(stats.lognorm(0.7, scale=np.exp(0.2))),
    "weibull(1.5, 2)": _iid(stats.weibull_min(1.5, scale=2)),
    "exponential(2)": _iid(stats.expon(scale=0.5)),
    "chi_square(3)": _iid(stats.chi2(3)),
    "rayleigh(2)": _iid(stats.rayleigh(scale=2)),
    "normal(0, 1)": _iid(stats.norm()),
    "normal(0, 1) T[0, ]": _iid(stats.halfnorm()),
    "frechet(2, 1.5)": _iid(stats.invweibull(2, scale=1.5)),
}
KINDS = {
    **{f"real x; | x ~ {one}": logp for one, logp in PRIORS.items()},
    **{f"real<lower=0> x; | x ~ {one}": logp for one, logp in POSITIVE.items()},
    "vector[3] x; | x ~ normal(0.3, 1.2)": _iid(stats.norm(0.3, 1.2)),
    "row_vector[2] x; | x ~ normal(0.3, 1.2)": _iid(stats.norm(0.3, 1.2)),
    "matrix[2, 3] x; | to_vector(x) ~ normal(0.3, 1.2)": _iid(stats.norm(0.3, 1.2)),
    "array[2, 3] real<lower=0> x; | for (i in 1:2) x[i] ~ gamma(2, 3)": _iid(stats.gamma(2, scale=1 / 3)),
    "array[2] vector[2] x; | for (i in 1:2) x[i] ~ std_normal()": _iid(stats.norm()),
    "real<upper=2> x; | x ~ normal(0, 1)": _iid(stats.norm()),
    "real<lower=-1, upper=2> x; | x ~ normal(0, 1)": _iid(stats.norm()),
    "vector<lower=-1, upper=2>[2] x; | x ~ normal(0, 1)": _iid(stats.norm()),
    "real<offset=1, multiplier=3> x; | x ~ normal(0, 1)": _iid(stats.norm()),
    "real<lower=0, upper=1> x; | x ~ beta(2, 3)": _iid(stats.beta(2, 3)),
    "ordered[3] x; | x ~ normal(0, 1)": _iid(stats.norm()),
    "positive_ordered[3] x; | x ~ normal(0, 1)": _iid(stats.norm()),
    "vector[2] x; | x ~ multi_normal([0.1, 0.2]', [[2, 0.5], [0.5, 1]])": stats.multivariate_normal(
        [0.1, 0.2], [[2, 0.5], [0.5, 1]]
    ).logpdf,
    "vector[2] x; | x ~ multi_student_t(5, [0.1, 0.2]', [[2, 0.5], [0.5, 1]])": stats.multivariate_t(
        [0.1, 0.2], [[2, 0.5], [0.5, 1]], 5
    ).logpdf,
    "real x; | target += normal_lpdf(x | 0.3, 1.2)": _iid(stats.norm(0.3, 1.2)),
    "real x; | target += normal_lupdf(x | 0.3, 1.2)": _iid(stats.norm(0.3, 1.2)),
    "real x; | 0.4 ~ normal(x, 1)": lambda x: stats.norm.logpdf(0.4, x[0]),
    "real<lower=0> x; | 3 ~ poisson(x)": lambda x: stats.poisson.logpmf(3, x[0]),
    "real x; | 3 ~ poisson_log(x)": lambda x: stats.poisson.logpmf(3, np.exp(x[0])),
    "real<lower=0> x; | 3 ~ neg_binomial_2(x, 2)": lambda x: stats.nbinom.logpmf(3, 2, 2 / (2 + x[0])),
    "real<lower=0, upper=1> x; | 3 ~ binomial(7, x)": lambda x: stats.binom.logpmf(3, 7, x[0]),
    "real x; | 1 ~ bernoulli_logit(x)": lambda x: -np.log1p(np.exp(-x[0])),
    "real<lower=0, upper=1> x; | 3 ~ beta_binomial(7, x, 2)": lambda x: stats.betabinom.logpmf(3, 7, x[0], 2),
    "real<lower=0> x; | 0.4 ~ von_mises(0.1, x)": lambda x: stats.vonmises.logpdf(0.4, x[0], 0.1),
}


def _jacobian(program, row, free):
    """Log of the volume that the map to the free numbers of a variable stretches, by differences."""
    steps = 1e-5 * np.eye(len(row))
    columns = [
        (program.model.param_constrain(row + step) - program.model.param_constrain(row - step))[free] / 2e-5
        for step in steps
    ]
    return np.linalg.slogdet(np.array(columns))[1]


def _check(program, logp, free, generator):
    for _ in range(2):
        row = generator.uniform(-1, 1, program.dimension)
        (value,), (slope,) = program.at(row[None])
        x = program.model.param_constrain(row)
        assert value == pytest.approx(logp(x) + _jacobian(program, row, free), rel=1e-7, abs=1e-7)
        assert program.log_prob(row[None])[0] == pytest.approx(value, abs=1e-12)
        differences = [
            np.diff(program.log_prob(np.array([row - step, row + step])))[0] / 2e-5 for step in 1e-5 * np.eye(len(row))
        ]
        np.testing.assert_allclose(slope, differences, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(program.unconstrain(program.constrain(row)), row, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_densities_with_all_constants_against_closed_forms(kind, rng):
    declared, _, statement = kind.partition(" | ")
    program = _program(f"parameters {{ {declared} }} model {{ {statement}; }}")
    _check(program, KINDS[kind], np.arange(program.dimension), rng)


MATRICES = {
    "simplex[4] x; | x ~ dirichlet([1, 2, 3, 4]')": (stats.dirichlet([1, 2, 3, 4]).logpdf, [0, 1, 2]),
    "cov_matrix[2] x; | x ~ wishart(4, [[2, 0.5], [0.5, 1]])": (
        lambda x: stats.wishart(4, [[2, 0.5], [0.5, 1]]).logpdf(x.reshape(2, 2)),
        [0, 1, 3],
    ),
    "cov_matrix[2] x; | x ~ inv_wishart(4, [[2, 0.5], [0.5, 1]])": (
        lambda x: stats.invwishart(4, [[2, 0.5], [0.5, 1]]).logpdf(x.reshape(2, 2)),
        [0, 1, 3],
    ),
    "corr_matrix[2] x; | x ~ lkj_corr(2)": (lambda x: stats.beta(2, 2, -1, 2).logpdf(x[1]), [1]),
    "cholesky_factor_corr[2] x; | x ~ lkj_corr_cholesky(2)": (
        # In two dimensions the matrix has one number, which is the lower left one of its factor.
        lambda x: stats.beta(2, 2, -1, 2).logpdf(x[1]),
        [1],
    ),
    "cholesky_factor_cov[2] x; | to_vector(x) ~ normal(0, 1)": (_iid(stats.norm()), [0, 1, 3]),
}


@pytest.mark.parametrize("kind", MATRICES)
def test_matrices_and_simplexes_against_closed_forms(kind, rng):
    declared, _, statement = kind.partition(" | ")
    _check(_program(f"parameters {{ {declared} }} model {{ {statement}; }}"), *MATRICES[kind], rng)


SCHOOLS = {"J": 8, "y": [28, 8, -3, 7, -1, 1, 18, 12], "sigma": [15, 10, 16, 11, 9, 11, 10, 18]}
EIGHT = """
data { int<lower=0> J; array[J] real y; array[J] real<lower=0> sigma; }
parameters { real mu; real<lower=0> tau; vector[J] theta_tilde; }
transformed parameters { vector[J] theta = mu + tau * theta_tilde; }
model { mu ~ normal(0, 5); tau ~ cauchy(0, 5) T[0, ]; theta_tilde ~ normal(0, 1); y ~ normal(theta, sigma); }
generated quantities {
  real again = normal_rng(mu, 1);
  vector[J] log_lik;
  for (j in 1:J) log_lik[j] = normal_lpdf(y[j] | theta[j], sigma[j]);
}
"""
"""A truncated prior of the scale, so that the program is normalized."""


@pytest.fixture(scope="module")
def eight():
    return from_stan(EIGHT, SCHOOLS)


def test_eight_schools_with_variables_by_name(eight, key):
    result = qp.evidence(eight, budget=60_000, key=key)
    assert abs(result.log_evidence - -31.31) < 0.01 + 5 * result.log_evidence_se  # a long run of plain NumPy quadrature
    assert [note.kind for note in eight.notes] == [Note.DROPPED]
    draws = result.samples
    np.testing.assert_allclose(draws["theta"], draws["mu"][:, None] + draws["tau"][:, None] * draws["theta_tilde"])
    assert (draws["tau"] > 0).all()
    assert np.std(draws["again"] - draws["mu"]) > 0.5
    terms = eight.log_likelihoods(jax.tree.map(lambda leaf: leaf[:3], result.unconstrained))["log_lik"]
    np.testing.assert_allclose(terms[0], stats.norm.logpdf(SCHOOLS["y"], draws["theta"][0], SCHOOLS["sigma"]))


NORMAL = (
    "parameters { real mu; real<lower=0> s; } model { mu ~ normal(0, 1); s ~ exponential(1); 1.0 ~ normal(mu, 1); }"
)
TRUTH = stats.norm.logpdf(1.0, 0, 2**0.5)


def _posterior(rng, num):
    return {"mu": rng.normal(0.5, 0.5**0.5, (2, num)), "s": rng.exponential(size=(2, num))}


def test_draws_of_other_packages(rng, key, tmp_path):
    own, draws = from_stan(NORMAL), _posterior(rng, 500)
    files = []
    for chain in range(2):
        files.append(tmp_path / f"out_{chain}.csv")
        lines = [f"0,{mu},{s}" for mu, s in zip(draws["mu"][chain], draws["s"][chain], strict=True)]
        files[-1].write_text("\n".join(["# model = x", "lp__,mu,s", *lines]))

    class Fit:
        chains = 2

        def stan_variables(self):
            return {name: leaf.reshape(-1) for name, leaf in draws.items()}

    results = [qp.evidence_from_draws(own, given, key=key) for given in (draws, files, Fit())]
    assert abs(results[0].log_evidence - TRUTH) < 5 * results[0].log_evidence_se + 0.002
    assert results[0].log_evidence == pytest.approx(results[2].log_evidence, abs=1e-9)
    assert results[0].log_evidence == pytest.approx(results[1].log_evidence, abs=1e-9)
    assert any(note.kind is Note.DROPPED for note in results[0].verdict.chosen)


def test_any_model_with_the_interface_of_bridgestan(key):
    calls = []

    class Bridge:
        """A normal density behind BridgeStan's interface."""

        def param_unc_num(self):
            return 2

        def param_names(self, *, include_tp=False, include_gq=False):
            return ["a", "b"] + ["twice"] * include_tp

        def log_density(self, theta, *, propto=True, jacobian=True):
            calls.append(propto)
            return float(np.sum(stats.norm.logpdf(theta, 1.0)))

        def log_density_gradient(self, theta, *, propto=True, jacobian=True):
            return self.log_density(theta, propto=propto), 1.0 - theta

        def param_constrain(self, theta, *, include_tp=False, include_gq=False):
            return np.append(theta, [2 * theta[0]] * include_tp)

        def param_unconstrain(self, theta):
            return theta

    result = qp.evidence(from_stan(Bridge()), budget=20_000, key=key)
    assert abs(result.log_evidence) < 5 * result.log_evidence_se + 0.005
    assert not any(calls)
    assert list(result.samples) == ["a", "b", "twice"]
    with pytest.raises(ValueError, match="`data` is in the model"):
        from_stan(Bridge(), {})


def test_programs_travel_to_other_processes():
    own = _program(NORMAL)
    again = pickle.loads(pickle.dumps(own.model))
    assert again.log_density(np.zeros(2)) == own.model.log_density(np.zeros(2))


def test_programs_and_data_from_files(tmp_path):
    (tmp_path / "one.stan").write_text(
        "data { real y; } parameters { real mu; } model { mu ~ normal(0, 1); y ~ normal(mu, 1); }"
    )
    (tmp_path / "data.json").write_text(json.dumps({"y": 1.0}))
    own = from_stan(tmp_path / "one.stan", tmp_path / "data.json")
    assert own.target.log_prob(np.zeros((1, 1)))[0] == pytest.approx(2 * stats.norm.logpdf(0) - 0.5)


HALF = np.log(0.5)
MISTAKES = {
    "real<lower=0> s; | s ~ normal(0, 1);": HALF,
    "real<lower=0> s; | s ~ cauchy(0, 2.5);": HALF,
    "real<lower=0> s; | s ~ student_t(3, 0, 2.5);": HALF,
    "real<lower=0> s; | target += normal_lpdf(s | 0, 1);": HALF,
    "real<lower=0> s; | s ~ normal(1, 1);": stats.norm.logcdf(1),
    "real<lower=0> s; | s ~ logistic(0, 1);": HALF,
    "real<lower=0> s; | s ~ double_exponential(0, 3);": HALF,
    "real<upper=0> s; | s ~ normal(0, 1);": HALF,
    "vector<lower=0>[3] s; | s ~ normal(0, 1);": 3 * HALF,
    "array[3] real<lower=0> s; | s ~ cauchy(0, 1);": 3 * HALF,
    "vector<lower=0>[3] s; | for (j in 1:3) s[j] ~ normal(0, 2);": 3 * HALF,
    "real<lower=0> s; real<lower=0> x; | s ~ exponential(1); x ~ normal(0, s);": HALF,
    "real<lower=0, upper=1> s; | s ~ normal(0, 1);": np.log(stats.norm.cdf(1) - 0.5),
    "real<lower=1> s; | s ~ exponential(1);": -1.0,
    "real<lower=0.5> s; | s ~ gamma(2, 1);": stats.gamma(2).logsf(0.5),
    "real<lower=-1, upper=1> r; | ": np.log(2),
    "real<lower=0, upper=10> r; | ": np.log(10),
    "real m; | target += -0.5 * square(m);": 0.5 * np.log(2 * np.pi),
    "real m; | target += -0.5 * square(m / 3);": 0.5 * np.log(2 * np.pi) + np.log(3),
    "vector[2] m; | target += -0.5 * dot_self(m);": np.log(2 * np.pi),
    "real m; | m ~ normal(0, 1); m ~ normal(0, 1);": -np.log(2) - 0.5 * np.log(np.pi),
    "simplex[4] p; | ": -gammaln(4),
    "ordered[3] c; | c ~ normal(0, 5);": -gammaln(4),
    "unit_vector[3] c; | ": 1.5 * np.log(2 * np.pi),
    "real m; | ": np.inf,
    "real<lower=0> s; | ": np.inf,
    "vector[2] m; | ": np.inf,
    "real<lower=0> s; | target += -log(s);": np.inf,
    "real<lower=0> s; | target += -2 * log(s);": np.inf,
    "real m; real<lower=0> s; | m ~ normal(0, s);": np.inf,
}
"""Priors that do not integrate to one, and the log of what they integrate to."""
DATA = "data { int N; vector[N] y; } "
GIVEN = {"N": 2, "y": [0.3, 0.5]}


def _findings(kind):
    declared, _, statements = kind.partition(" | ")
    used = "y ~ normal(sum(to_vector({0.1})), 1);"
    own = _program(f"{DATA} parameters {{ {declared} }} model {{ {statements} {used} }}", GIVEN).model
    code = f"{DATA} parameters {{ {declared} }} model {{ {statements} {used} }}"
    return [note for note in stan._notes(code, ".", own) if isinstance(note.kind, Finding)]


@pytest.mark.parametrize("kind", MISTAKES)
def test_priors_that_do_not_integrate_to_one_are_found(kind):
    (found,) = _findings(kind)
    if MISTAKES[kind] == np.inf:
        assert found.kind is Finding.IMPROPER_PRIOR
    else:
        assert found.kind is Finding.HALF_PRIOR
        assert found.constant == pytest.approx(MISTAKES[kind], abs=2e-3)


RIGHT = [
    "real m; | m ~ normal(0, 100);",
    "real m; | target += normal_lpdf(m | 100, 0.01);",
    "real<lower=0> s; | s ~ normal(0, 1) T[0, ];",
    "real<lower=0> s; | target += normal_lpdf(s | 0, 1) - normal_lccdf(0 | 0, 1);",
    "real<lower=0> s; | target += student_t_lpdf(s | 3, 0, 2.5) - 1 * student_t_lccdf(0 | 3, 0, 2.5);",
    "real<lower=0> s; | s ~ exponential(0.001);",
    "real<lower=0> s; | s ~ inv_gamma(0.01, 0.01);",
    "real<lower=0> s; | s ~ lognormal(10, 0.01);",
    "real<lower=0, upper=1> p; | ",
    "real<lower=0, upper=1> p; | p ~ beta(0.5, 0.5);",
    "real<lower=2, upper=5> p; | p ~ uniform(2, 5);",
    "vector[3] m; | m ~ std_normal();",
    "vector[3] m; | to_vector(m) ~ normal(0, 3);",
    "matrix[2, 2] m; | to_vector(m) ~ normal(0, 3);",
    "vector[3] m; | m ~ normal([1, 2, 3]', 2);",
    "vector[3] m; | for (j in 1:3) { m[j] ~ normal(j, 2); }",
    "vector[3] m; | m[1] ~ normal(0, 1); m[2:3] ~ normal(0, 2);",
    "vector[3] m; | m ~ multi_normal(rep_vector(0, 3), diag_matrix(rep_vector(1, 3)));",
    "vector[3] m; | target += -0.5 * dot_self(m[1:2] - m[2:3]); sum(m) ~ normal(0, 0.003);",
    "real m; real<lower=0> s; vector[3] t; | m ~ normal(0, 1); s ~ exponential(1); t ~ normal(m, s);",
    "real ls; | real s = exp(ls); s ~ gamma(2, 1); target += ls;",
    "simplex[3] p; | p ~ dirichlet([1, 2, 3]');",
    "corr_matrix[3] R; | R ~ lkj_corr(2);",
    "cholesky_factor_corr[3] L; | L ~ lkj_corr_cholesky(2);",
    "ordered[3] c; | c ~ normal([-1, 0, 1]', 2);",
    "real<lower=0> s; | // s ~ normal(0, 1);\n s ~ gamma(1, 1);",
    "vector<lower=0>[2] s; | s ~ gamma(2, 2);",
    "array[2] vector[2] m; | for (i in 1:2) m[i] ~ normal(0, 1);",
    "array[2] vector[2] m; | for (i in 1:2) for (j in 1:2) m[i, j] ~ normal(0, 1);",
    "real<offset=3, multiplier=2> m; | m ~ normal(3, 2);",
]


@pytest.mark.parametrize("kind", RIGHT)
def test_priors_that_integrate_to_one_are_left_alone(kind):
    assert _findings(kind) == []


def test_a_program_as_brms_writes_it():
    code = """
    data { int N; vector[N] y; }
    parameters { real Intercept; real<lower=0> sigma; vector<lower=0>[1] sd_1; array[1] vector[3] z_1; }
    transformed parameters {
      vector[3] r_1;
      real lprior = 0;
      r_1 = (sd_1[1] * (z_1[1]));
      lprior += student_t_lpdf(Intercept | 3, 0.1, 2.5);
      lprior += student_t_lpdf(sigma | 3, 0, 2.5) - 1 * student_t_lccdf(0 | 3, 0, 2.5);
      lprior += student_t_lpdf(sd_1 | 3, 0, 2.5) - 1 * student_t_lccdf(0 | 3, 0, 2.5);
    }
    model {
      target += normal_lpdf(y | Intercept + r_1[1], sigma);
      target += lprior;
      target += std_normal_lpdf(z_1[1]);
    }
    """
    own = from_stan(code, GIVEN)
    assert own.notes == ()
    halved = from_stan(
        code.replace("(sigma | 3, 0, 2.5) - 1 * student_t_lccdf(0 | 3, 0, 2.5)", "(sigma | 3, 0, 2.5)"), GIVEN
    )
    (found,) = halved.notes
    assert found.name == "sigma"
    assert found.constant == pytest.approx(HALF, abs=2e-3)


def test_a_half_prior_is_part_of_the_verdict(key):
    own = from_stan("parameters { real<lower=0> s; } model { s ~ normal(0, 1); 0.3 ~ normal(s, 1); }")
    result = qp.evidence(own, budget=20_000, key=key)
    assert result.verdict.level == "doubtful"
    assert "does not integrate to 1 but to 0.5, and the log evidence is shifted by -0.6931" in str(result.verdict)


def test_stan_rejects_points_without_mass(key):
    code = 'parameters { real m; } model { if (m > 1) reject("too far"); m ~ normal(0, 1); }'
    result = qp.evidence(from_stan(code), budget=30_000, key=key)
    assert abs(result.log_evidence - stats.norm.logcdf(1)) < 5 * result.log_evidence_se + 0.01


@pytest.mark.parametrize(
    ("program", "data", "message"),
    [
        ("parameters { real mu }", None, r"(?s)the Stan program has an error.*line 1.*Expected \";\""),
        ("parameters { int k; } model { }", None, "Parameters cannot be integers"),
        (
            f"{DATA} parameters {{ real m; }} model {{ y ~ normal(m, 1); }}",
            {"N": 3, "y": [1.0]},
            "not fit .* name=y",
        ),
        ("data { real y; } model { }", {"y": 1.0}, "no parameters"),
        ('parameters { real m; } model { reject("never"); }', None, "rejects 3,200 random starts"),
        ("nowhere.stan", None, "the path of a file, got 'nowhere.stan'"),
        (NORMAL, "nowhere.json", "the path of a JSON file, got 'nowhere.json'"),
        (NORMAL, 3, "must be a dictionary or the path of a JSON file, got 3"),
        (3, None, "`program` must be the text or the path"),
    ],
)
def test_what_is_wrong_is_said_in_the_words_of_stan(program, data, message):
    with pytest.raises((ValueError, TypeError), match=message):
        from_stan(program, data)


def test_without_stanli_the_error_says_what_to_install(monkeypatch):
    stan._stanli.cache_clear()
    monkeypatch.setitem(sys.modules, "stanli", None)
    with pytest.raises(ImportError, match=r"pip install 'qpaths\[stan\]'"):
        from_stan(NORMAL)
    monkeypatch.undo()
    stan._stanli.cache_clear()


def test_another_format_of_programs_is_refused(monkeypatch):
    stan._stanli.cache_clear()
    monkeypatch.setattr(stan, "_keeping", lambda compiled: compiled)
    with pytest.raises(ImportError, match="constants of `~` cannot be kept"):
        from_stan(NORMAL)
    monkeypatch.undo()
    stan._stanli.cache_clear()
