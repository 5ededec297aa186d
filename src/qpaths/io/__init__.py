"""Files: safe writes, values as arrays without pickle, and checkpoints of interrupted calls.

The names are those of `__init__.pyi`. Each is imported when it is first used, so that the command line starts without
JAX.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
