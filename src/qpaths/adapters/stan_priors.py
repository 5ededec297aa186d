"""Find what a Stan program leaves out of the normalization of its priors, by running parts of the program.

For each parameter the statements that are its prior make a program, whose density is integrated over the
parameter by quadrature, with all else fixed. What this cannot separate is left alone.
"""

import itertools
import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.interpolate import PchipInterpolator

from ..core import quiet
from ..remarks import Finding, Remark

_BLOCK = r"(?<![\w])(functions|transformed data|data|transformed parameters|parameters|model|generated quantities)\s*{"
_DECLARED = re.compile(
    r"(?:array\s*\[(?P<array>[^\]]*)\]\s*)?(?P<type>[a-z_]+)\s*(?:<(?P<bounds>[^;{]*?)>)?\s*(?:\[(?P<sizes>[^\]]*)\])?\s+"
    r"(?P<name>[A-Za-z]\w*)\s*(?:\[[^\]]*\])?\s*(?:=[^;]*)?$",
    re.S,
)
_ELEMENTWISE = {"real", "vector", "row_vector", "matrix"}
_DENSITY = re.compile(r"\w+_l(?:u)?p[dm]f\s*\(\s*([^|]*)\|")
_NO_INTEREST = 3e-3
"""Nats."""
_ADDITIVE = 1e-7
_RANGE, _ORDERS = 36.0, 10.0
"""Unconstrained coordinates over which a prior is integrated, with bounds and without; the latter in orders of e."""
_AT_END, _GROWS = 1e-4, 0.999
"""Share of the mass near the end of that range that counts, and its ratio to the mass next to it from which the
integral is infinite."""
_MOST_FAILED, _FEWEST_PLACES = 0.1, 20
_MOST_TRIED = 40
"""Elements of a parameter that are tried one by one."""


class _Statement(NamedTuple):
    """A statement that adds to the density, with the loops around it."""

    text: str
    loops: tuple[str, ...]

    @property
    def left(self) -> set[str]:
        """Return the names whose density it is: before `~` or `|`, or all of them where it is no density."""
        if "~" in self.text:
            return _names(self.text.partition("~")[0])
        inside = _DENSITY.findall(self.text)
        return _names(" ".join(inside) if inside else self.text.partition("+=")[2])

    @property
    def is_density(self) -> bool:
        return "~" in self.text or bool(_DENSITY.search(self.text))

    @property
    def everything(self) -> set[str]:
        return _names(re.sub(r"~\s*\w+|\w+\s*\(", " (", self.text.partition("+=")[2] or self.text))


def _names(text: str) -> set[str]:
    """Return the variables of an expression, but for what is in its index brackets."""
    while "[" in text and (shorter := re.sub(r"\[[^\[\]]*\]", " ", text)) != text:
        text = shorter
    return set(re.findall(r"(?<![\w.])[A-Za-z]\w*", text))


def unnormalized(text: str, own: Any, made: Callable[[str], Any]) -> tuple[Remark, ...]:
    """Return a finding for each parameter whose prior does not integrate to one.

    Args:
        text: The program.
        own: The program with its data.
        made: Returns another program with the same data, or None if there is none.
    """
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.S)
    blocks = _blocks(text)
    if "#include" in text or "parameters" not in blocks or "model" not in blocks:
        return ()
    declared = _declared(blocks["parameters"])
    given = set(_declared(blocks.get("data", ""))) | set(_declared(blocks.get("transformed data", "")))
    statements = [*_statements(blocks["model"]), *_statements(blocks.get("transformed parameters", ""))]
    # A sum such as brms' `lprior` is added once more where it enters the target.
    sums = {one.text.partition("+=")[0].strip() for one in statements if "~" not in one.text} - {"target"}
    statements = [one for one in statements if not (one.left & sums and not one.is_density)]
    depends = _dependences(blocks, set(declared))
    found: list[Remark] = []
    for name, part in declared.items():
        covers = [one for one in statements if any(name in depends.get(other, {other}) for other in one.left)]
        prior = [
            one
            for one in covers
            if name in one.left
            and not one.left & given
            and (one.is_density or not one.everything & ((set(declared) | set(depends)) - {name}))
        ]
        found += _of_parameter(name, part, covers, prior, text, own, made)
    return tuple(found)


def _of_parameter(
    name: str,
    part: dict[str, str],
    covers: list[_Statement],
    prior: list[_Statement],
    text: str,
    own: Any,
    made: Callable[[str], Any],
) -> list[Remark]:
    """Return remarks on one parameter."""
    places = [i for i, one in enumerate(own.param_unc_names()) if one.split(".")[0] == name]
    if not places:
        return []
    kind, num = part["type"], len(places)
    if kind in _ELEMENTWISE and (prior or not covers):
        if prior and len(prior) < len(covers) and any(name in one.left and not one.is_density for one in covers):
            return []  # a term that joins it with others, such as a Jacobian
        measured = _mass(prior, places, text, own, made)
        if measured is None:
            return []
        log_mass, times = measured
        if times > 1 or not any(one.loops for one in prior):
            num = times
        if math.isinf(log_mass):
            return [Finding.IMPROPER_PRIOR(name=name)]
        if abs(log_mass) < _NO_INTEREST:
            return []
        what = "; ".join(" ".join(one.text.split()) for one in prior) or "no statement at all"
        return [Finding.HALF_PRIOR(name=name, what=what, mass=math.exp(log_mass), constant=num * log_mass)]
    constant = 0.0
    if kind == "simplex" and not covers and "array" not in part:
        constant = -math.lgamma(num + 1)
    elif kind == "unit_vector" and not covers and "array" not in part:
        constant = 0.5 * num * math.log(2 * math.pi)
    elif kind in ("ordered", "positive_ordered"):
        if not covers:
            return [Finding.IMPROPER_PRIOR(name=name)]
        exchangeable = [one for one in prior if re.fullmatch(rf"\s*{name}\s*~\s*\w+\([-\d.eE,\s]*\)\s*", one.text)]
        if len(exchangeable) == len(covers) == 1 and kind == "ordered" and "array" not in part:
            constant = -math.lgamma(num + 1)
    if abs(constant) < _NO_INTEREST:
        return []
    what = "; ".join(" ".join(one.text.split()) for one in prior) or "no statement at all"
    return [Finding.HALF_PRIOR(name=name, what=what, mass=math.exp(constant), constant=constant)]


@quiet()
def _mass(
    prior: list[_Statement], places: list[int], text: str, own: Any, made: Callable[[str], Any]
) -> tuple[float, int] | None:
    """Return the log of the integral of a prior over one element of a parameter, and how many elements it has.

    None is returned where the elements are not independent and alike, or the prior depends on more than them.
    """
    start = re.search(r"(?<![\w])model\s*{", text)
    assert start is not None
    end = _closing(text, start.end())
    body = ""
    for one in prior:
        loops = "".join(f"int {loop} = 1; " for loop in one.loops)
        statement = re.sub(r"^\s*\w+\s*\+=", "target +=", one.text)
        body += f"{{ {loops}{statement}; }} "
    rest = re.sub(r"(?<![\w])generated quantities\s*{.*", "", text[end + 1 :], flags=re.S)
    programs = [made(text[: start.end()] + inside + "}" + rest) for inside in (body, "")]
    if programs[0] is None or programs[1] is None:
        return None
    names = own.param_names()
    first = own.param_unc_names()[places[0]]
    column = names.index(first) if first in names else None
    if column is None:
        return None
    masses = []
    for center in (0.1, 0.4):
        point = np.full(own.num, center)

        def value(at: float, where: list[int]) -> float:
            moved = point.copy()  # noqa: B023
            moved[where] = at
            try:
                return programs[0].log_density(moved) - programs[1].log_density(moved)
            except RuntimeError:
                return -math.inf

        tried = places[:_MOST_TRIED]
        differences = np.array([value(0.7, [place]) - value(center, [place]) for place in tried])
        moving = [place for place, change in zip(tried, differences, strict=True) if abs(change) > 1e-12]
        if len(tried) == len(moving):
            moving = places
        if not moving:
            moving = [] if prior else places
        together = value(0.7, moving) - value(center, moving)
        if prior and (not moving or places[0] not in moving):
            return None
        if prior and not np.allclose(differences[differences != 0] * len(moving), together, rtol=_ADDITIVE, atol=1e-9):
            return None
        masses.append(_integral(lambda at: value(at, moving) / len(moving), own, point, places[0], column))  # noqa: B023
    known = [mass for mass in masses if mass is not None]
    if len(known) < 2 or not math.isclose(*known, rel_tol=0, abs_tol=_NO_INTEREST):
        return None
    return known[0], len(moving)


def _integral(value: Callable[[float], float], own: Any, point: np.ndarray, place: int, column: int) -> float | None:
    """Return the log of the integral of exp(value) over a parameter, as a function of its unconstrained coordinate."""

    def x(at: float) -> float:
        moved = point.copy()
        moved[place] = at
        try:
            return float(own.param_constrain(moved)[column])
        except RuntimeError:
            return math.nan

    # Coarse over many orders of magnitude, then finer around the top of the integrand.
    bounded = abs(x(30.0) - x(-30.0) - 10 * (x(3.0) - x(-3.0))) > 1e-6 * abs(x(30.0) - x(-30.0))
    grid = np.linspace(-_RANGE, _RANGE, 577) if bounded else np.sinh(np.linspace(-_ORDERS, _ORDERS, 401))
    known: dict[float, tuple[float, float]] = {}
    for _ in range(6):
        known |= {at: (value(at), x(at)) for at in grid if at not in known}
        values, places = np.array([known[at] for at in grid]).T
        heights = values + np.log(np.maximum(np.gradient(places, grid), 1e-300))
        if not np.isfinite(heights).any() or np.isnan(heights).mean() > _MOST_FAILED:
            return None
        top = int(np.argmax(np.where(np.isfinite(heights), heights, -np.inf)))
        near = grid[max(top - 2, 0)], grid[min(top + 2, len(grid) - 1)]
        grid = np.unique(np.concatenate([grid, np.linspace(*near, 161)]))
    keep = np.isfinite(values) & np.isfinite(places)
    at, order = np.unique(places[keep], return_index=True)
    height = values[keep][order]
    if len(at) < _FEWEST_PLACES:
        return None
    density = np.exp(height - height.max())
    curve = PchipInterpolator(at, density)
    total = float(curve.integrate(at[0], at[-1]))
    for end in (grid[0], grid[-1]):  # the outermost fifth of the range, in orders of magnitude, and the one before
        cuts = end * np.array([1.0, 0.8, 0.6]) if bounded else np.sinh(math.asinh(end) * np.array([1.0, 0.8, 0.6]))
        last, next_to_last = (abs(float(curve.integrate(x(a), x(b)))) for a, b in itertools.pairwise(cuts))
        if last > _AT_END * total:
            return math.inf if last > _GROWS * next_to_last else None
    return float(height.max()) + math.log(total)


def _blocks(text: str) -> dict[str, str]:
    """Return the content of each block of a program."""
    found, at = {}, 0
    while (start := re.compile(_BLOCK).search(text, at)) is not None:
        end = _closing(text, start.end())
        found[" ".join(start.group(1).split())] = text[start.end() : end]
        at = end + 1
    return found


def _closing(text: str, at: int) -> int:
    """Return the place of the brace that closes the one before a place."""
    depth = 1
    while at < len(text) and depth:
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
    return at - 1


def _declared(block: str) -> dict[str, dict[str, str]]:
    """Return the variables that a block declares, with type, bounds and sizes."""
    found = {}
    for part in re.split(r"[;{}]", block):
        match = _DECLARED.fullmatch(part.strip())
        if match is not None and match["type"] not in ("return", "target"):
            found[match["name"]] = {key: value for key, value in match.groupdict().items() if value is not None}
    return found


def _statements(block: str) -> list[_Statement]:
    """Return the statements of a block that add to a density, with the variables of the loops around each."""
    found: list[_Statement] = []
    loops: list[tuple[str, int]] = []
    pending: list[str] = []
    depth, text = 0, ""
    for sign in block:
        if sign == "{":
            pending += re.findall(r"for\s*\(\s*(\w+)\s+in\b[^)]*", text)
            depth += 1
            loops += [(name, depth) for name in pending]
            pending, text = [], ""
        elif sign == "}":
            loops = [(name, level) for name, level in loops if level < depth]
            depth, text = depth - 1, ""
        elif sign == ";":
            inside = tuple(re.findall(r"for\s*\(\s*(\w+)\s+in\b", text))
            statement = re.sub(r"^\s*(?:for\s*\([^)]*\)\s*)+", "", text, flags=re.S).strip()
            if "~" in statement or re.match(r"(target|\w*prior\w*)\s*\+=", statement):
                found.append(_Statement(statement, (*(name for name, _ in loops), *inside)))
            text = ""
        else:
            text += sign
    return found


def _dependences(blocks: dict[str, str], parameters: set[str]) -> dict[str, set[str]]:
    """Return the parameters on which each other variable depends."""
    depends = {name: {name} for name in parameters}
    assignments = []
    for block in ("transformed parameters", "model"):
        for part in re.split(r"[;{}]", blocks.get(block, "")):
            match = re.search(r"([A-Za-z]\w*)\s*(?:\[[^=]*\])?\s*[-+*/.]*=(?!=)(.*)", part, re.S)
            if match is not None and match[1] != "target" and "~" not in part:
                assignments.append((match[1], set(re.findall(r"[A-Za-z]\w*", match[2]))))
    for _ in assignments:
        for name, used in assignments:
            if name not in parameters:
                depends.setdefault(name, set()).update(*(depends.get(other, set()) for other in used))
    return depends
