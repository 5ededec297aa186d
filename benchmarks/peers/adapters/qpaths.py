"""qpaths: `evidence` with its defaults."""

TITLE = "qpaths"
REQUIREMENTS = ["--editable", "."]
PACKAGES = ["qpaths"]
MODULES = ["jax", "qpaths"]
NAMESPACE = "jax"
SETTINGS = {
    "default": "`evidence(log_prior, log_likelihood, sample_prior)`: an error of 0.005 or a million evaluations",
    "more": "`standard_error=0.001, budget=4_000_000`",
}
OPTIONS = {"default": {}, "more": {"standard_error": 0.001, "budget": 4_000_000}}


def run(problem, seed, effort):
    import jax

    import qpaths as qp

    result = qp.evidence(
        log_prior=problem.log_prior,
        log_likelihood=problem.log_likelihood,
        sample_prior=lambda key: problem.from_normal(jax.random.normal(key, (problem.dimension,))),
        key=jax.random.key(seed),
        **OPTIONS[effort],
    )
    return {
        "log_evidence": float(result.log_evidence),
        "se": float(result.log_evidence_se),
        "evaluations": int(result.num_evaluations.total),
        "verdict": str(result.verdict.level),
    }
