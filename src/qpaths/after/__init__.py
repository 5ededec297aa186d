"""Answers to what is asked after the evidence: draws, other priors, new data, left-out data, many data sets.

The names are those of `__init__.pyi`. Each is imported when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
