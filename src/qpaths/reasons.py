"""Levels of verdicts, and phrases that fill in remarks: where a path begins, and why a reference was not used."""

import enum


class Level(enum.StrEnum):
    """What to think of an answer.

    `sound` says that no check found a problem, not that there is none: see [What fools all of
    them](tutorials/is_it_right.md#what-fools-all-of-them).

    Examples:
        >>> Level.DOUBTFUL == "doubtful", Level.DOUBTFUL.exit_code
        (True, 3)
    """

    SOUND = "sound"
    DOUBTFUL = "doubtful"
    WRONG = "wrong"

    @property
    def exit_code(self) -> int:
        """Of `qpaths evidence`: 0, 3 or 4. Code 2 is for errors, 130 and 143 for interrupts."""
        return {Level.SOUND: 0, Level.DOUBTFUL: 3, Level.WRONG: 4}[self]


class Source(enum.StrEnum):
    """Where a start of the path comes from."""

    BASE = "the base"
    PRIOR = "the base in the coordinates of a map of it"
    PILOT = "a fit to the particles of a pilot"
    ASCENTS = "ascents of the target"
    DRIVERS = "optima and curvature for given values of the coordinates that drive the scales of others"
    SCANS = "scans along single coordinates"
    REFINED = "a fit to the draws of a short run"


class Shape(enum.StrEnum):
    """What a start of the path is."""

    STUDENT = "a Student-t distribution"
    CURVED = "a curved distribution"
    WELLS = "mixtures in single coordinates"


class Refusal(enum.StrEnum):
    """Why a reference was not fitted, or not used."""

    TOO_FEW = "the particles are too few for the number of dimensions"
    SUBSPACE = "the particles lie in a subspace"
    SEVERAL_GROUPS = "the particles fall into several groups"
    HEAVY_TAILS = "the particles have heavy tails"
    NO_GRADIENT = "there is no gradient to climb, and differences of values lead to no optimum that can be afforded"
    NO_OPTIMUM = "no ascent reached an optimum"
    AT_INFINITY = "the target rises toward infinity"
    HARD_BOUND = "the target ends at a hard bound"
    FLAT = "the target is flat or a ridge at its optimum"
    NECK = "the curvature at the optimum disagrees with the spread of the draws"
    MISSED_MODES = "a run from the base found further modes"
    MANY_MODES = "nearly every ascent found a mode of its own"
    NOT_REACHED = "the pilot from there did not reach the target"
    LONGER = "the path from there is not shorter"
    POOR_FIT = "hardly any draw from there has weight"
    LESS_MASS = "the pilot from there found less mass"
    UNSTABLE = "draws from there are lost in rounding errors of its map"


class Check(enum.StrEnum):
    """Whether a run from the base confirmed the mass that ascents found."""

    CONFIRMED = "a short run from the base found no other mode"
    NOT_REACHED = "a short run from the base did not reach the target, and confirms nothing"
    TOO_FAR = "the base is too far away for a run from it to confirm the mass"
