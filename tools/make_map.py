"""Draw the map of the package, `docs/pictures/layers.svg`, from the list of layers in `tests/test_layers.py`.

Run `python tools/make_map.py` after a change of that list; a test fails while the picture is out of date.
"""

import runpy
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "pictures" / "layers.svg"

BANDS = {
    "command line": ("#ede7f6", "#5e35b1"),
    "extras": ("#e0f2f1", "#00796b"),
    "what you call": ("#fde8e4", "#c0392b"),
    "the engine": ("#fdf0d9", "#b9770e"),
    "parts of a run": ("#e6f4e3", "#388e3c"),
    "mathematics": ("#e1f0fa", "#1976a8"),
    "tools": ("#eceff1", "#546e7a"),
}
"""Fill and stroke of each part of the house, from the roof to the ground."""

ROOMS = {
    "__main__": ("command line", "python -m qpaths"),
    "cli": ("command line", "the qpaths command: evidence, compare, and what paper/ adds"),
    "front_door": ("what you call", "evidence: endpoints, checks, limits, verdict"),
    "after": ("what you call", "draws, new data, other priors"),
    "after.leave_out": ("what you call", "left-out data"),
    "after.many": ("what you call", "many data sets"),
    "search": ("what you call", "tune, choose_q, equalize: pilots in, a Recipe out"),
    "models": ("extras", "decoders: bounds, training"),
    "testing": ("extras", "check_path, check_kernel, ..."),
    "adapters.for_blackjax": ("extras", "SMC for BlackJAX"),
    "adapters": ("extras", "models of NumPyro, PyMC"),
    "algorithms": ("what you call", "AIS, SMC, BDMC, parallel tempering, thermodynamic integration, drive"),
    "plotting": ("extras", "figures of paths and results"),
    "annealing": ("the engine", "the population, one step, and the only loop over betas"),
    "comparison": ("parts of a run", "compare: Bayes factors"),
    "results": ("parts of a run", "Result, load_result"),
    "recipe": ("parts of a run", "path + schedule + kernel"),
    "kernels": ("parts of a run", "RandomWalk, HMC, MALA, frozen"),
    "references": ("parts of a run", "near the target: ascents, fits"),
    "io": ("tools", "files and checkpoints"),
    "rows": ("parts of a run", "densities at many points, in pieces: here, on devices, over an executor"),
    "stats": ("parts of a run", "log evidence from arrays, standard errors"),
    "paths": ("mathematics", "AbstractPath, GeometricPath, QPath and the others"),
    "families": ("mathematics", "exponential and q-exponential families"),
    "deformed": ("mathematics", "log_q, exp_q"),
    "densities": ("mathematics", "what a user gives"),
    "maps": ("mathematics", "transport maps"),
    "resampling": ("parts of a run", "who survives"),
    "schedules": ("parts of a run", "which betas"),
    "remarks": ("tools", "what a run says"),
    "core": ("tools", "arrays of NumPy and JAX, numerics, random numbers, types, checks of arguments, cost, progress"),
}
"""Part of the house and caption of each folder or file; a longer name goes before a shorter one."""

WIDTH, LEFT, GAP = 960, 120, 6


def room_of(module: str) -> str:
    """The room that a module of the list of layers belongs to."""
    parts = module.split(".")
    names = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
    found = next((name for name in names if name in ROOMS), None)
    if found is None:
        raise KeyError(f"`{module}` has no room on the map: add `{parts[0]}` to ROOMS in tools/make_map.py.")
    return found


def floors(layers: list[list[str]]) -> list[list[str]]:
    """Return the rooms on each floor, ground floor first."""
    height = {room_of(module): rank for rank, modules in enumerate(layers) for module in modules}
    ranks = sorted(set(height.values()))
    return [[room for room in height if height[room] == rank] for rank in ranks]


def draw(layers: list[list[str]]) -> str:
    """The picture as SVG, the top layer first."""
    parts, y, band_before = [], 44, None
    for rooms in reversed(floors(layers)):
        band = ROOMS[rooms[0]][0]
        if band != band_before:
            y += 8 if band_before else 0
            parts.append(_text(12, y + 19, band, "band", BANDS[band][1]))
            band_before = band
        height = 30 if len(rooms) == 1 else 44
        width = (WIDTH - LEFT - 12 - GAP * (len(rooms) - 1)) / len(rooms)
        for i, room in enumerate(rooms):
            parts += _box(LEFT + i * (width + GAP), y, width, height, room)
        y += height + GAP
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 8}" width="{WIDTH}" height="{y + 8}">',
        "<style>text{font-family:Helvetica,Arial,sans-serif;font-size:12px;fill:#37474f}"
        ".name{font-family:Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:13px;font-weight:bold;fill:#102027}"
        ".band{font-size:12px;font-weight:bold}.title{font-size:15px;font-weight:bold}</style>",
        f'<rect width="{WIDTH}" height="{y + 8}" fill="white"/>',
        '<text x="12" y="26" class="title">src/qpaths: a room imports only from the floors below it</text>',
    ]
    return "\n".join([*head, *parts, "</svg>"]) + "\n"


def _box(x: float, y: float, width: float, height: float, room: str) -> list[str]:
    """One room: its name, and its caption to the right of the name or, in a narrow room, below."""
    band, caption = ROOMS[room]
    fill, stroke = BANDS[band]
    rectangle = (
        f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{height}" rx="5" fill="{fill}" stroke="{stroke}" '
        f'stroke-opacity="0.45"/>'
    )
    if height == 30:
        return [rectangle, _text(x + 10, y + 20, room, "name"), _text(x + 190, y + 20, caption)]
    return [rectangle, _text(x + 10, y + 18, room, "name"), _text(x + 10, y + 35, caption)]


def _text(x: float, y: float, text: str, kind: str = "", color: str = "") -> str:
    style = (f' class="{kind}"' if kind else "") + (f' style="fill:{color}"' if color else "")
    return f'<text x="{x:.1f}" y="{y:.1f}"{style}>{escape(text)}</text>'


def layers() -> list[list[str]]:
    """The list that the test of the layers enforces."""
    return runpy.run_path(str(ROOT / "tests" / "test_layers.py"))["LAYERS"]


if __name__ == "__main__":
    PICTURE.write_text(draw(layers()))
