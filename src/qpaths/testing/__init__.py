"""For testing your own paths, kernels and algorithms: conformance checks, worlds with known answers, wrong parts."""

from .algorithms import check_algorithm as check_algorithm
from .gridworld import GridWorld as GridWorld
from .kernels import check_kernel as check_kernel
from .paths import check_path as check_path
from .problems import KnownProblem as KnownProblem
from .problems import gaussian as gaussian
from .problems import skewed as skewed
from .problems import truncated as truncated
from .wrong import FlippedSign as FlippedSign
from .wrong import NoRejection as NoRejection
from .wrong import StaleBeta as StaleBeta
from .wrong import StuckEnds as StuckEnds
