"""Internet scale on paper: what large jobs cost on 1, 100 and 10,000 workers, and what becomes the limit.

    python -m benchmarks.speed.scale_paper

The rates are measured: those of `benchmarks/speed/scale.py` (`results/scale.md`), of the decoder on a GPU
(`results/gpu.md`), and of the decoder on one core, which `--measure` repeats here. The tables are those of
`results/scale.md`.
"""

import math
import sys
import time

GPU, CORE = 12.0e6, 7.7e3
"""Transitions of HMC a second, 10 leapfrog steps on the paper's decoder: one H200, and one core."""
COMPILE = {"GPU": 7.5, "core": 8.5}
"""Seconds until a new worker has compiled the program; on the GPU (814 - 389) s for 57 runs of `results/omniglot.md`,
with their pilots."""
TASK, ROW, COMMIT = 3.0e-3, 1.0e-4, 5.0e-3
"""CPU seconds of client and scheduler for a task, of a sweep for a row, and of the disk for a transaction."""
POINT_HERE = 8.0e-5
"""CPU seconds of the process of `evidence` for a point that a worker evaluates."""
OBSERVATIONS, CHAINS, PIXELS = 10_000_000, 10, 784
BATCH = 2_500
"""Observations of a task of a GPU: 25,000 chains."""
NETWORK = 1.25e9
"""Bytes a second of one machine: 10 Gbit/s."""
WORKERS = 1, 100, 10_000


def shown(seconds):
    """A time in words."""
    for unit, size in (("years", 365 * 86400), ("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.3g} {unit}"
    return f"{seconds:.3g} s"


def wall(work, num_workers, num_tasks, num_rows, start):
    """Seconds with some workers: the slowest of workers, scheduler and store, after the start; and which it is."""
    waves = math.ceil(num_tasks / num_workers)
    each = {"workers": waves * work / num_tasks, "scheduler": num_tasks * TASK, "store": num_rows * ROW}
    slowest = max(each, key=each.get)
    return start + each[slowest], slowest if each[slowest] > start else "start"


def decoder():
    print("| distributions | workers | tasks | 1 | 100 | 10,000 |\n|---|---|---|---|---|---|")
    for num_distributions in (500, 5000):
        transitions = OBSERVATIONS * CHAINS * num_distributions
        for kind, rate, batch in (("GPU", GPU, BATCH), ("core", CORE, BATCH // 25)):
            num_tasks = OBSERVATIONS // batch
            cells = [wall(transitions / rate, num, num_tasks, num_tasks, COMPILE[kind]) for num in WORKERS]
            words = " | ".join(f"{shown(seconds)} ({limit})" for seconds, limit in cells)
            print(f"| {num_distributions} | {kind} | {num_tasks:,} | {words} |")
    size = OBSERVATIONS * PIXELS
    print(f"\nObservations: {size / 1e9:.1f} GB at a byte a pixel, {shown(size / NETWORK)} from one machine.")


def models():
    print("\n| seconds a run | runs | 1 | 100 | 10,000 |\n|---|---|---|---|---|")
    for seconds, num_runs in ((3.0, 100_000), (20_000.0, 10_000)):
        cells = []
        for num in WORKERS:
            size = max(1, min(int(max(0.25, num / 400) / seconds), num_runs // (4 * num)))
            cells.append(wall(seconds * num_runs, num, math.ceil(num_runs / size), num_runs, 10.0))
        words = " | ".join(f"{shown(time)} ({limit})" for time, limit in cells)
        print(f"| {seconds:,.0f} | {num_runs:,} | {words} |")


def limits():
    print("\n| limit | reached at |\n|---|---|")
    print(f"| scheduler, tasks of 0.25 s | {0.25 / TASK:.0f} workers |")
    print(f"| scheduler, tasks of 25 s | {25 / TASK:,.0f} workers |")
    print(f"| store, one row a transaction | {1 / COMMIT:.0f} rows/s |")
    print(f"| sweep, many rows a transaction | {1 / ROW:,.0f} rows/s |")
    for point in (0.02, 1.0):
        print(f"| one `evidence`, {point:g} s a point | {point / POINT_HERE:,.0f} workers by its process |")
    print(f"| one `evidence`, 8 islands of 512 particles | {8 * 512:,} workers by its points |")
    print(f"| a model of 100 MB to 10,000 workers from one machine | {shown(1e8 * 1e4 / NETWORK)} |")


def measure():
    """Transitions per CPU second of one core, after a first call that compiles."""
    import jax

    import qpaths as qp
    from qpaths.models import VAE, DecoderProblem, evaluate_lower, simulate

    model = VAE.random(jax.random.key(0), num_pixels=PIXELS, hidden=(200, 200), num_latent=50)
    _, images = simulate(model.decoder, 20, key=jax.random.key(1))
    kernel = qp.HMC(num_leapfrog=10, step_size=0.05, preconditioner="none")
    for _ in range(3):
        begun = time.process_time()
        algorithm = qp.AIS(CHAINS, qp.LinearSchedule(21), kernel)
        jax.block_until_ready(
            evaluate_lower(DecoderProblem(model.decoder), images, algorithm, key=jax.random.key(2)).lower
        )
        seconds = time.process_time() - begun
        print(f"{20 * CHAINS * 20 / seconds:,.0f} transitions per CPU second, {seconds:.1f} CPU s")


if __name__ == "__main__":
    if "--measure" in sys.argv:
        measure()
    decoder()
    models()
    limits()
