"""Evaluation of the densities of a path at many positions, and the path's arithmetic on what was found there.

An evaluator takes positions, rows of an array (n, d), and returns particles: the positions with the features and slopes
of both endpoints. It owns flattening, chunks, compiled programs and the difference between JAX and NumPy densities.
There are two: `HostEvaluator` runs the densities in chunks of a fixed size from Python, with one compiled program for
any number of rows, and everything else is NumPy; `TracedEvaluator` is part of a larger compiled program.
"""

from .base import AbstractEvaluator as AbstractEvaluator
from .base import Particles as Particles
from .host import HostEvaluator as HostEvaluator
from .host import clear_cache as clear_cache
from .layout import Layout as Layout
from .layout import layout_of as layout_of
from .spread import spread_over as spread_over
from .spread import together as together
from .traced import TracedEvaluator as TracedEvaluator
from .worlds import evaluator_of as evaluator_of
from .worlds import stream_for as stream_for
