# %% [markdown]
# # Clusters: many cores and many machines
#
# Two things can be spread over many workers: the points of one `evidence` call, and the runs of a sweep. The numbers are
# the same with any number of workers.
#
# ## One call
#
# `executor` says where points are evaluated: a pool of `concurrent.futures`, a Dask `Client`, or anything with the same
# `submit`. It pays off where one evaluation takes a millisecond or more. Here the likelihood waits for another program, so
# threads are the right pool.

# %%
import time
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np

import qpaths as qp


def log_likelihood(x):
    time.sleep(0.001)  # a simulator that runs elsewhere
    return float(-2.0 * np.sum((x - 1.0) ** 2))


def run(executor):
    return qp.evidence(
        log_prior=lambda x: float(-0.5 * np.sum(x**2) - np.log(2 * np.pi)),
        log_likelihood=log_likelihood,
        sample_prior=lambda generator: generator.standard_normal(2),
        backend="numpy",
        budget=20_000,
        executor=executor,
        key=jax.random.key(0),
    )


found = {}
for num in (16, 64):
    begun = time.monotonic()
    with ThreadPoolExecutor(num) as pool:
        found[num] = run(pool)
    print(f"{num} threads: {found[num].log_evidence:.4f} in {time.monotonic() - begun:.1f} s")
assert found[16].log_evidence == found[64].log_evidence
assert abs(found[16].log_evidence - (-np.log(5) - 0.8)) < 4 * found[16].log_evidence_se

# %% [markdown]
# One worker would need more than 20 seconds. Which executor to take:
#
# | your likelihood | executor |
# |---|---|
# | JAX, some microseconds a point | none: a compiled chunk is faster than the trip to a worker |
# | NumPy, a millisecond a point or more | processes, one for each core |
# | waits for another program, or releases the GIL | threads |
# | more than one machine can do | a Dask `Client` |
#
# ## A sweep
#
# `qpaths run` does the runs of an experiment in worker processes. Rows are stored as they arrive, so a worker that dies or
# a job that runs out of time loses only the runs in progress. The same command does the rest.
#
#     qpaths run table1 --jobs 4                          # four processes on this machine
#     qpaths run table1 --cluster tcp://head:8786         # the workers of a Dask cluster
#
# On Slurm, one script starts a scheduler, the workers, and the sweep:
#
#     #!/bin/bash
#     #SBATCH --ntasks=129 --cpus-per-task=1 --time=04:00:00
#     source .venv/bin/activate
#     dask scheduler --host "$(hostname)" --port 8786 --no-dashboard &
#     srun --ntasks=128 dask worker "tcp://$(hostname):8786" --nthreads 1 --no-dashboard &
#     qpaths run table1 --cluster "tcp://$(hostname):8786" --out "$SLURM_SUBMIT_DIR/out/table1"
#
# [Many cores and many machines](../clusters.md) has the rest: what travels to workers, what happens when they die, plain ssh,
# and Kubernetes.
#
# Next: [Reproducing the paper](paper.md)
