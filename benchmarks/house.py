"""How large and how plain the house is: modules, lines, the way of a call, constants, docstrings, layers.

    python -m benchmarks.house [--before COMMIT] [--write]

Prints a table of this tree, with a column for an earlier commit where one is given. `--write` stores it in
benchmarks/results/house.md. Wanted are the figures of the plan. Lines are physical lines. Code leaves out docstrings,
comments and empty lines. The way of a call is that of a second `evidence` call with another key, in two dimensions.
"""

import argparse
import ast
import collections
import datetime
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "benchmarks" / "results" / "house.md"
SEARCH = {"tuning", "search", "references", "maps", "front_door"}
"""Rooms of the search, the references and the front door."""
SHORT = 4
"""Lines of a helper that is small enough to stand where it is used."""
WEAK = re.compile(r"(What|Whether|How|Where|Of|As)\b")
CALL = """
import json, os, sys
import jax, jax.numpy as jnp, qpaths as qp
source = os.path.dirname(qp.__file__) + os.sep
y = jnp.array([9.8, 10.4, 10.1, 11.2])
prior = {"mu": qp.Normal(8.0, 3.0), "log_sigma": qp.Normal(0.0, 1.0)}
def log_likelihood(p, y):
    return jnp.sum(jax.scipy.stats.norm.logpdf(y, p["mu"], jnp.exp(p["log_sigma"])))
def call(seed):
    qp.evidence(prior=prior, log_likelihood=log_likelihood, data=y, key=jax.random.key(seed))
files, depth, deepest = set(), 0, 0
def follow(frame, event, _):
    global depth, deepest
    if not frame.f_code.co_filename.startswith(source):
        return
    if event == "call":
        depth += 1
        deepest = max(deepest, depth)
        files.add(frame.f_code.co_filename)
    elif event == "return":
        depth -= 1
call(0)
sys.setprofile(follow)
call(1)
sys.setprofile(None)
print(json.dumps([len(files), deepest]))
"""


class House:
    """The figures of a source tree."""

    def __init__(self, root):
        self.root = root
        source = root / "src" / "qpaths"
        self.paper = [*(source / "experiments").rglob("*.py"), *(root / "paper" / "src").rglob("*.py")]
        self.files = sorted(set(source.rglob("*.py")) - set(self.paper))
        self.source = source
        self.texts = {file: file.read_text() for file in [*self.files, *self.paper]}
        self.trees = {file: ast.parse(text) for file, text in self.texts.items()}

    def nodes(self, *kinds):
        return [node for file in self.files for node in ast.walk(self.trees[file]) if isinstance(node, kinds)]

    def num_lines(self, files):
        return sum(self.texts[file].count("\n") for file in files)

    def way(self):
        """Files entered and depth of a warm call of `evidence`."""
        path = os.pathsep.join(str(self.root / folder) for folder in ("src", "paper/src"))
        command = [sys.executable, "-c", CALL]
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": path}
        )
        return [int(figure) for figure in re.findall(r"\d+", done.stdout.splitlines()[-1])]

    def constants(self):
        """Names in capitals that the rooms of the search assign at module level."""
        found = 0
        for file in self.files:
            if file.relative_to(self.source).parts[0] in SEARCH:
                for node in self.trees[file].body:
                    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
                    names = [
                        name.id for target in targets if target for name in ast.walk(target) if hasattr(name, "id")
                    ]
                    found += sum(name.isupper() for name in names)
        return found

    def longest(self, with_docstring):
        def size(node):
            docstring = node.body[0] if ast.get_docstring(node) is not None and not with_docstring else None
            return node.end_lineno - node.lineno + 1 - (docstring.end_lineno - docstring.lineno + 1 if docstring else 0)

        return max(map(size, self.nodes(ast.FunctionDef)))

    def helpers(self):
        """Private functions and methods of few lines whose name occurs once more in the package."""
        words = collections.Counter(
            word for file in self.files for word in re.findall(r"\b_[a-zA-Z]\w*", self.texts[file])
        )
        private = [node for node in self.nodes(ast.FunctionDef) if re.match(r"_[a-zA-Z]", node.name)]
        short = [node for node in private if self.size_of_body(node) <= SHORT]
        return sum(words[node.name] == 2 for node in short)

    @staticmethod
    def size_of_body(node):
        body = node.body[1:] if ast.get_docstring(node) is not None else node.body
        return body[-1].end_lineno - body[0].lineno + 1 if body else 0

    def annotations(self):
        """Annotations that are `Any` and nothing else, and all of them."""
        found = [node.annotation for node in self.nodes(ast.arg, ast.AnnAssign) if node.annotation is not None]
        found += [node.returns for node in self.nodes(ast.FunctionDef) if node.returns is not None]
        return sum(isinstance(one, ast.Name) and one.id == "Any" for one in found), len(found)

    def docstrings(self):
        """Docstrings, and the strings below constants and fields."""
        found = []
        for node in self.nodes(ast.Module, ast.ClassDef, ast.FunctionDef):
            for before, one in zip([None, *node.body], node.body, strict=False):
                if (
                    isinstance(one, ast.Expr)
                    and isinstance(one.value, ast.Constant)
                    and isinstance(one.value.value, str)
                ):
                    found.append((isinstance(before, ast.Assign | ast.AnnAssign), one))
        return found

    def comments_to_code(self):
        """Lines of comments and of strings below constants, over lines of code."""
        docstrings = {id(one): one.end_lineno - one.lineno + 1 for _, one in self.docstrings()}
        of_constants = sum(docstrings[id(one)] for is_constant, one in self.docstrings() if is_constant)
        comments, code = 0, 0
        for file in self.files:
            text = self.texts[file]
            lines = text.splitlines()
            tokens = tokenize.generate_tokens(io.StringIO(text).readline)
            alone = sum(t.type == tokenize.COMMENT and lines[t.start[0] - 1].lstrip().startswith("#") for t in tokens)
            comments += alone
            code += sum(bool(line.strip()) for line in lines) - alone
        return (comments + of_constants) / (code - sum(self.non_empty(one) for _, one in self.docstrings()))

    @staticmethod
    def non_empty(node):
        return sum(bool(line.strip()) for line in node.value.value.split("\n")) or 1

    def weak(self):
        return sum(bool(WEAK.match(one.value.value.strip())) for _, one in self.docstrings())

    def layers(self):
        tree = ast.parse((self.root / "tests" / "test_layers.py").read_text())
        named = (node for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == "LAYERS")
        return len(next(named).value.elts)

    def twice(self):
        """Stems of files that occur more than once. Each folder whose members users extend has a `base`."""
        stems = collections.Counter(file.stem for file in self.files if not re.match("__|base$", file.stem))
        return sum(number > 1 for number in stems.values())

    def past_the_door(self):
        """Names that one room of the package imports from a file inside another one."""
        found = 0
        for file in self.files:
            package = file.relative_to(self.source).parts[:-1]
            for node in ast.walk(self.trees[file]):
                if isinstance(node, ast.ImportFrom) and node.level and node.module:
                    above = package[: len(package) - node.level + 1]
                    target = [*above, *node.module.split(".")]
                    inside = len(target) > 1 and (self.source / target[0]).is_dir() and target[:1] != list(package[:1])
                    found += len(node.names) if inside else 0
        return found

    def table(self):
        any_, annotations = self.annotations()
        files, depth = self.way()
        root_files = len(list(self.source.glob("*.py")))
        return [
            ("modules of `src/qpaths`; lines", f"{len(self.files)}; {self.num_lines(self.files):,}", "150; 22,500"),
            ("lines with the paper's experiments", f"{self.num_lines([*self.files, *self.paper]):,}", "27,000"),
            ("files entered and depth of a warm `evidence` call", f"{files}; {depth}", "55; 30"),
            ("constants in the search, the references and the front door", self.constants(), 150),
            ("longest function; without its docstring", f"{self.longest(True)}; {self.longest(False)}", 60),
            (f"private helpers of at most {SHORT} lines that are used once", self.helpers(), 40),
            ("annotations that are a bare `Any`", f"{100 * any_ / annotations:.0f} % of {annotations:,}", "6 %"),
            ("docstrings that start with What, Whether, How, Where, Of, As", self.weak(), 20),
            ("comment and constant docstring to code", f"{self.comments_to_code():.3f}", "0.08, at least"),
            ("layers of `tests/test_layers.py`; files at the root", f"{self.layers()}; {root_files}", "14; 12"),
            ("file stems used twice; names imported past a door", f"{self.twice()}; {self.past_the_door()}", "0; 0"),
        ]


def exported(commit, folder):
    """The tree of a commit, written to a folder."""
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    return Path(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", metavar="COMMIT", help="measure this commit too")
    parser.add_argument("--write", action="store_true", help=f"store the table in {PAGE.relative_to(ROOT)}")
    arguments = parser.parse_args()
    columns = {"now": House(ROOT).table()}
    if arguments.before:
        with tempfile.TemporaryDirectory() as folder:
            columns = {arguments.before: House(exported(arguments.before, folder)).table(), **columns}
    rows = [["", *columns, "wanted, at most"], ["---"] * (len(columns) + 2)]
    rows += [[lines[0][0], *(line[1] for line in lines), lines[0][2]] for lines in zip(*columns.values(), strict=True)]
    table = "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows)
    print(table)
    if arguments.write:
        made = " ".join(["python -m benchmarks.house", *sys.argv[1:]])
        PAGE.write_text(f"# The house\n\nMade by `{made}` on {datetime.date.today()}.\n\n{table}\n")


if __name__ == "__main__":
    main()
