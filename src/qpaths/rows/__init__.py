"""Densities at many points, the rows of an array: evaluated in pieces, here, on devices or over an executor.

`AbstractDensities` evaluate densities at positions, the rows of an array (n, d), and draw from them. They own layouts,
chunks, compiled programs and the difference between JAX and NumPy densities. `HostDensities` runs chunks of a fixed
size from Python, with one compiled program for any number of rows; `TracedDensities` is part of a larger compiled
program. An `Evaluator` is what kernels see of a path: it puts densities and the path's arithmetic together.

The names are those of `__init__.pyi`. Each is imported when it is first used, so that the command line starts without
JAX.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
