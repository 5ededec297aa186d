"""HMC transitions per second on the paper's decoder: this library and PyTorch, beside the matrix rate.

    python -m benchmarks.speed.gpu [--model WEIGHTS] [--images 2500] [--chains 10] [--distributions 101]
        [--out FILE.json]

Annealed importance sampling from the prior to the posteriors of simulated images, 10 leapfrog steps per transition, one
transition per distribution, all images and chains at once. A transition is 10 evaluations of the decoder with its
gradient, 4 x 206,800 floating-point operations each; TFLOP/s counts those and nothing else. Every variant is timed
after a warm-up, median of some rounds; one that fails is reported and the rest goes on.
"""

import argparse
import collections
import gzip
import json
import statistics
import tempfile
import time
import traceback
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import qpaths as qp
from benchmarks.speed import torch_hmc
from qpaths.models import VAE, DecoderProblem, evaluate_bounds, evaluate_lower, load_vae, low_precision, simulate
from qpaths.models.vae import arrays_of

LEAPFROG, STEP_SIZE, Q = 10, 0.1, 0.997
KERNEL = qp.HMC(1, LEAPFROG, step_size=STEP_SIZE, preconditioner="none")
PRECISIONS = {"float32": "highest", "TF32": "tensorfloat32"}
THREE_PRODUCTS = "BF16_BF16_F32_X3"
"""Three products of bfloat16 numbers for each of float32: 16 bits of every factor."""


def median_seconds(function, rounds):
    """After one call that compiles."""
    function()
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def matrix_rate(size, dtype, precision, rounds):
    """TFLOP/s of one large product of random matrices."""
    a, b = (jax.random.normal(jax.random.key(i), (size, size), dtype) for i in range(2))
    product = jax.jit(lambda a, b: jnp.matmul(a, b, precision=precision))

    def ten_products():
        jax.block_until_ready([product(a, b) for _ in range(10)])

    return 10 * 2 * size**3 / median_seconds(ten_products, rounds) / 1e12


def flops_of(decoder):
    """Of one evaluation with gradient in z: each weight is used once forwards and once backwards."""
    return 4 * sum(layer.weight.size for layer in decoder.network.layers)


class Benchmark:
    """The settings, the data, and the rows found so far."""

    def __init__(self, arguments):
        self.arguments = arguments
        vae = load_vae(arguments.model) if arguments.model else VAE.random(jax.random.key(0))
        self.decoder, self.weights = vae.decoder, {k: np.asarray(v) for k, v in arrays_of(vae).items()}
        self.z, self.x = simulate(self.decoder, arguments.images, key=jax.random.key(1))
        self.num_transitions = arguments.images * arguments.chains * (arguments.distributions - 1)
        self.rows, self.bounds, self.rates = [], {}, {}

    def save(self):
        """All that was measured so far."""
        if self.arguments.out is None:
            return
        content = {
            "device": jax.devices()[0].device_kind,
            "jax": jax.__version__,
            "settings": {name: str(value) for name, value in vars(self.arguments).items() if name != "out"},
            "matrix_tflop_per_s": self.rates,
            "rows": self.rows,
            "bounds": self.bounds,
        }
        self.arguments.out.write_text(json.dumps(content, indent=1) + "\n")

    def attempt(self, name, function):
        """A row of transitions per second, or of what went wrong."""
        try:
            seconds = function()
        except Exception as error:
            traceback.print_exc()
            self.rows.append({"name": name, "error": f"{type(error).__name__}: {str(error)[:300]}"})
            self.save()
            return
        rate = self.num_transitions / seconds
        flops = rate * LEAPFROG * flops_of(self.decoder)
        self.rows.append({"name": name, "transitions_per_s": rate, "tflop_per_s": flops / 1e12})
        self.save()
        print(f"{name}: {rate / 1e6:.3f} million transitions/s, {flops / 1e12:.1f} TFLOP/s", flush=True)

    def library(self, name, precision, guide=None):
        algorithm = qp.AIS(self.arguments.chains, qp.LinearSchedule(self.arguments.distributions), KERNEL)
        for q in (None, Q):
            problem = DecoderProblem(self.decoder, q=q, guide=guide)

            def run():
                with jax.default_matmul_precision(precision):
                    return evaluate_lower(problem, self.x, algorithm, key=jax.random.key(2))  # noqa: B023

            path = "geometric" if q is None else f"q = {q}"
            self.attempt(f"qpaths AIS, {name}, {path}", lambda: median_seconds(run, self.arguments.rounds))

    def bounds_of(self, name, precision, guide=None):
        """Bidirectional bounds with one key, to be compared between precisions."""
        algorithm = qp.BDMC(self.arguments.chains, qp.LinearSchedule(self.arguments.distributions), KERNEL)
        try:
            with jax.default_matmul_precision(precision):
                problem = DecoderProblem(self.decoder, q=Q, guide=guide)
                found = evaluate_bounds(problem, self.x, self.z, algorithm, key=jax.random.key(4))
        except Exception as error:
            print(f"bounds, {name}: {type(error).__name__}: {str(error)[:300]}")
            return
        found = found.averaged()
        num = found.gap.size
        self.bounds[name] = {
            key: [float(jnp.mean(values)), float(jnp.std(values)) / num**0.5]
            for key, values in (("lower", found.lower), ("upper", found.upper), ("gap", found.gap))
        }
        self.save()
        text = ", ".join(f"{key} {mean:.4f} +- {error:.4f}" for key, (mean, error) in self.bounds[name].items())
        print(f"bounds, {name}: {text}", flush=True)

    def pytorch(self):
        shape = self.arguments.chains, self.arguments.distributions, LEAPFROG, STEP_SIZE
        for precision in PRECISIONS:
            for compiled in (False, True):
                how = "compiled, gradient by hand" if compiled else "autograd"
                self.attempt(
                    f"PyTorch, {how}, {precision}",
                    lambda: median_seconds(
                        torch_hmc.annealing(self.weights, np.asarray(self.x), *shape, precision, compiled),  # noqa: B023
                        self.arguments.rounds,
                    ),
                )

    def table(self):
        lines = ["", "| variant | million transitions/s | TFLOP/s |", "|---|---|---|"]
        for row in self.rows:
            if "error" in row:
                lines.append(f"| {row['name']} | failed: {row['error'].splitlines()[0][:80]} | |")
            else:
                lines.append(f"| {row['name']} | {row['transitions_per_s'] / 1e6:.2f} | {row['tflop_per_s']:.1f} |")
        return "\n".join(lines)


def plain(benchmark):
    for name, precision in PRECISIONS.items():
        benchmark.library(name, precision)
        benchmark.bounds_of(name, precision)


def guided(benchmark):
    guide = low_precision(benchmark.decoder)
    for name, precision in {**PRECISIONS, "three bfloat16": THREE_PRODUCTS}.items():
        name = f"{name}, bfloat16 guide"
        benchmark.library(name, precision, guide)
        benchmark.bounds_of(name, precision, guide)


def profiled(benchmark):
    """What the kernels of the device take in one transition of all chains: geometric path, TF32, bfloat16 guide."""
    arguments = benchmark.arguments
    algorithm = qp.AIS(arguments.chains, qp.LinearSchedule(arguments.distributions), KERNEL)
    problem = DecoderProblem(benchmark.decoder, guide=low_precision(benchmark.decoder))

    def run():
        with jax.default_matmul_precision("tensorfloat32"):
            return jax.block_until_ready(evaluate_lower(problem, benchmark.x, algorithm, key=jax.random.key(2)).forward)

    run()
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            start = time.perf_counter()
            run()
            seconds = time.perf_counter() - start
        with gzip.open(next(Path(folder).rglob("*.trace.json.gz"))) as file:
            events = json.load(file)["traceEvents"]
    named = [event for event in events if event.get("name") == "process_name"]
    device = {event["pid"] for event in named if "GPU" in event["args"]["name"]}
    spent, calls = collections.Counter(), collections.Counter()
    for event in events:
        if event.get("ph") == "X" and event["pid"] in device and "hlo_op" in event.get("args", {}):
            spent[event["name"]] += event["dur"]
            calls[event["name"]] += 1
    transitions = arguments.distributions - 1
    whole, busy = seconds * 1e6 / transitions, spent.total() / transitions
    print(f"\none transition of all chains: {whole:.0f} us, in kernels {busy:.0f}")
    print("\n| kernel | us in a transition | calls in a transition |\n|---|---|---|")
    for name, microseconds in spent.most_common(25):
        print(f"| `{name[:90]}` | {microseconds / transitions:.1f} | {calls[name] / transitions:.1f} |")


SECTIONS = {"plain": plain, "guided": guided, "profiled": profiled, "pytorch": lambda benchmark: benchmark.pytorch()}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="weights, as .npz or .safetensors; random ones unless given")
    parser.add_argument("--images", type=int, default=2500)
    parser.add_argument("--chains", type=int, default=10)
    parser.add_argument("--distributions", type=int, default=101)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--matrix", type=int, default=8192, help="size of the matrices whose product is timed")
    parser.add_argument("--only", nargs="+", choices=list(SECTIONS), default=list(SECTIONS))
    parser.add_argument("--out", type=Path, help="JSON file for all that was measured")
    return parser.parse_args()


def main():
    arguments = parse()
    benchmark = Benchmark(arguments)
    print(f"{jax.devices()[0].device_kind}, jax {jax.__version__}, {arguments.images} x {arguments.chains} chains")
    rates = {
        "float32": matrix_rate(arguments.matrix, jnp.float32, "highest", arguments.rounds),
        "TF32": matrix_rate(arguments.matrix, jnp.float32, "tensorfloat32", arguments.rounds),
        "bfloat16": matrix_rate(arguments.matrix, jnp.bfloat16, None, arguments.rounds),
    }
    print("matrix products of this card:", ", ".join(f"{k} {v:.1f} TFLOP/s" for k, v in rates.items()), flush=True)
    benchmark.rates = rates
    for name in arguments.only:
        SECTIONS[name](benchmark)
    print(benchmark.table())


if __name__ == "__main__":
    main()
