"""Hostile likelihoods, priors, sizes, budgets and names: each case with the outcome that is wanted.

    python -m benchmarks.reliability.hostile [--only WORD] [--fast] [--write]

Each case runs in a process of its own, with a limit of time. An outcome is `right` (within five standard errors of the
known truth), `doubtful` (whatever the number, and said so), `told` (an error whose text has the words that are wanted),
or one of four failures: `silent` (called sound and off, or without a finding that is due), `unclear` (another error),
`late` (far over `seconds`) and `crash`. A case passes if its outcome is one that it names. `--fast` runs every third
case, as `tests/test_hostile.py` does. `--write` stores the table in benchmarks/results/hostile.md.
"""

import argparse
import collections
import json
import math
import multiprocessing
import re
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

PAGE = Path(__file__).parents[1] / "results" / "hostile.md"
TRUTH = -math.log(5) - 0.8
"""Of a standard normal prior in two dimensions with the likelihood exp(-2 |x - 1|^2)."""
LIMIT = 90.0
"""Seconds of wall time after which a case counts as hanging."""


class Case(NamedTuple):
    """What is run, and what should come of it."""

    name: str
    call: Any
    """Without arguments; returns a result, or anything else where nothing must be estimated."""
    wanted: tuple[str, ...] = ("right",)
    truth: float | None = TRUTH
    words: str = ""
    """What the text of an error, or of a verdict that is not sound, must have in it."""
    seconds: float | None = None
    """The time that was asked for. Twice as much and ten seconds for the compiler are far over it."""


CASES: list[Case] = []


def case(name, wanted="right", truth=TRUTH, words="", seconds=None):
    """Add the decorated function as a case; `wanted` may have several outcomes, separated by spaces."""

    def add(call):
        CASES.append(Case(name, call, tuple(wanted.split()), truth, words, seconds))
        return call

    return add


def told(name, words, call):
    """Add a case that must end with an error with these words."""
    CASES.append(Case(name, call, ("told",), None, words))


def both_ways(name, change, **wanted):
    """Add a case for a change of the likelihood, for JAX and for NumPy."""
    for backend in ("jax", "numpy"):

        def call(backend=backend):
            import jax.numpy as jnp

            xp = jnp if backend == "jax" else np
            return run(lambda x: change(xp, x, -2.0 * xp.sum((x - 1.0) ** 2)), backend)

        case(f"{name} ({backend})", **wanted)(call)


def run(log_likelihood, backend="jax", dimension=2, **settings):
    """The evidence of a likelihood under a standard normal prior."""
    import jax
    import jax.numpy as jnp

    import qpaths as qp

    xp = jnp if backend == "jax" else np

    def log_prior(x):
        return -0.5 * xp.sum(x**2) - 0.5 * dimension * math.log(2 * math.pi)

    def sample(key):
        return jax.random.normal(key, (dimension,)) if backend == "jax" else key.standard_normal(dimension)

    given = {"log_prior": log_prior, "sample_prior": sample, "log_likelihood": log_likelihood, "backend": backend}
    settings = {"budget": 40_000, "key": jax.random.key(settings.pop("seed", 0))} | given | settings
    return qp.evidence(**settings)


def of_prior(distribution, log_likelihood=None, **settings):
    """The evidence of a likelihood of one variable under a prior, 1 where there is no likelihood."""
    import jax

    import qpaths as qp

    likelihood = log_likelihood or (lambda p: 0.0 * sum(jax.tree.leaves(jax.tree.map(lambda leaf: leaf.sum(), p))))
    return qp.evidence(
        prior={"p": distribution},
        log_likelihood=likelihood,
        **({"budget": 40_000, "key": jax.random.key(0)} | settings),
    )


def plain(x):
    import jax.numpy as jnp

    return -2.0 * jnp.sum((x - 1.0) ** 2)


def _values():
    """Values that no log likelihood should have, everywhere or at some points."""
    both_ways("as it should be", lambda xp, x, value: value)
    both_ways("NaN beyond 2", lambda xp, x, value: xp.where(xp.abs(x[0]) > 2, xp.nan, value), wanted="right doubtful")
    both_ways("+inf beyond 2", lambda xp, x, value: xp.where(xp.abs(x[0]) > 2, xp.inf, value), wanted="right doubtful")
    both_ways(
        "-inf beyond 2",
        lambda xp, x, value: xp.where(xp.abs(x[0]) > 2, -xp.inf, value),
        wanted="right doubtful",
        truth=None,
    )
    both_ways(
        "NaN at a third", lambda xp, x, value: xp.where(x[0] > 0.43, xp.nan, value), wanted="doubtful", truth=None
    )
    both_ways("NaN everywhere", lambda xp, x, value: value * xp.nan, wanted="told", words="is nan")
    both_ways("+inf everywhere", lambda xp, x, value: value + xp.inf, wanted="told", words="is inf")
    both_ways("-inf everywhere", lambda xp, x, value: value - xp.inf, wanted="doubtful", truth=None)
    both_ways("minus 1e308", lambda xp, x, value: value - 1e308, wanted="doubtful told", truth=None)
    both_ways("plus 1e300", lambda xp, x, value: value + 1e300, wanted="doubtful told", truth=None)
    both_ways("times 1e300", lambda xp, x, value: value * 1e300, wanted="doubtful told", truth=None)
    both_ways("plus 1e15", lambda xp, x, value: value + 1e15, wanted="doubtful told", truth=None)
    both_ways("plus 1e5", lambda xp, x, value: value + 1e5, truth=TRUTH + 1e5, wanted="right doubtful")
    both_ways("complex", lambda xp, x, value: value + 1j * x[0], wanted="told", words="complex")
    both_ways("complex, without imaginary part", lambda xp, x, value: value + 0j, wanted="told", words="complex")
    both_ways("a vector of one number", lambda xp, x, value: value[None], wanted="told right", words="one number")
    both_ways("a vector", lambda xp, x, value: -2.0 * (x - 1.0) ** 2, wanted="told", words="one number")
    both_ways("nothing", lambda xp, x, value: None, wanted="told", words="one number")
    both_ways("a list", lambda xp, x, value: [value], wanted="told right", words="number")
    both_ways(
        "a step", lambda xp, x, value: xp.where(x[0] > 0, 0.0, -xp.inf), truth=math.log(0.5), wanted="right doubtful"
    )
    both_ways(
        "an indicator of a far tail",
        lambda xp, x, value: xp.where(x[0] > 3, 0.0, -xp.inf),
        truth=-6.6077,
        wanted="right doubtful",
    )
    both_ways("whole numbers", lambda xp, x, value: xp.round(value), truth=None, wanted="right doubtful")
    both_ways("flat", lambda xp, x, value: 0.0 * value, truth=0.0, wanted="doubtful")
    both_ways(
        "ignores a coordinate",
        lambda xp, x, value: -2.0 * (x[0] - 1.0) ** 2,
        truth=0.5 * TRUTH,
        wanted="right doubtful",
    )
    both_ways(
        "very narrow",
        lambda xp, x, value: 5e7 * value,
        truth=-math.log(1 + 2e8) - 2e8 / (1 + 2e8),
        wanted="right doubtful",
    )
    both_ways(
        "two far modes",
        lambda xp, x, value: xp.logaddexp(-50 * xp.sum((x - 2) ** 2), -50 * xp.sum((x + 2) ** 2)),
        truth=math.log(2) - math.log(101) - 4 * 100 / 101,
        wanted="right doubtful",
    )

    @case("text (numpy)", "told", None, "number")
    def _():
        return run(lambda x: "high", "numpy")

    @case("nothing at some points (numpy)", "told right doubtful", words="one number")
    def _():
        return run(lambda x: None if x[0] > 2 else -2.0 * np.sum((x - 1.0) ** 2), "numpy")

    @case("bool (numpy)", "right doubtful", math.log(0.5 * (1 + math.e)))
    def _():
        return run(lambda x: bool(x[0] > 0), "numpy")

    @case("an array of objects (numpy)", "told right", words="number")
    def _():
        return run(lambda x: np.array(-2.0 * np.sum((x - 1.0) ** 2), object), "numpy")

    @case("a masked number (numpy)", "told right", words="number")
    def _():
        return run(lambda x: np.ma.array(-2.0 * np.sum((x - 1.0) ** 2)), "numpy")

    @case("single precision (numpy)", "right")
    def _():
        return run(lambda x: np.float32(-2.0 * np.sum((x - 1.0) ** 2)), "numpy")

    @case("decimal (numpy)", "right told", words="number")
    def _():
        import decimal

        return run(lambda x: decimal.Decimal(float(-2.0 * np.sum((x - 1.0) ** 2))), "numpy")


def _errors():
    """Likelihoods that raise, do not stop, or change their argument."""
    for kind in (
        RuntimeError,
        ZeroDivisionError,
        ValueError,
        FloatingPointError,
        KeyError,
        MemoryError,
        np.linalg.LinAlgError,
    ):

        @case(f"{kind.__name__} beyond 2", "right doubtful")
        def _(kind=kind):
            def likelihood(x):
                if abs(x[0]) > 2:
                    raise kind("the solver diverged")
                return -2.0 * np.sum((x - 1.0) ** 2)

            return run(likelihood, "numpy")

        @case(f"{kind.__name__} everywhere", "told", None, "the solver")
        def _(kind=kind):
            def likelihood(x):
                raise kind("the solver diverged")

            return run(likelihood, "numpy")

    told("raises, faults='raise'", "diverged", lambda: run(_sometimes, "numpy", faults="raise"))
    told("recursion without end", "recursion", lambda: run(_recursive, "numpy"))

    @case("warns at each point", "right")
    def _():
        def likelihood(x):
            warnings.warn("slow", stacklevel=1)
            return -2.0 * np.sum((x - 1.0) ** 2)

        return run(likelihood, "numpy")

    @case("prints and divides by zero", "right")
    def _():
        return run(lambda x: -2.0 * np.sum((x - 1.0) ** 2) + 0 * np.float64(1.0) / max(x[0], 1e-9), "numpy")

    @case("changes its argument", "right doubtful told", words="chang")
    def _():
        def likelihood(x):
            x -= 1.0
            return -2.0 * np.sum(x**2)

        return run(likelihood, "numpy")

    told("noise", "not deterministic", lambda: run(lambda x: _noise() - np.sum(x**2), "numpy"))
    told("noise in JAX", "not deterministic", lambda: run(lambda x: plain(x) + _noise()))

    @case("drifts with every call", "doubtful told", None)
    def _():
        calls = []

        def likelihood(x):
            calls.append(0)
            return -2.0 * np.sum((x - 1.0) ** 2) + 1e-4 * len(calls)

        return run(likelihood, "numpy")

    @case("noise after 2,000 calls", "doubtful told", None)
    def _():
        calls, generator = [], np.random.default_rng(0)

        def likelihood(x):
            calls.append(0)
            return -2.0 * np.sum((x - 1.0) ** 2) + (len(calls) > 2000) * generator.normal()

        return run(likelihood, "numpy")


def _key():
    import jax

    return jax.random.key(0)


def _noise(*shape):
    return np.random.normal(size=shape)  # noqa: NPY002 - a key of JAX does not reach it


def _sometimes(x):
    if abs(x[0]) > 1:
        raise RuntimeError("the solver diverged")
    return -2.0 * np.sum((x - 1.0) ** 2)


def _recursive(x):
    return _recursive(x)


def _limits():
    """Budgets, times, errors and keys."""
    wrong = {
        "budget": (0, -5, math.nan, "100000", True, [1], 1, None),
        "seconds": (0, -1, math.nan, "60", True),
        "standard_error": (0, -0.1, math.nan, "small", False),
    }
    for name, values in wrong.items():
        for value in values:
            if value is not None:
                told(f"{name} {value!r}", name, lambda name=name, value=value: run(plain, **{name: value}))
    for key in (0, None, "key", 1.5, np.zeros(2)):
        told(f"key {key!r}", "key", lambda key=key: run(plain, key=key))
    for value in (20_000, 20_001, 1e5, np.int64(50_000), np.float32(1e5), math.inf):

        @case(f"budget {value!r}", "right")
        def _(value=value):
            return run(plain, budget=value)

    for value in (1e-9, 0.5, 2):

        @case(f"seconds {value!r}", "right doubtful", seconds=value)
        def _(value=value):
            return run(plain, budget=None, seconds=value)

    for pause, seconds in ((0.001, 2.0), (0.02, 4.0)):

        @case(f"sleeps {pause * 1000:g} ms, {seconds:g} s", "right doubtful", seconds=seconds)
        def _(pause=pause, seconds=seconds):
            def likelihood(x):
                time.sleep(pause)
                return -2.0 * np.sum((x - 1.0) ** 2)

            return run(likelihood, "numpy", budget=None, seconds=seconds)

    @case("a standard error that is large", "right doubtful")
    def _():
        return run(plain, budget=None, standard_error=10.0)

    told("a checkpoint in no folder", "folder", lambda: run(plain, checkpoint="/nowhere/at/all.npz"))
    told("a checkpoint that is a folder", "folder", lambda: run(plain, checkpoint="/tmp"))
    told("a kernel that is none", "kernel", lambda: run(plain, kernel="hmc"))
    told("faults that are none", "faults", lambda: run(plain, faults="ignore"))
    told("a backend that is none", "backend", lambda: run(plain, backend="torch"))


def _priors():
    """Priors and samplers."""
    from numpyro import distributions as dist
    from scipy import stats

    truths = {
        "Dirichlet(0.05)": lambda: dist.Dirichlet(np.full(4, 0.05)),
        "Dirichlet(1) in 30 dimensions": lambda: dist.Dirichlet(np.ones(30)),
        "HalfCauchy(1e5)": lambda: dist.HalfCauchy(1e5),
        "Gamma(1e-3)": lambda: dist.Gamma(1e-3, 1e-3),
        "Beta(0.01, 0.01)": lambda: dist.Beta(0.01, 0.01),
        "Cauchy": lambda: dist.Cauchy(0.0, 1.0),
        "LogNormal(0, 30)": lambda: dist.LogNormal(0.0, 30.0),
        "Uniform(1e9, 1e9 + 1)": lambda: dist.Uniform(1e9, 1e9 + 1),
        "VonMises": lambda: dist.VonMises(3.0, 2.0),
        "LKJ": lambda: dist.LKJCholesky(3, 1.0),
        "stats.uniform": lambda: stats.uniform(0, 1),
        "stats.t(1)": lambda: stats.t(1),
        "stats.lognorm(5)": lambda: stats.lognorm(5),
    }
    for name, make in truths.items():

        @case(f"prior {name}, no data", "right doubtful", 0.0)
        def _(make=make):
            return of_prior(make())

    for name, make in {
        "Poisson": lambda: dist.Poisson(3.0),
        "a number": lambda: 1.0,
        "text": lambda: "normal",
        "a class": lambda: dist.Normal,
        "NaN": lambda: dist.Normal(np.nan, 1.0),
        "a negative scale": lambda: stats.norm(0, -1),
        "an empty one": lambda: dist.Normal(np.zeros(0), 1.0),
    }.items():
        told(f"prior that is {name}", "", lambda make=make: of_prior(make()))
    told("prior without variables", "prior", lambda: _evidence(prior={}, log_likelihood=lambda p: 0.0))
    told("prior alone", "log_likelihood", lambda: _evidence(prior={"p": dist.Normal(0, 1)}))
    told("nothing at all", "log_prior", _evidence)
    told("an array as parameters", "Normal", lambda: _normal(np.zeros(3)))

    import jax

    samplers = {
        "constant": (lambda key: np.ones(2), "told", "same point"),
        "NumPy's random numbers": (lambda key: _noise(2), "told", "same point"),
        "NaN": (lambda key: jax.random.normal(key, (2,)) * np.nan, "told", ""),
        "two wide": (lambda key: 2 * jax.random.normal(key, (2,)), "doubtful", "does not draw"),
        "shifted": (lambda key: 1 + jax.random.normal(key, (2,)), "doubtful", "does not draw"),
        "one coordinate twice": (lambda key: np.ones(2) * jax.random.normal(key), "doubtful told", ""),
        "whole numbers": (lambda key: jax.random.randint(key, (2,), 0, 5), "told", "floating-point"),
        "one dimension more": (lambda key: jax.random.normal(key, (3,)), "doubtful told right", ""),
        "no dimension": (lambda key: np.zeros(0), "told", "at least one number"),
        "three values": (lambda key: jax.random.choice(key, np.array([-1.0, 0.0, 1.0]), (2,)), "doubtful told", ""),
        "text": (lambda key: "draw", "told", ""),
    }
    for name, (sample, wanted, words) in samplers.items():

        @case(f"a sampler of {name}", wanted, None, words)
        def _(sample=sample):
            return run(plain, sample_prior=sample)

    @case("a prior that is not normalized", "doubtful", None, "integrate to 1")
    def _():
        import jax.numpy as jnp

        return run(plain, log_prior=lambda x: -0.5 * jnp.sum(x**2))

    @case("a prior without a Jacobian", "doubtful", None, "")
    def _():
        import jax.numpy as jnp

        return run(
            plain,
            log_prior=lambda x: jnp.sum(-jnp.exp(x)),
            sample_prior=lambda key: jnp.log(jax.random.exponential(key, (2,))),
        )

    @case("a flat prior", "doubtful told", None)
    def _():
        return run(plain, log_prior=lambda x: 0.0 * x[0])


def _evidence(**given):
    import jax

    import qpaths as qp

    return qp.evidence(key=jax.random.key(0), **given)


def _normal(loc):
    import jax.numpy as jnp

    import qpaths as qp

    return qp.evidence(qp.Normal(loc, np.ones(3)), lambda x: -0.5 * jnp.sum(x**2), key=_key())


def _sizes():
    """Data and dimensions."""
    for num in (0, 1, 100_000):

        @case(f"{num} observations", "right doubtful", None)
        def _(num=num):
            import jax.numpy as jnp

            y = jnp.asarray(np.random.default_rng(0).normal(size=num))
            return run(lambda x: -0.5 * jnp.sum((y - x[0]) ** 2), dimension=1)

    told("data with NaN", "nan", lambda: run(lambda x: -0.5 * np.nansum([0.0]) + np.nan * x[0]))
    for dimension in (1, 50, 300):

        @case(f"normal in {dimension} dimensions", "right doubtful", -0.5 * dimension * math.log(5) - 0.4 * dimension)
        def _(dimension=dimension):
            return run(plain, dimension=dimension, budget=100_000)

    @case("1,000 dimensions, 5 s", "right doubtful", -500 * math.log(5) - 400, seconds=5.0)
    def _():
        return run(plain, dimension=1000, budget=None, seconds=5.0)


NAMES = (
    "[bold]x[/]",
    "$\\frac{$",
    "<script>alert(1)</script>",
    "a b",
    "µ",
    "عربى",
    "",
    "x" * 300,
    "a/b",
    "../x",
    "__class__",
    "header",
    "\x1b[31m",
)


def _names():
    """Names of variables and models, through results, files, tables and pictures."""
    for name in NAMES:

        @case(f"name {name[:20]!r}", "right")
        def _(name=name):
            import tempfile

            import jax
            import jax.numpy as jnp
            import matplotlib as mpl
            from numpyro import distributions as dist

            import qpaths as qp

            mpl.use("Agg")
            from qpaths.plotting import plot_compare, plot_posterior

            result = qp.evidence(
                prior={name: dist.Normal(0.0, 1.0).expand([2])},
                log_likelihood=lambda p: -2.0 * jnp.sum((p[name] - 1.0) ** 2),
                budget=40_000,
                key=jax.random.key(0),
            )
            with tempfile.TemporaryDirectory() as folder:
                result.save(f"{folder}/result.npz")
                assert name in qp.load_result(f"{folder}/result.npz").samples
                plot_posterior(result)[0, 0].figure.savefig(f"{folder}/a.png")
                table = qp.compare({name: result, "other": result})
                plot_compare(table).figure.savefig(f"{folder}/b.png")
            assert name in str(table)
            assert "<script>" not in table._repr_html_() + result._repr_html_()
            return result


for make in (_values, _errors, _limits, _priors, _sizes, _names):
    make()


def outcome(one):
    """Run a case here; return the outcome, what it said, and the seconds that it took."""
    begun = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = one.call()
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
            is_clear = one.words in text and len(str(error)) > 10 and "Traceback" not in text
            if isinstance(error, AssertionError):
                traceback.print_exc()
            is_said = "told" in one.wanted or isinstance(error, (TypeError, ValueError, ArithmeticError))
            return ("told" if is_clear and is_said else "unclear"), " ".join(text.split()), time.monotonic() - begun
    seconds = time.monotonic() - begun
    value, error, level = float(result.log_evidence), float(result.log_evidence_se), str(result.verdict.level)
    text = f"{value:.5g} +- {error:.2g} {level}"
    if one.seconds is not None and seconds > 2 * one.seconds + 10.0:
        return "late", text, seconds
    if level != "sound":
        return ("doubtful" if one.words in str(result.verdict) else "unclear"), text, seconds
    is_right = one.truth is None or abs(value - one.truth) <= 5 * error
    return ("right" if is_right and "right" in one.wanted else "silent"), text, seconds


def _work(number, pipe):
    import jax

    jax.config.update("jax_enable_x64", True)
    pipe.send(outcome(CASES[number]))


def apart(number):
    """Run a case in a process of its own."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(number, there))
    process.start()
    there.close()
    begun = time.monotonic()
    try:
        found = here.recv() if here.poll(LIMIT) else ("hang", "", LIMIT)
    except EOFError:
        found = ("crash", "", time.monotonic() - begun)
    process.kill()
    process.join()
    return found


def _plain(text):
    """A text for a cell of a table, without the folders of this machine."""
    return re.sub(r"/\S*/src/", "src/", text).replace("|", "/").replace("`", "")[:100]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="run the cases whose names have this in them")
    parser.add_argument("--fast", action="store_true", help="run every third case")
    parser.add_argument("--here", action="store_true", help="run all in this process, which is faster")
    parser.add_argument("--log", type=Path, help="a file of rows, from which an interrupted run goes on")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    chosen = [i for i, one in enumerate(CASES) if arguments.only in one.name][:: 3 if arguments.fast else 1]
    if arguments.here:
        import jax

        jax.config.update("jax_enable_x64", True)
    log = arguments.log
    done = [json.loads(line) for line in log.read_text().splitlines()] if log is not None and log.exists() else []
    rows, known = [], {row[0]: row for row in done}
    for i in chosen:
        if CASES[i].name not in known:
            got, text, seconds = outcome(CASES[i]) if arguments.here else apart(i)
            row = [
                CASES[i].name,
                " or ".join(CASES[i].wanted),
                got,
                text[:300],
                round(seconds, 1),
                got in CASES[i].wanted,
            ]
            known[CASES[i].name] = row
            if log is not None:
                with open(log, "a") as file:
                    file.write(json.dumps(row) + "\n")
            if not row[-1]:
                print(json.dumps(row), flush=True)
        rows.append(known[CASES[i].name])
    counts = collections.Counter(row[2] for row in rows)
    print(f"{len(rows)} cases, {sum(not row[-1] for row in rows)} not as wanted: {dict(counts)}")
    if arguments.write:
        names = (name.replace("|", "/").encode("unicode_escape").decode() for name, *_ in rows)
        lines = [
            f"| {name} | {wanted} | {got} | `{_plain(text)}` |"
            for name, (_, wanted, got, text, _, _) in zip(names, rows, strict=True)
        ]
        bad = [f"- {row[0]}: {row[2]} (wanted {row[1]}): {row[3][:200]}" for row in rows if not row[-1]]
        made = "python -m benchmarks.reliability.hostile --write"
        summary = f"{len(rows)} cases, {len(bad)} not as wanted."
        page = [
            "# Hostile input",
            "",
            f"Made by `{made}`. {summary}",
            "",
            *bad,
            "",
            "| case | wanted | got | text |",
            "|---|---|---|---|",
        ]
        PAGE.write_text("\n".join([*page, *lines]) + "\n")
    return 1 if any(not row[-1] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
