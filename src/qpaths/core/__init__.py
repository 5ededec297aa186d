"""Foundations of every layer: arrays of NumPy and JAX, numerics, random numbers, types, and checks of arguments.

The names are those of `__init__.pyi`. Each is imported when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
