"""Phrases that fill in remarks: where a path begins, and why a reference was not used."""

import enum


class Source(enum.StrEnum):
    """Where a start of the path comes from."""

    BASE = "the base"
    PILOT = "a fit to the particles of a pilot"
    ASCENTS = "ascents of the target"
    DRIVERS = "optima and curvature for given values of the coordinates that drive the scales of others"
    REFINED = "a fit to the draws of a short run"


class Refusal(enum.StrEnum):
    """Why a reference was not fitted, or not used."""

    TOO_FEW = "the particles are too few for the number of dimensions"
    SUBSPACE = "the particles lie in a subspace"
    SEVERAL_GROUPS = "the particles fall into several groups"
    HEAVY_TAILS = "the particles have heavy tails"
    NO_GRADIENT = "there is no gradient to climb"
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
