"""The harness of the experiments: what one is, how it is found, run, stored, judged and reported.

Experiments are elsewhere, one file each: those of the paper in `experiments/`. Read `experiment.py` first.
"""
