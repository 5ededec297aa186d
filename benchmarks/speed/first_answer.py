"""What a user waits for: CPU seconds from the start of a process to the answer, and again for another key.

    python -m benchmarks.speed.first_answer [--repeats 3] [--only GROUP ...] [--dynesty PYTHON] [--pymc PYTHON]
        [--write]

Every case runs in fresh processes. A cold figure is the CPU time of the process and its children, imports included, as
the operating system reports it when the process ends. "Another key" is a second call in the same process. XLA
compilations are counted through `jax.monitoring`. All settings are JAX's and the library's defaults, so numbers have
32 bits. Figures are medians over the repetitions, with the range in parentheses.

dynesty and PyMC run in environments of their own. Give the interpreters with `--dynesty` and `--pymc`, or in
QPATHS_BENCH_DYNESTY and QPATHS_BENCH_PYMC; without one its rows are skipped. `--write` stores the tables in
benchmarks/results/first_answer.md.
"""

# Only the standard library here: rivals' interpreters run this file too, and imports count.
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "first_answer.md"
DATA = ROOT / "paper" / "src" / "qpaths_paper" / "parts" / "data"
NUM_CALLS = 20
"""Further calls over which the growth of memory is measured."""
NUM_IMPORTS = 7
KILOBYTES = 1024 if sys.platform != "darwin" else 1
"""The unit of `ru_maxrss` in bytes."""


# Inside the measured processes.


def cpu_seconds():
    """Of this process and the children it has waited for, since its start."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def peak_megabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KILOBYTES / 1e6


class Compilations:
    """Counts what XLA compiles from now on."""

    def __init__(self):
        import jax

        self.num = 0
        jax.monitoring.register_event_duration_secs_listener(self.listen)

    def listen(self, event, duration, **unused):
        self.num += event.endswith("backend_compile_duration")


def readme_problem():
    """The functions of README's first example, new ones for each call."""
    import jax
    import jax.numpy as jnp

    return {
        "log_prior": lambda x: jnp.sum(jax.scipy.stats.norm.logpdf(x)),
        "log_likelihood": lambda x: -2.0 * jnp.sum((x - 1.0) ** 2),
        "sample_prior": lambda key: jax.random.normal(key, (2,)),
        "budget": 100_000,
    }


def regression_problem(name):
    from qpaths_paper.parts.datasets import load, logistic_regression

    base, target = logistic_regression(load(name))
    return {"base": base, "target": target}


def answers(problem, num_calls):
    """`num_calls` answers with keys of their own."""
    compilations = Compilations()
    import jax

    import qpaths as qp

    settings, found = problem(), []
    for seed in range(num_calls):
        before, compiled = cpu_seconds(), compilations.num
        result = qp.evidence(**settings, key=jax.random.key(seed))
        found.append(
            {
                "seconds": cpu_seconds() - before,
                "compilations": compilations.num - compiled,
                "value": float(result.log_evidence),
                "se": float(result.log_evidence_se),
                "cost": int(result.num_evaluations.total),
                "peak": peak_megabytes(),
            }
        )
    return found


def growth(make_new, clear):
    """Megabytes that the peak grows per further call, after the first."""
    import jax

    import qpaths as qp

    settings, peaks = readme_problem(), []
    for seed in range(NUM_CALLS + 1):
        qp.evidence(**settings, key=jax.random.key(seed))
        peaks.append(peak_megabytes())
        if make_new:
            settings = readme_problem()
        if clear:
            qp.clear_cache()
    return {"first": peaks[0], "last": peaks[-1], "per_call": (peaks[-1] - peaks[0]) / NUM_CALLS}


def predictors_of(name):
    """As `qpaths_paper.parts.datasets.load`, for interpreters that have neither qpaths nor JAX."""
    import numpy as np

    table = np.genfromtxt(DATA / f"{name}.csv", delimiter=",", dtype=str)
    labels = np.where(np.isin(table[:, -1], ["1", "M"]), 1.0, -1.0)
    columns = table[:, :-1].astype(float)
    columns = 0.5 * (columns - columns.mean(axis=0)) / columns.std(axis=0)
    return np.column_stack([np.ones(len(labels)), columns]) * labels[:, None]


def dynesty_answer(name):
    """Nested sampling with the defaults."""
    import dynesty
    import numpy as np
    from scipy.special import ndtri

    if name == "readme":
        scale, dimension = 1.0, 2

        def log_likelihood(x):
            return -2.0 * np.sum((x - 1.0) ** 2)

    else:
        signed = predictors_of(name)
        scale, dimension = 5.0, signed.shape[1]

        def log_likelihood(x):
            return -np.sum(np.logaddexp(0.0, -(signed @ x)))

    generator = np.random.default_rng(0)
    sampler = dynesty.NestedSampler(log_likelihood, lambda u: scale * ndtri(u), dimension, rstate=generator)
    sampler.run_nested(print_progress=False)
    found = sampler.results
    return {"value": float(found.logz[-1]), "se": float(found.logzerr[-1]), "cost": int(np.sum(found.ncall))}


def pymc_answer(name):
    """Sequential Monte Carlo, four chains of 2,000 draws; the standard error is that of the mean of the chains."""
    import numpy as np
    import pymc as pm

    with pm.Model():
        if name == "readme":
            x = pm.Normal("x", 0.0, 1.0, shape=2)
            pm.Potential("log_likelihood", -2.0 * pm.math.sum((x - 1.0) ** 2))
        else:
            signed = predictors_of(name)
            x = pm.Normal("x", 0.0, 5.0, shape=signed.shape[1])
            pm.Potential("log_likelihood", -pm.math.sum(pm.math.log1pexp(-pm.math.dot(signed, x))))
        found = pm.sample_smc(draws=2000, chains=4, random_seed=0, progressbar=False, compute_convergence_checks=False)
    chains = np.array([last_finite(chain) for chain in found.sample_stats["log_marginal_likelihood"].values])
    return {"value": float(chains.mean()), "se": float(chains.std(ddof=1) / len(chains) ** 0.5), "cost": None}


def last_finite(stages):
    """The last number of nested lists, of which shorter chains fill up the end with NaN."""
    import numpy as np

    values = np.concatenate([np.ravel(np.asarray(stage, float)) for stage in np.ravel(stages)])
    return values[np.isfinite(values)][-1]


CHILDREN = {
    "readme": lambda n: answers(readme_problem, n),
    "pima": lambda n: answers(lambda: regression_problem("pima"), n),
    "sonar": lambda n: answers(lambda: regression_problem("sonar"), n),
    "growth, same functions": lambda n: growth(make_new=False, clear=False),
    "growth, new functions": lambda n: growth(make_new=True, clear=False),
    "growth, new functions, cleared": lambda n: growth(make_new=True, clear=True),
    "dynesty readme": lambda n: dynesty_answer("readme"),
    "dynesty pima": lambda n: dynesty_answer("pima"),
    "pymc readme": lambda n: pymc_answer("readme"),
    "pymc pima": lambda n: pymc_answer("pima"),
}


# In the process that measures.


def measured(command):
    """CPU seconds and peak megabytes of a process and its children, wall seconds, and what it printed."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    # Standard error is small (a warning or a traceback), so that it fits into the pipe.
    output = process.stdout.read()
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - start
    if process.returncode:
        raise RuntimeError(f"a measured process ended with code {process.returncode}:\n{errors[-2000:]}")
    return {
        "seconds": usage.ru_utime + usage.ru_stime,
        "peak": usage.ru_maxrss * KILOBYTES / 1e6,
        "wall": wall,
        "output": output,
    }


def run_child(name, num_calls=1, python=sys.executable):
    found = measured([python, "-m", "benchmarks.speed.first_answer", "--child", name, str(num_calls)])
    return {**found, "answer": json.loads(found["output"].strip().splitlines()[-1])}


def spread(values, digits=2):
    """Median and range."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def show(*cells):
    line = "| " + " | ".join(cells) + " |"
    print(line, flush=True)
    return line


class Tables:
    """Rows of the table of figures and of the table of answers, printed as they are found."""

    def __init__(self):
        self.figures, self.answers, self.notes = [], [], []

    def figure(self, what, wanted, measured):
        self.figures.append(show(what, wanted, measured))

    def answer(self, case, compilations, peak, value, cost):
        self.answers.append(show(case, compilations, peak, value, cost))

    def note(self, text):
        print(text, flush=True)
        self.notes.append(text)

    def text(self):
        head = ["| what | wanted | measured |", "|---|---|---|"]
        second = ["| case | XLA compilations | peak MB | log evidence | evaluations |", "|---|---|---|---|---|"]
        parts = [[*head, *self.figures], [*second, *self.answers] if self.answers else [], self.notes]
        return "\n\n".join("\n".join(part) for part in parts if part)


def first_answer(tables, name, title, limits, repeats):
    """Cold, then another key; `limits` are CPU seconds of the two and the standard error, None where none is wanted."""
    cold_limit, again_limit, se_limit = limits
    cold = [run_child(name) for _ in range(repeats)]
    again = [run_child(name, 2)["answer"] for _ in range(repeats)]
    tables.figure(f"{title}, cold process, CPU s", at_most(cold_limit), spread([run["seconds"] for run in cold]))
    seconds = spread([run[1]["seconds"] for run in again])
    tables.figure(f"{title}, same process, another key, CPU s", at_most(again_limit), seconds)
    tables.figure(f"{title}, compilations for another key", "0", str(max(run[1]["compilations"] for run in again)))
    if se_limit is not None:
        largest = max(answer["se"] for run in again for answer in run)
        tables.figure(f"{title}, standard error", at_most(se_limit), f"{largest:.4f}")
    for label, runs, peaks in (
        ("cold process", [run["answer"][0] for run in cold], [run["peak"] for run in cold]),
        ("another key", [run[1] for run in again], [run[1]["peak"] for run in again]),
    ):
        found = runs[0]
        compiled = str(max(run["compilations"] for run in runs))
        value = f"{found['value']:.4f} +- {found['se']:.4f}"
        tables.answer(f"{title}, {label}", compiled, f"{statistics.median(peaks):.0f}", value, f"{found['cost']:,}")
    return cold


def at_most(limit):
    return "" if limit is None else f"<= {limit}"


def run_readme(tables, arguments):
    cold = first_answer(tables, "readme", "README's example", (2.5, 0.3, None), arguments.repeats)
    tables.figure("README's example, peak MB", "<= 450", spread([run["peak"] for run in cold], 0))


def run_pima(tables, arguments):
    first_answer(tables, "pima", "Pima", (6, 3, 0.005), arguments.repeats)


def run_sonar(tables, arguments):
    first_answer(tables, "sonar", "Sonar", (12, None, None), arguments.repeats)


def run_memory(tables, arguments):
    for name, title, wanted in (
        ("growth, same functions", "the same functions", "<= 5"),
        ("growth, new functions", "new functions each time", ""),
        ("growth, new functions, cleared", "new functions, `clear_cache()` after each", ""),
    ):
        found = [run_child(name)["answer"] for _ in range(arguments.repeats)]
        what = f"README's example, {NUM_CALLS} further calls with {title}: growth of the peak, MB per call"
        tables.figure(what, wanted, spread([run["per_call"] for run in found]))


def run_imports(tables, arguments):
    """`qpaths.evidence` is fetched as well, because the package imports its parts when they are used."""
    plain, ours = [], []
    for _ in range(NUM_IMPORTS):
        plain.append(measured([sys.executable, "-c", "import jax"])["seconds"])
        ours.append(measured([sys.executable, "-c", "import jax, qpaths; qpaths.evidence"])["seconds"])
    beyond = statistics.median(ours) - statistics.median(plain)
    tables.figure(
        "`import qpaths` and its `evidence`, beyond `import jax`, CPU s",
        "<= 0.4",
        f"{beyond:.2f} ({spread(ours)} less {spread(plain)})",
    )
    command = [sys.executable, "-m", "qpaths", "--help"]
    tables.figure("`qpaths --help`, CPU s", "<= 1", spread([measured(command)["seconds"] for _ in range(NUM_IMPORTS)]))


def run_rivals(tables, arguments):
    for rival, title in (("dynesty", "dynesty, defaults"), ("pymc", "PyMC `sample_smc`, 4 x 2,000 draws")):
        python = getattr(arguments, rival)
        if python is None:
            tables.note(f"{title}: skipped, because no interpreter is given (`--{rival}`).")
            continue
        for name, problem in (("readme", "README's example"), ("pima", "Pima")):
            runs = [run_child(f"{rival} {name}", python=python) for _ in range(arguments.repeats)]
            tables.figure(f"{problem}, {title}, cold process, CPU s", "", spread([run["seconds"] for run in runs]))
            found = runs[0]["answer"]
            cost = "" if found["cost"] is None else f"{found['cost']:,}"
            peak = f"{statistics.median([run['peak'] for run in runs]):.0f}"
            tables.answer(f"{problem}, {title}", "", peak, f"{found['value']:.4f} +- {found['se']:.4f}", cost)


GROUPS = {
    "readme": run_readme,
    "pima": run_pima,
    "sonar": run_sonar,
    "memory": run_memory,
    "imports": run_imports,
    "rivals": run_rivals,
}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3, help="processes of each case")
    parser.add_argument("--only", nargs="+", choices=list(GROUPS), default=list(GROUPS))
    parser.add_argument("--dynesty", default=os.environ.get("QPATHS_BENCH_DYNESTY"), help="interpreter with dynesty")
    parser.add_argument("--pymc", default=os.environ.get("QPATHS_BENCH_PYMC"), help="interpreter with PyMC")
    parser.add_argument("--write", action="store_true", help="store the tables in benchmarks/results")
    parser.add_argument("--child", nargs=2, metavar=("CASE", "CALLS"), help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    arguments = parse()
    if arguments.child is not None:
        name, num_calls = arguments.child
        print(json.dumps(CHILDREN[name](int(num_calls))))
        return
    load = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before"
    tables = Tables()
    for name in arguments.only:
        GROUPS[name](tables, arguments)
    load += f" and {os.getloadavg()[0]:.1f} after the runs, which put 1 to 2 on it themselves"
    versions = "import jax, numpy; print(f'jax {jax.__version__}, numpy {numpy.__version__}')"
    machine = f"{measured([sys.executable, '-c', versions])['output'].strip()}, {load}."
    text = f"{machine}\n\n{tables.text()}\n"
    print(f"\n{text}")
    if arguments.write:
        RESULTS.write_text(document(text, arguments), encoding="utf-8")


def document(text, arguments):
    truths = json.loads((DATA / "truths.json").read_text(encoding="utf-8"))
    pima, sonar = (f"{truths[name]['log_evidence']:.4f}" for name in ("pima", "sonar"))
    groups = "" if arguments.only == list(GROUPS) else f" --only {' '.join(arguments.only)}"
    return f"""# From the start of a process to the answer

Made by `python -m benchmarks.speed.first_answer --repeats {arguments.repeats}{groups} --write`, with the interpreters
of dynesty and PyMC in QPATHS_BENCH_DYNESTY and QPATHS_BENCH_PYMC. CPU seconds of the process and its children, imports
included; medians of {arguments.repeats} processes (imports: {NUM_IMPORTS}), ranges in parentheses. Answers are those
of the first process. The true log evidences are -2.4094 (README's example), {pima} (Pima) and {sonar} (Sonar).

{text}"""


if __name__ == "__main__":
    main()
