"""qpaths: `evidence` with its defaults."""

TITLE = "qpaths"
REQUIREMENTS = ["--editable", "."]
PACKAGES = ["qpaths"]
MODULES = ["jax", "qpaths"]
NAMESPACE = "jax"
SETTINGS = {
    "default": "`evidence(base, target)`: an error of 0.005 or a million evaluations",
    "more": "`standard_error=0.001, budget=4_000_000`",
}
OPTIONS = {"default": {}, "more": {"standard_error": 0.001, "budget": 4_000_000}}


def run(problem, seed, effort):
    import jax

    import qpaths as qp

    def sample(key):
        return problem.from_normal(jax.random.normal(key, (problem.dimension,)))

    base = qp.Density(problem.log_prior, sample)
    result = qp.evidence(base, qp.Density(problem.log_target), key=jax.random.key(seed), **OPTIONS[effort])
    return {
        "log_evidence": float(result.log_evidence),
        "se": float(result.log_evidence_se),
        "evaluations": int(result.num_evaluations.total),
        "verdict": str(result.verdict.level),
    }
