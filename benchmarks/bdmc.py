"""BDMC gaps of a decoder on simulated images: the released protocol, and frozen kernels with shared parameters.

    python benchmarks/bdmc.py --model WEIGHTS [--images 2500] [--distributions 100 500] [--q 1 0.994] [--encoder]

Linear schedules, 10 chains per image, weights averaged over an image's chains under the log, as in the released code.
Seconds are of a second call with another key, compiled already; kernel parameters are found before, on other images.
"""

import argparse
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp

import qpaths as qp
from qpaths.models import Problem, ReleasedProtocol, evaluate_bounds, load_vae, shared_params, simulate

NUM_CHAINS, NUM_PILOT_IMAGES = 10, 16


def mean_and_error(values):
    return [round(float(jnp.mean(values)), 4), round(float(jnp.std(values)) / values.size**0.5, 4)]


def measure(name, problem, data, algorithm, params):
    z, x = data
    evaluate_bounds(problem, x, z, algorithm, key=jax.random.key(3), params=params)
    start = time.perf_counter()
    bounds = evaluate_bounds(problem, x, z, algorithm, key=jax.random.key(4), params=params)
    seconds = time.perf_counter() - start
    bounds = bounds.averaged()
    row = {
        "protocol": name,
        "q": 1.0 if problem.delta is None else round(1 - float(problem.delta), 6),
        "num_distributions": algorithm.schedule.num,
        "lower": mean_and_error(bounds.lower),
        "upper": mean_and_error(bounds.upper),
        "gap": mean_and_error(bounds.gap),
        "acceptance": round(float(jnp.mean(bounds.acceptance)), 3),
        "seconds": round(seconds, 3),
    }
    print(json.dumps(row), flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--images", type=int, default=2500)
    parser.add_argument("--distributions", type=int, nargs="+", default=[100, 500])
    parser.add_argument("--q", type=float, nargs="+", default=[1.0, 0.997, 0.994])
    parser.add_argument("--leapfrog", type=int, default=10)
    parser.add_argument("--encoder", action="store_true", help="anneal from the encoder instead of the prior")
    parser.add_argument("--skip-released", action="store_true")
    parser.add_argument("--precision", default="highest", help="of matrix products: highest or tensorfloat32")
    parser.add_argument("--out", type=Path, help="JSON file for the rows")
    arguments = parser.parse_args()
    jax.config.update("jax_default_matmul_precision", arguments.precision)

    vae = load_vae(arguments.model)
    data = simulate(vae.decoder, arguments.images, key=jax.random.key(1))
    pilot_images = simulate(vae.decoder, NUM_PILOT_IMAGES, key=jax.random.key(2))[1]
    rows = []
    for num in arguments.distributions:
        schedule = qp.LinearSchedule(num)
        frozen = qp.BDMC(NUM_CHAINS, schedule, qp.HMC(1, arguments.leapfrog, preconditioner="none"))
        for q in arguments.q:
            encoder = vae.encoder if arguments.encoder else None
            problem = Problem(vae.decoder, q=None if q == 1 else q, encoder=encoder)
            if not arguments.skip_released:
                released = ReleasedProtocol(NUM_CHAINS, schedule, arguments.leapfrog)
                rows.append(measure("released", problem, data, released, None))
            params = shared_params(problem, pilot_images, frozen, key=jax.random.key(5))
            rows.append(measure("frozen", problem, data, frozen, params))
    if arguments.out:
        arguments.out.write_text(json.dumps({"device": jax.devices()[0].device_kind, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
