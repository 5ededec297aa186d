"""Densities at many points, the rows of an array: evaluated in pieces, here, on devices or over an executor.

An evaluator takes positions, rows of an array (n, d), and returns particles: the positions with the features and slopes
of both endpoints. It owns flattening, chunks, compiled programs and the difference between JAX and NumPy densities.
There are two: `HostEvaluator` runs the densities in chunks of a fixed size from Python, with one compiled program for
any number of rows, and everything else is NumPy; `TracedEvaluator` is part of a larger compiled program.

The names are those of `__init__.pyi`. Each is imported when it is first used, so that the command line starts without
JAX.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
