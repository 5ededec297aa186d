"""HMC transitions per second on the paper's decoder: this library, a fused kernel, and PyTorch, beside the matrix rate.

    python benchmarks/gpu.py [--model WEIGHTS] [--images 2500] [--chains 10] [--distributions 101] [--out FILE.json]

Annealed importance sampling from the prior to the posteriors of simulated images, 10 leapfrog steps per transition, one
transition per distribution, all images and chains at once. A transition is 10 evaluations of the decoder with its
gradient, 4 x 206,800 floating-point operations each; TFLOP/s counts those and nothing else. Every variant is timed
after a warm-up, median of some rounds; one that fails is reported and the rest goes on.
"""

import argparse
import json
import statistics
import time
import traceback
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import torch_hmc
from fused import Config, FusedDecoder

import qpaths as qp
from qpaths.models import VAE, Problem, evaluate_bounds, evaluate_lower, load_vae, low_precision, simulate
from qpaths.models.vae import arrays_of

LEAPFROG, STEP_SIZE = 10, 0.1
KERNEL = qp.HMC(1, LEAPFROG, step_size=STEP_SIZE, preconditioner="none")
PRECISIONS = {"float32": "highest", "TF32": "tensorfloat32"}


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

    def library(self, name, decoder, precision, guide=None):
        algorithm = qp.AIS(self.arguments.chains, qp.LinearSchedule(self.arguments.distributions), KERNEL)
        problem = Problem(decoder, q=0.997, guide=guide)

        def run():
            with jax.default_matmul_precision(precision):
                return evaluate_lower(problem, self.x, algorithm, key=jax.random.key(2))

        self.attempt(name, lambda: median_seconds(run, self.arguments.rounds))

    def kernel_alone(self, name, decoder, precision):
        """Transitions at one beta, without weights, statistics and keys of the annealing loop around them."""
        chains, num = self.arguments.chains, self.arguments.distributions - 1

        def of_image(x, key):
            path = Problem(decoder)(x)
            flat = qp.kernels.base.FlatPath(path, lambda z: z)

            def chain(key):
                particle = flat.particle(path.sample_base(key), with_slopes=True)
                params = qp.kernels.gradient.LeapfrogParams(jnp.ones_like(particle.position), jnp.float32(STEP_SIZE))

                def step(particle, i):
                    return KERNEL.move(flat, 0.5, particle, jax.random.fold_in(key, i), params)[0], None

                return jax.lax.scan(step, particle, jnp.arange(num))[0].position

            return jax.vmap(chain)(jax.random.split(key, chains))

        compiled = jax.jit(jax.vmap(of_image))
        keys = jax.random.split(jax.random.key(3), self.arguments.images)

        def run():
            with jax.default_matmul_precision(precision):
                jax.block_until_ready(compiled(self.x, keys))

        self.attempt(name, lambda: median_seconds(run, self.arguments.rounds))

    def check(self, name, decoder):
        """Relative errors of log likelihoods and gradients at fresh points, against float32 products."""
        z = jax.random.normal(jax.random.key(5), (self.x.shape[0], self.arguments.chains, decoder.num_latent))

        def evaluate(decoder):
            def of_image(z, x):
                return jax.vmap(jax.value_and_grad(lambda z: decoder.log_likelihood(z, x)))(z)

            return jax.jit(jax.vmap(of_image))(z, self.x)

        try:
            found = evaluate(decoder)
            with jax.default_matmul_precision("highest"):
                wanted = evaluate(self.decoder)
        except Exception as error:
            print(f"check, {name}: {type(error).__name__}: {str(error)[:300]}")
            return
        errors = [float(jnp.linalg.norm(a - b) / jnp.linalg.norm(b)) for a, b in zip(found, wanted, strict=True)]
        print(f"check, {name}: relative error of values {errors[0]:.1e}, of gradients {errors[1]:.1e}", flush=True)

    def bounds_of(self, name, decoder, precision, guide=None):
        """Bidirectional bounds with one key, to be compared between precisions."""
        algorithm = qp.BDMC(self.arguments.chains, qp.LinearSchedule(self.arguments.distributions), KERNEL)
        try:
            with jax.default_matmul_precision(precision):
                problem = Problem(decoder, q=0.997, guide=guide)
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


def fused_configs(quick):
    if quick:
        return [Config(16, 4, 1, "tf32")]
    shapes = {"tf32": [(64, 4, 2), (64, 8, 2), (128, 8, 1)], "bf16": [(64, 4, 2), (128, 8, 2)]}
    return [Config(*shape, precision) for precision in shapes for shape in shapes[precision]]


def plain(benchmark):
    for name, precision in PRECISIONS.items():
        benchmark.library(f"qpaths AIS, {name}", benchmark.decoder, precision)
        benchmark.kernel_alone(f"qpaths HMC alone, {name}", benchmark.decoder, precision)
        benchmark.bounds_of(name, benchmark.decoder, precision)


def guided(benchmark):
    guide = low_precision(benchmark.decoder)
    for name, precision in PRECISIONS.items():
        name = f"{name}, bfloat16 guide"
        benchmark.library(f"qpaths AIS, {name}", benchmark.decoder, precision, guide)
        benchmark.bounds_of(name, benchmark.decoder, precision, guide)


def fused(benchmark):
    decoders = {str(c): FusedDecoder.of(benchmark.decoder, c) for c in fused_configs(benchmark.arguments.quick)}
    for name, decoder in decoders.items():
        benchmark.check(name, decoder)
        benchmark.library(name, decoder, "tensorfloat32")
    speeds = {row["name"]: row["transitions_per_s"] for row in benchmark.rows if "error" not in row}
    for kind in ("tf32", "bf16"):
        best = max((name for name in decoders if kind in name and name in speeds), default=None, key=speeds.get)
        if best:
            benchmark.bounds_of(best, decoders[best], "tensorfloat32")


SECTIONS = {"plain": plain, "guided": guided, "fused": fused, "pytorch": lambda benchmark: benchmark.pytorch()}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="weights, as .npz or .safetensors; random ones unless given")
    parser.add_argument("--images", type=int, default=2500)
    parser.add_argument("--chains", type=int, default=10)
    parser.add_argument("--distributions", type=int, default=101)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--matrix", type=int, default=8192, help="size of the matrices whose product is timed")
    parser.add_argument("--only", nargs="+", choices=list(SECTIONS), default=list(SECTIONS))
    parser.add_argument("--quick", action="store_true", help="one fused variant only")
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
