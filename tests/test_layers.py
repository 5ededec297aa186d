"""A file imports only from lower layers. This list is the map of the package."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "qpaths"

LAYERS = [
    ["status", "io.lock", "io.codec"],
    ["_types", "_checks", "_modules", "_random", "cost", "progress"],
    ["io.storage", "rows.workers"],
    ["arrays", "naming"],
    ["rows.pieces", "rows.devices"],
    ["autocorrelation", "remarks"],
    ["io.checkpoints"],
    ["io"],
    ["numerics", "maps"],
    ["deformed", "densities"],
    ["families"],
    ["paths.base"],
    ["paths.parametric", "paths.power_mean", "paths.reversed"],
    ["paths"],
    ["schedules", "resampling", "estimators", "standard_errors"],
    ["rows", "next_beta"],
    ["adapters.model", "adapters.transforms", "adapters.draws", "adapters.enumeration", "adapters.free"],
    ["adapters.distributions"],
    ["adapters.discrete_sites"],
    ["adapters.priors", "adapters.numpyro", "adapters.pymc"],
    ["kernels", "adapters.arviz"],
    ["results", "recipe"],
    ["comparison"],
    ["annealing.on_devices"],
    ["annealing.population"],
    ["annealing.loop"],
    ["annealing"],
    ["algorithms.checks", "algorithms.base"],
    ["algorithms.ais", "algorithms.smc", "algorithms.tempering", "algorithms.tvo"],
    ["algorithms.pt", "algorithms.thinned"],
    ["algorithms.bdmc", "algorithms.identities", "algorithms.driver"],
    ["algorithms.replicates"],
    ["algorithms.ti"],
    ["references.drivers", "references.climb", "references.components", "references.coordinates"],
    ["references.fitting"],
    ["references.wells"],
    ["references"],
    ["algorithms.islands", "algorithms.continued"],
    ["algorithms"],
    ["search.shares"],
    ["search.pilot", "search.compare", "search.weighted", "search.heuristics"],
    ["search.choices", "search.fits"],
    ["search.state"],
    ["search.proposers"],
    ["search.start"],
    ["search.choose", "search.equalize", "search.for_population"],
    ["search.chain_measure"],
    ["search.chain_search"],
    ["search.for_chains"],
    ["search"],
    ["front_door.endpoints", "front_door.exchange"],
    ["front_door.sampler"],
    ["front_door.chains", "front_door.inputs", "front_door.certificate", "front_door.call_state", "front_door.limits"],
    ["front_door.ledger", "front_door.proposals", "front_door.problem"],
    ["front_door.checks", "front_door.batches"],
    ["front_door.findings"],
    ["front_door"],
    ["testing"],
    ["result_plots"],
    ["plotting", "adapters", "models"],
    ["cli"],
    ["__main__"],
]

MODULES = sorted(p for p in SOURCE.rglob("*.py") if p != SOURCE / "__init__.py")


def _name(path):
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _layer(module):
    """The layer of the longest listed prefix of the module's name."""
    ranks = {name: rank for rank, names in enumerate(LAYERS) for name in names}
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        if ".".join(parts[:length]) in ranks:
            return ranks[".".join(parts[:length])]
    raise AssertionError(f"{module} has no layer: add it to the list in {__file__}")


def _imports(path):
    """Modules of the package that a file imports, as dotted names below `qpaths`."""
    package = list(path.relative_to(SOURCE).parts[:-1])
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert not any(alias.name.split(".")[0] == "qpaths" for alias in node.names), f"{path}: import relatively"
        if not isinstance(node, ast.ImportFrom):
            continue
        assert node.level or (node.module or "").split(".")[0] != "qpaths", f"{path}: import relatively"
        if node.level:
            above = package[: len(package) - node.level + 1]
            if node.module:
                yield ".".join([*above, node.module])
            else:
                yield from (".".join([*above, alias.name]) for alias in node.names)


def test_imports_only_from_lower_layers():
    wrong = []
    for path in MODULES:
        module = _name(path)
        folder = module.split(".")[0]
        for imported in _imports(path):
            same_folder = imported.split(".")[0] == folder and folder != "algorithms"
            if not (_layer(imported) < _layer(module) or (same_folder and _layer(imported) <= _layer(module))):
                wrong.append(f"{module} (layer {_layer(module)}) imports {imported} (layer {_layer(imported)})")
    assert not wrong, "\n".join(wrong)


def test_every_file_says_what_lives_there():
    silent = [str(path) for path in MODULES if not ast.get_docstring(ast.parse(path.read_text()))]
    assert not silent, f"these need a first line that says what lives there: {silent}"
