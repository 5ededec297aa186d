"""PyMC: `sample_smc`, with the models written in PyTensor."""

TITLE = "PyMC sample_smc"
REQUIREMENTS = ["pymc"]
PACKAGES = ["pymc", "pytensor"]
MODULES = ["pymc", "pytensor"]
NAMESPACE = "pytensor"
SETTINGS = {
    "default": "`sample_smc(draws=2000, chains=4)`, independent Metropolis-Hastings moves",
    "more": "`draws=10_000`",
}
NOTE = "The error bar is the standard error of the mean of the four chains, which are independent."
OPTIONS = {"default": 2000, "more": 10_000}


def prior_of(problem):
    """The prior in PyMC's own words; the random effects and the path keep their hierarchical form."""
    import pymc as pm
    import pytensor.tensor as pt

    if problem.scale is not None:
        return pm.Normal("x", 0.0, problem.scale, shape=problem.dimension)
    if problem.name == "brownian":
        scales = pm.LogNormal("scales", 0.0, 2.0, shape=2)
        steps = pm.Normal("steps", 0.0, scales[0], shape=30)
        return pt.concatenate([scales + pt.log(-pt.expm1(-scales)), pt.cumsum(steps)])
    tau = pm.Gamma("tau", 0.01, 0.01)
    coefficients = pm.Normal("coefficients", 0.0, 10.0, shape=4)
    effects = pm.Normal("effects", 0.0, tau=tau, shape=21)
    return pt.concatenate([pt.log(tau)[None], coefficients, effects])


def run(problem, seed, effort):
    import logging

    import numpy as np
    import pymc as pm

    logging.getLogger("pymc").setLevel(logging.ERROR)
    with pm.Model():
        pm.Potential("log_likelihood", problem.log_likelihood(prior_of(problem)))
        found = pm.sample_smc(
            draws=OPTIONS[effort],
            chains=4,
            cores=1,
            random_seed=seed,
            progressbar=False,
            compute_convergence_checks=False,
            return_inferencedata=False,
        )
    # One list of stages for each chain; all stages but the last may be NaN.
    chains = np.array([np.asarray(stages, float)[-1] for stages in found.report.log_marginal_likelihood])
    return {"log_evidence": float(chains.mean()), "se": float(chains.std(ddof=1) / 2), "evaluations": None}
