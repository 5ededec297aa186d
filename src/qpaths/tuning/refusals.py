"""Why a reference is not used: one member for each reason."""

import enum


class Refusal(enum.Enum):
    """The reason why a reference was not fitted, or not used. The value completes "the reference was refused: ..."."""

    TOO_FEW = "the particles are too few for the number of dimensions"
    SUBSPACE = "the particles lie in a subspace"
    SEVERAL_GROUPS = "the particles fall into several groups"
    HEAVY_TAILS = "the particles have heavy tails"
    NO_GRADIENT = "there is no gradient to climb"
    NO_OPTIMUM = "no ascent came to an optimum"
    AT_INFINITY = "the target rises towards infinity"
    HARD_BOUND = "the target ends at a hard bound"
    FLAT = "the target is flat or a ridge at its optimum"
    NECK = "curvature at the optimum disagrees with the spread of the draws"
    MISSED_MODES = "a run from the base found further modes"
    MANY_MODES = "nearly every ascent found a mode of its own"
    NOT_REACHED = "the pilot from it did not come to the target"
    LONGER = "the path from it is no shorter"
    LESS_MASS = "the pilot from it found less mass"
