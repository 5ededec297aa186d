"""A room imports only from rooms below it, through their doors. This list is the map of the package.

A room is a folder, or a file at the root. Files of a room may import each other, but not in a circle.
"""

import ast
import collections
import functools
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "qpaths"

LAYERS = [
    ["core"],
    ["deformed", "densities", "maps", "resampling", "schedules", "remarks"],
    ["families"],
    ["paths"],
    ["rows", "stats"],
    ["kernels", "references", "adapters", "io"],
    ["results", "recipe"],
    ["annealing", "comparison"],
    ["algorithms", "plotting"],
    ["search", "models", "testing", "adapters.for_blackjax", "after"],
    ["front_door"],
    ["cli", "after.many"],
    ["__main__", "after.leave_out"],
]
"""Rooms from the ground up. A file that is named stands apart from its folder, whose door imports it when needed."""

MODULES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(SOURCE.rglob("*.py"))
    if path != SOURCE / "__init__.py"
}


def _room(module):
    """The longest listed prefix of the name of a module."""
    rooms = {room for rooms in LAYERS for room in rooms}
    parts = module.split(".")
    found = next((name for k in range(len(parts), 0, -1) if (name := ".".join(parts[:k])) in rooms), None)
    assert found, f"{module} has no layer: add `{parts[0]}` to the list in {__file__}"
    return found


def _imports(module):
    """Modules of the package that a module imports, as dotted names below `qpaths`."""
    path = MODULES[module]
    package = path.relative_to(SOURCE).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert not any(alias.name.split(".")[0] == "qpaths" for alias in node.names), f"{path}: import relatively"
        if not isinstance(node, ast.ImportFrom):
            continue
        assert node.level or (node.module or "").split(".")[0] != "qpaths", f"{path}: import relatively"
        if node.level:
            above = [*package[: len(package) - node.level + 1], *(node.module or "").split(".")]
            base = ".".join(filter(None, above))
            for alias in node.names:
                inside = f"{base}.{alias.name}" if base else alias.name
                yield inside if inside in MODULES and alias.name not in _exported(base) else base


@functools.cache
def _exported(room):
    """Names that the door of a room imports from its files; one of them may be called as its file is."""
    folder = SOURCE / room
    door = next((file for name in ("__init__.pyi", "__init__.py") if (file := folder / name).exists()), None)
    nodes = ast.walk(ast.parse(door.read_text())) if room and door else ()
    return {alias.name for node in nodes if isinstance(node, ast.ImportFrom) and node.module for alias in node.names}


def test_rooms_import_only_from_lower_rooms():
    layer = {room: rank for rank, rooms in enumerate(LAYERS) for room in rooms}
    wrong = {
        f"{module} (layer {layer[_room(module)]}) imports {imported} (layer {layer[_room(imported)]})"
        for module in MODULES
        for imported in _imports(module)
        if _room(imported) != _room(module) and layer[_room(imported)] >= layer[_room(module)]
    }
    assert not wrong, "\n".join(sorted(wrong))


def test_files_of_a_room_import_each_other_in_no_circle():
    inside = {
        module: {found for found in _imports(module) if found != module and _room(found) == _room(module)}
        for module, path in MODULES.items()
        if path.stem != "__init__"
    }
    while free := {module for module, found in inside.items() if not found & inside.keys()}:
        inside = {module: found for module, found in inside.items() if module not in free}
    assert not inside, f"these import each other in a circle, or one that does: {sorted(inside)}"


def test_names_of_another_room_come_through_its_door():
    past = {
        f"{module} imports from {imported}"
        for module in MODULES
        for imported in _imports(module)
        if "." in imported and imported.split(".")[0] != module.split(".")[0]
    }
    assert not past, "\n".join(sorted(past))


def test_every_file_says_what_lives_there():
    silent = [module for module, path in MODULES.items() if not ast.get_docstring(ast.parse(path.read_text()))]
    assert not silent, f"these need a first line that says what lives there: {silent}"


def test_no_two_files_have_one_name():
    """But for `base`, which a folder has whose members users extend."""
    stems = collections.Counter(path.stem for path in MODULES.values() if path.stem not in ("__init__", "base"))
    assert max(stems.values()) == 1, [stem for stem, number in stems.items() if number > 1]


def test_few_files_lie_at_the_root():
    assert len(list(SOURCE.glob("*.py"))) <= 12
