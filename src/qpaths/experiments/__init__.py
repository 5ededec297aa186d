"""The harness of the experiments: what one is, how it is found, run, stored, judged and reported.

`paper/` has one file per table or figure of the paper. Read `experiment.py` first.
"""
