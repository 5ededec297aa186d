"""Bridges to other packages, each an optional extra that is imported only where it is used.

The names are those of `__init__.pyi`. Lower layers import single files from here, so nothing is imported at once.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
