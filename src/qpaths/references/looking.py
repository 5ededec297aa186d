"""Looking around good modes: one group of coordinates is redrawn and climbed again, then all of them are.

Where the target has a mode at each of many places along one coordinate, as at the periods of a wave, the others must
follow it to find them. So the coordinate is held in strata of the base while the others climb (its profile), and the
highest strata then climb freely. The strata are as narrow as the modes that were met.
"""

import numpy as np
from jaxtyping import Float

from ..core import Stream
from .climb import Climbed, Gradient, Starts, climb
from .pool import Mode, Pool
from .structure import Group, Structure

_NUM_REDRAWN, _NUM_FREE = 96, 48
"""Redraws of a group where no coordinate is fine, and ascents that are freed afterwards."""
_ROUNDS, _FREE_ROUNDS, _GAIN = 12, 60, 1e-5
"""Steps while coordinates are held and when they are free, and nats that end the latter."""
_FINE = 20.0
"""Deviations of a mode that the base is wide, from which on a coordinate has strata."""
_WIDTH = 4.0
"""Width of a stratum, in deviations of the modes while all other coordinates stay."""
_SHARE = 0.4
"""Share of the gradients that are left for one profile."""
_NUM_KNOTS, _FEWEST_FOR_SLOPE, _NUM_TYPICAL = 65, 6, 16
"""Quantiles of the base, modes from which on widths may change along a coordinate, and modes that say what is fine."""
_SETTLED, _MOST_PARENTS = 0.03, 12
"""Share of mass that is new or was met once, below which looking ends; and modes around which to look."""


def look_around(
    gradient: Gradient, pool: Pool, structure: Structure, drawn: Starts, num_left: int, stream: Stream
) -> int:
    """Redraw groups of the best modes and climb, as long as that finds mass; return how many gradients this took."""
    groups = _in_order(structure, drawn.shape[1])
    looked: set[int] = set()
    spent = 0
    for number in range(_MOST_PARENTS):
        parents = [k for k in pool.relevant if k not in looked]
        if not parents:
            break
        parent, gained = pool.modes[parents[0]], 0.0
        looked.add(parents[0])
        for k, group in enumerate(groups):
            around = _Around(gradient, pool, parent, group, drawn, stream.fold(1 + number * len(groups) + k))
            most = int(_SHARE * (num_left - spent))
            if most < _NUM_REDRAWN:
                return spent
            tops, num = around.climbed(most)
            new = pool.add(tops)
            spent += num
            gained += float(np.sum(pool.shares[new]))
        if gained < _SETTLED and pool.unseen < _SETTLED:
            break
    return spent


def _in_order(structure: Structure, dimension: int) -> list[Group]:
    """Return the groups that are redrawn: those of a label first, then all coordinates, and single ones last."""
    if structure.is_given:
        return [*structure.groups]
    several = [group for group in structure.groups if structure.has_labels]
    return [*several, np.arange(dimension), *(group for group in structure.groups if not structure.has_labels)]


class _Around:
    """Starts around a mode in which one group of coordinates is redrawn."""

    def __init__(self, gradient: Gradient, pool: Pool, parent: Mode, group: Group, drawn: Starts, stream: Stream):
        self.gradient, self.pool, self.parent, self.group, self.drawn = gradient, pool, parent, group, drawn
        self.rng = np.random.default_rng(np.asarray(1e9 * np.asarray(stream.uniform((4,)))).astype(int))
        self.num = 0

    def climbed(self, most: int) -> tuple[Climbed, int]:
        """Return where the ascents end, and how many gradients they took."""
        fine = self._fine_coordinate()
        if fine is None:
            num = min(_NUM_REDRAWN, max(most // _ROUNDS, 1))
            starts = self._redrawn(num)
            held = self._held(starts, self.group)
            best = np.argsort(-held.value)
        else:
            places = self._strata(fine, max(most // _ROUNDS, 1))
            starts = self._redrawn(len(places))
            # Half of the strata keep what else the mode has.
            starts[::2] = self.parent.position
            starts[:, fine] = places
            held = self._held(starts, self.group[self.group != fine])
            value = np.where(np.isfinite(held.value), held.value, -np.inf)
            padded = np.pad(value, 1, constant_values=-np.inf)
            peaks = np.flatnonzero((value >= padded[:-2]) & (value >= padded[2:]))
            best = peaks[np.argsort(-value[peaks])]
        best = best[np.isfinite(held.value[best])][:_NUM_FREE]
        free = climb(self.gradient, held.position[best], self.parent.deviation(), _FREE_ROUNDS, _GAIN)
        return free, self.num + free.num_evaluations

    def _redrawn(self, num: int) -> Starts:
        starts = np.tile(self.parent.position, (num, 1))
        rows = self.rng.choice(len(self.drawn), num)
        starts[:, self.group] = self.drawn[np.ix_(rows, self.group)]
        return starts

    def _held(self, starts: Starts, moving: Group) -> Climbed:
        """Climb in some coordinates while the others stay."""

        def whole(rows: Starts) -> Float[np.ndarray, "s _"]:
            # Rows that are under way are some of the starts: a column says which.
            full = starts[rows[:, -1].astype(int)].copy()
            full[:, moving] = rows[:, :-1]
            return full

        def with_number(rows: Starts) -> tuple[Float[np.ndarray, " s"], Starts]:
            value, slope = self.gradient(whole(rows))
            return value, np.column_stack([slope[:, moving], np.zeros(len(rows))])

        numbered = np.column_stack([starts[:, moving], np.arange(len(starts))])
        scale = np.append(self.parent.deviation()[moving], 1.0)
        found = climb(with_number, numbered, scale, _ROUNDS, 0.01)
        self.num += found.num_evaluations
        return found._replace(position=whole(found.position))

    def _fine_coordinate(self) -> int | None:
        """Return the coordinate of the group in which modes are narrowest compared with the base."""
        low, high = np.quantile(self.drawn[:, self.group], [0.01, 0.99], axis=0)
        typical = self.pool.relevant[:_NUM_TYPICAL]
        deviation = np.median([self.pool.modes[k].deviation()[self.group] for k in typical], axis=0)
        ratio = (high - low) / deviation
        return int(self.group[np.argmax(ratio)]) if np.max(ratio) > _FINE else None

    def _strata(self, coordinate: int, most: int) -> Float[np.ndarray, " n"]:
        """Return places along a coordinate, of equal mass of the base where modes are equally wide in it.

        In units of the base's distribution function v, the log width of a mode is taken to be linear in v.
        """
        levels = np.linspace(0.0, 1.0, _NUM_KNOTS)
        knots = np.quantile(self.drawn[:, coordinate], levels)
        knots += 1e-12 * np.ptp(knots) * np.arange(_NUM_KNOTS)
        modes = self.pool.modes
        at = np.array([mode.position[coordinate] for mode in modes])
        v = np.interp(at, knots, levels)
        steepness = np.interp(at, 0.5 * (knots[1:] + knots[:-1]), np.diff(levels) / np.diff(knots))
        log_width = np.log(np.array([mode.deviation()[coordinate] for mode in modes]) * steepness)
        middle, slope = float(np.median(log_width)), 0.0
        if len(modes) >= _FEWEST_FOR_SLOPE and np.ptp(v) > 0.1:
            slope, constant = np.polyfit(v, log_width, 1)
            middle = constant + 0.5 * slope
        grid = np.linspace(0.0, 1.0, 1025)
        density = np.exp(-(middle + slope * (grid - 0.5))) / _WIDTH
        number = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]) / 1024)])
        num = int(np.clip(number[-1], _NUM_REDRAWN, max(most, _NUM_REDRAWN)))
        wanted = (np.arange(num) + self.rng.uniform(size=num)) * number[-1] / num
        return np.interp(np.interp(wanted, number, grid), levels, knots)
