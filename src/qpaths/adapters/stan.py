"""A Stan program as a model: its density with all constants, its variables by name, and a base to anneal from."""

import base64
import contextlib
import ctypes
import functools
import importlib
import json
import math
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from ..core import PyTree, QpathsError, QpathsTypeError, quiet
from ..densities import Density
from ..remarks import Note
from .draws import grouped
from .model import Model, Named
from .stan_priors import unnormalized

Row = Float[np.ndarray, " d"]
Matrix = Float[np.ndarray, "n d"]
Values = Float[np.ndarray, " n"]
Constrained = Float[np.ndarray, " k"]

_CHAINS, _FEWEST_MOVES, _MOST_MOVES, _LEAPFROG = 16, 60, 300, 8
_SECONDS = 3.0
"""Number of chains for the base, if the program is slow."""
_RADIUS, _TRIES = 2.0, 200
"""Starts are uniform in this box, as Stan's are, and so many draws are tried for each."""
_WIDER, _DF = 2.0, 4.0
"""Factor by which the base is wider than the draws of the chains, and its degrees of freedom."""
_ACCEPTED = 0.8
_CANARY = "parameters { real mu; } model { mu ~ normal(0, 1); }"
_MOST_SHIFT = 1e-6
"""Relative difference between points of what `~` drops, which must be a constant."""


@runtime_checkable
class StanModel(Protocol):
    """The part of BridgeStan's interface that is used here."""

    def param_unc_num(self) -> int: ...
    def param_names(self, *, include_tp: bool = False, include_gq: bool = False) -> list[str]: ...
    def log_density(self, theta_unc: Row, *, propto: bool = True, jacobian: bool = True) -> float: ...
    def log_density_gradient(
        self, theta_unc: Row, *, propto: bool = True, jacobian: bool = True
    ) -> tuple[float, Row]: ...
    def param_constrain(self, theta_unc: Row, *, include_tp: bool = False, include_gq: bool = False) -> Constrained: ...
    def param_unconstrain(self, theta: Constrained) -> Row: ...


def from_stan(program: Any, data: Any = None) -> Model:
    """Return the model of a Stan program with data, for `qpaths.evidence` and `qpaths.evidence_from_draws`.

    The evidence is the integral of the program's density over its parameters. All constants are kept, also those that
    `~` drops in Stan. Stan has no prior apart from the likelihood. So the base is a distribution fitted to short chains
    of the program, and wider than these. The result has the parameters by name, transformed parameters, and generated
    quantities. The notes name what the program leaves out of normalization: `sigma ~ normal(0, 1)` for a
    positive `sigma` integrates to one half.

    Args:
        program: The text of a program, the path of a `.stan` file, or a model of BridgeStan, which has its data.
        data: A dictionary, or the path of a JSON file.

    Returns:
        A `Model`. Its evaluations can go over an `executor`.

    Programs in text are run by stanli: `pip install 'qpaths[stan]'`. See
    [Coming from brms and bridgesampling](stan.md) and Carpenter and others (2017).

    Examples:
        >>> own = from_stan("parameters { real mu; } model { mu ~ normal(0, 1); 1.0 ~ normal(mu, 1); }")
        >>> round(float(own.target.log_prob(np.zeros((1, 1)))[0]), 3)  # -log(2 pi) - 1 / 2
        -2.338
    """
    if isinstance(program, str | os.PathLike):
        text, where = _program_of(program)
        interpreted = _Interpreted(_with_constants(text, where), _data_of(data))
        return _model(_Program(interpreted), _notes(text, where, interpreted))
    if isinstance(program, StanModel):
        if data is not None:
            raise ValueError("`data` is in the model of BridgeStan already: leave it out.")
        return _model(_Program(program), ())
    raise QpathsTypeError(
        f"`program` must be the text or the path of a Stan program, or a model of BridgeStan, got {program!r}."
    )


def _program_of(program: Any) -> tuple[str, str]:
    """Return the text of a program, and the folder of its includes."""
    text = os.fspath(program)
    if "{" in text:
        return text, "."
    if not os.path.exists(text):
        raise QpathsError(f"`program` must be the text of a Stan program or the path of a file, got {text!r}.")
    return Path(text).read_text(), os.path.dirname(os.path.abspath(text))


def _data_of(data: Any) -> str:
    """Return data as JSON."""
    if data is None:
        return "{}"
    if isinstance(data, Mapping):
        return json.dumps(data, default=lambda value: np.asarray(value).tolist())
    if not isinstance(data, str | os.PathLike):
        raise QpathsTypeError(f"`data` must be a dictionary or the path of a JSON file, got {data!r}.")
    text = os.fspath(data)
    if not text.lstrip().startswith("{"):
        if not os.path.exists(text):
            raise QpathsError(f"`data` must be a dictionary or the path of a JSON file, got {text!r}.")
        text = Path(text).read_text()
    return text


@functools.cache
def _stanli() -> tuple[ModuleType, ctypes.CDLL]:
    """Return stanli, and its library with BridgeStan's functions, or raise an error that says how to install it."""
    try:
        stanli = importlib.import_module("stanli")
    except ImportError as error:
        raise ImportError("`from_stan` needs stanli: pip install 'qpaths[stan]'.") from error
    folder = Path(str(stanli.__file__)).parent / "_bin"
    library = ctypes.CDLL(str(next(path for path in folder.iterdir() if path.suffix in (".so", ".dylib", ".dll"))))
    model, flag, message = ctypes.c_void_p, ctypes.c_bool, ctypes.POINTER(ctypes.c_char_p)
    row, number = np.ctypeslib.ndpointer(float, flags="C"), ctypes.POINTER(ctypes.c_double)
    for name, result, arguments in (
        ("model_construct", model, [ctypes.c_char_p, ctypes.c_uint, message]),
        ("model_destruct", None, [model]),
        ("rng_construct", model, [ctypes.c_uint, message]),
        ("free_error_msg", None, [ctypes.c_void_p]),
        ("param_unc_num", ctypes.c_int, [model]),
        ("param_unc_names", ctypes.c_char_p, [model]),
        ("param_names", ctypes.c_char_p, [model, flag, flag]),
        ("log_density", ctypes.c_int, [model, flag, flag, row, number, message]),
        ("log_density_gradient", ctypes.c_int, [model, flag, flag, row, number, row, message]),
        ("param_constrain", ctypes.c_int, [model, flag, flag, row, row, model, message]),
        ("param_unconstrain", ctypes.c_int, [model, row, row, message]),
    ):
        function = getattr(library, f"bs_{name}")
        function.restype, function.argtypes = result, arguments
    found = stanli, library
    dropped = _Interpreted(_compiled(_CANARY, ".", found), "{}", found).log_density(np.zeros(1))
    kept = _Interpreted(_keeping(_compiled(_CANARY, ".", found)), "{}", found).log_density(np.zeros(1))
    if abs(dropped) > 1e-12 or abs(kept + 0.5 * math.log(2 * math.pi)) > 1e-12:
        raise ImportError(
            f"stanli {stanli.__version__} stores programs in a way that is not known here, so the constants of `~` "
            f"cannot be kept: pip install 'stanli==0.24.0'."
        )
    return found


def _compiled(text: str, where: str, found: Any = None) -> str:
    stanli = (found or _stanli())[0]
    try:
        return str(stanli.stan_to_mir(text, include_paths=where))
    except RuntimeError as error:
        raise QpathsError(f"the Stan program has an error. Stan says:\n{error}") from error


def _keeping(compiled: str) -> str:
    """Return a compiled program in which `~` keeps all constants, as `target +=` with `_lpdf` does.

    A call of a density is stored with its name, and a byte that says whether constants may be dropped.
    """
    head, _, content = compiled.partition(":")
    kept = re.sub(rb"([a-z0-9_A-Z]_lp[dm]f)\x01", lambda found: found[1] + b"\0", base64.b64decode(content))
    return f"{head}:{base64.b64encode(kept).decode()}"


def _with_constants(text: str, where: str) -> str:
    _stanli()
    return _keeping(_compiled(text, where))


class _Interpreted:
    """A compiled program with data, behind BridgeStan's interface. Constants are kept or not as it was compiled."""

    def __init__(self, compiled: str, data: str, found: Any = None):
        self.compiled, self.data = compiled, data
        stanli, library = found or _stanli()
        self.library: ctypes.CDLL = library
        try:
            given = json.loads(data)
        except ValueError as error:
            raise QpathsError(f"`data` must be JSON: {error}.") from error
        given["__stanli"] = {"build_id": stanli.build_id(), "mir": compiled, "name": "program"}
        message = ctypes.c_char_p()
        content = json.dumps(given).encode()
        self.model = self.library.bs_model_construct(content, 1, ctypes.byref(message))
        if not self.model:
            raise QpathsError(f"the data do not fit the Stan program. Stan says: {self._said(message)}")
        self.generator = self.library.bs_rng_construct(1, ctypes.byref(message))
        self.num = int(self.library.bs_param_unc_num(self.model))

    def __reduce__(self) -> Any:
        return _Interpreted, (self.compiled, self.data)

    def __del__(self) -> None:
        if getattr(self, "model", None):
            self.library.bs_model_destruct(self.model)

    def _said(self, message: ctypes.c_char_p) -> str:
        text = (message.value or b"").decode()
        self.library.bs_free_error_msg(message)
        return text

    def _call(self, name: str, *arguments: Any) -> None:
        message = ctypes.c_char_p()
        if getattr(self.library, f"bs_{name}")(self.model, *arguments, ctypes.byref(message)):
            raise RuntimeError(self._said(message))

    def param_unc_num(self) -> int:
        return self.num

    def param_unc_names(self) -> list[str]:
        return [name for name in self.library.bs_param_unc_names(self.model).decode().split(",") if name]

    def param_names(self, *, include_tp: bool = False, include_gq: bool = False) -> list[str]:
        names = self.library.bs_param_names(self.model, include_tp, include_gq).decode()
        return [name for name in names.split(",") if name]

    def log_density(self, theta_unc: Row, *, propto: bool = True, jacobian: bool = True) -> float:
        value = ctypes.c_double()
        self._call("log_density", True, True, theta_unc, ctypes.byref(value))
        return value.value

    def log_density_gradient(self, theta_unc: Row, *, propto: bool = True, jacobian: bool = True) -> tuple[float, Row]:
        value, slope = ctypes.c_double(), np.empty(self.num)
        self._call("log_density_gradient", True, True, theta_unc, ctypes.byref(value), slope)
        return value.value, slope

    def param_constrain(self, theta_unc: Row, *, include_tp: bool = False, include_gq: bool = False) -> Constrained:
        found = np.empty(len(self.param_names(include_tp=include_tp, include_gq=include_gq)))
        self._call("param_constrain", include_tp, include_gq, theta_unc, found, self.generator)
        return found

    def param_unconstrain(self, theta: Constrained) -> Row:
        found = np.empty(self.num)
        self._call("param_unconstrain", np.ascontiguousarray(theta, float), found)
        return found


class _Program:
    """A program with data at rows of unconstrained points. Where Stan rejects a point the density is NaN."""

    def __init__(self, model: StanModel):
        self.model = model
        self.dimension = model.param_unc_num()
        if not self.dimension:
            raise ValueError(
                "the Stan program has no parameters, so its evidence is its density: nothing to integrate."
            )
        self.parameters = grouped(model.param_names())
        self.everything = grouped(model.param_names(include_tp=True, include_gq=True))
        self._last: tuple[bytes, Matrix] | None = None
        self._climbs = False

    @quiet()
    def at(self, rows: Matrix) -> tuple[Values, Matrix]:
        """Return log densities and gradients."""
        values, slopes = np.full(len(rows), np.nan), np.full((len(rows), self.dimension), np.nan)
        for i, row in enumerate(np.ascontiguousarray(rows, float)):
            try:
                values[i], slopes[i] = self.model.log_density_gradient(row, propto=False)
            except (RuntimeError, ValueError):  # Stan rejects the point
                continue
        return values, slopes

    def log_prob(self, rows: Matrix) -> Values:
        """Return log densities; with gradients where these were asked for the last time, as they will be again."""
        rows = np.ascontiguousarray(rows, float)
        if self._climbs:
            values, slopes = self.at(rows)
            self._last, self._climbs = (rows.tobytes(), slopes), False
            return values
        values = np.full(len(rows), np.nan)
        for i, row in enumerate(rows):
            try:
                values[i] = self.model.log_density(row, propto=False)
            except (RuntimeError, ValueError):
                continue
        return values

    def gradient(self, rows: Matrix) -> Matrix:
        """Return gradients, those of the last call of `log_prob` if it had the same rows."""
        self._climbs = True
        if self._last is not None and self._last[0] == np.ascontiguousarray(rows, float).tobytes():
            return self._last[1]
        return self.at(rows)[1]

    def constrain(self, point: Row) -> Named:
        """Return parameters, transformed parameters and generated quantities by name."""
        point = np.ascontiguousarray(point, float)
        try:
            flat = self.model.param_constrain(point, include_tp=True, include_gq=True)
        except (RuntimeError, ValueError):  # a generated quantity that is not defined there
            flat = np.full(sum(index.size for index in self.everything.values()), np.nan)
            with contextlib.suppress(RuntimeError, ValueError):  # or a draw of the base that overflows
                own = self.model.param_constrain(point)
                flat[: len(own)] = own
        return {name: flat[index] for name, index in self.everything.items()}

    def unconstrain(self, named: Named) -> Row:
        """Return the point of the parameters."""
        flat = np.empty(sum(index.size for index in self.parameters.values()))
        for name, index in self.parameters.items():
            flat[index] = np.asarray(named[name], float)
        return self.model.param_unconstrain(flat)

    def log_likelihoods(self, point: Row) -> Named:
        """Return what brms and others call `log_lik`: the log likelihood of each observation."""
        return {"log_lik": self.constrain(point)["log_lik"]}


def _notes(text: str, where: str, own: _Interpreted) -> tuple[Any, ...]:
    """Return what `~` drops, and what the program leaves out of the normalization of its priors."""
    dropping, generator = _Interpreted(_compiled(text, where), own.data), np.random.default_rng(0)
    shifts: list[float] = []
    for _ in range(_TRIES):
        point = generator.uniform(-_RADIUS, _RADIUS, own.num)
        try:
            with_all, without = own.log_density(point), dropping.log_density(point)
        except RuntimeError:
            continue
        if math.isfinite(with_all) and math.isfinite(without):
            shifts.append(with_all - without)
        if len(shifts) == 2:
            break
    constant = len(shifts) == 2 and abs(shifts[0] - shifts[1]) < _MOST_SHIFT * (1 + abs(shifts[0]))
    notes = [Note.DROPPED(constant=shifts[0])] if constant and abs(shifts[0]) > _MOST_SHIFT else []

    def made(changed: str) -> _Interpreted | None:
        """Return another program with the same data, or None if there is none."""
        try:
            return _Interpreted(_with_constants(changed, where), own.data)
        except QpathsError:
            return None

    return (*notes, *unnormalized(text, own, made))


def _model(program: _Program, notes: tuple[Any, ...]) -> Model:
    base = _Base.of(program)
    shapes = {name: tuple(index.shape) for name, index in program.parameters.items()}

    def log_likelihood(point: Row, data: PyTree = None) -> float:
        rows = np.asarray(point, float)[None]
        return float(program.log_prob(rows)[0] - base.log_prob(rows)[0])

    return Model(
        prior=Density(base.log_prob, base.sample, backend="numpy", batched=True, gradient=base.gradient),
        log_likelihood=log_likelihood,
        data=None,
        constrain=program.constrain,
        unconstrain=program.unconstrain,
        variables=shapes,
        pointwise=program.log_likelihoods if "log_lik" in program.everything else None,
        target=Density(program.log_prob, backend="numpy", batched=True, gradient=program.gradient),
        notes=notes,
    )


class _Base:
    """A Student-t distribution around the draws of short chains, and wider."""

    def __init__(self, center: Row, factor: Matrix):
        self.center, self.factor, self.inverse = center, factor, np.linalg.inv(factor)
        dimension = len(center)
        self.constant = (
            math.lgamma((_DF + dimension) / 2)
            - math.lgamma(_DF / 2)
            - 0.5 * dimension * math.log(_DF * math.pi)
            - float(np.sum(np.log(np.diag(factor))))
        )

    @staticmethod
    def of(program: _Program) -> "_Base":
        rows = _chain_draws(program, np.random.default_rng(0))
        deviations = np.maximum(np.std(rows, axis=0), 1e-8)
        matrix = np.corrcoef(rows.T).reshape(program.dimension, program.dimension)
        # Few draws know the correlations badly: half of them is a compromise that covers.
        matrix = np.where(np.eye(program.dimension, dtype=bool), 1.0, 0.5 * np.nan_to_num(matrix))
        return _Base(rows.mean(axis=0), _WIDER * deviations[:, None] * np.linalg.cholesky(matrix))

    def _standard(self, rows: Matrix) -> Matrix:
        return (np.asarray(rows, float) - self.center) @ self.inverse.T

    def log_prob(self, rows: Matrix) -> Values:
        squares = np.sum(self._standard(rows) ** 2, axis=1)
        return self.constant - 0.5 * (_DF + len(self.center)) * np.log1p(squares / _DF)

    def gradient(self, rows: Matrix) -> Matrix:
        standard = self._standard(rows)
        weights = (_DF + len(self.center)) / (_DF + np.sum(standard**2, axis=1, keepdims=True))
        return -(weights * standard) @ self.inverse

    def sample(self, generator: np.random.Generator) -> Row:
        scale = math.sqrt(_DF / generator.chisquare(_DF))
        return self.center + scale * (self.factor @ generator.standard_normal(len(self.center)))


@quiet()
def _chain_draws(program: _Program, generator: np.random.Generator) -> Matrix:
    """Return draws of short Hamiltonian chains at the density, started as Stan starts its own.

    They need not have arrived: the search for a reference starts from their base.
    """
    position, value, slope = _starts(program, generator)
    num, dimension = position.shape
    begun = time.process_time()
    program.at(position)
    each = _LEAPFROG * max(time.process_time() - begun, 1e-6)
    num_moves = int(np.clip(_SECONDS / each, _FEWEST_MOVES, _MOST_MOVES))
    scale, log_step, kept = np.ones(dimension), math.log(0.1), []
    for move in range(num_moves):
        step = math.exp(log_step) * scale
        momentum = generator.standard_normal(position.shape)
        new, new_value, new_slope, speed = position, value, slope, momentum
        for _ in range(int(generator.integers(1, _LEAPFROG + 1))):
            speed = speed + 0.5 * step * new_slope
            new = new + step * speed
            new_value, new_slope = program.at(new)
            speed = speed + 0.5 * step * new_slope
        gain = new_value - value - 0.5 * np.sum(speed**2 - momentum**2, axis=1)
        chance = np.exp(np.minimum(np.nan_to_num(gain, nan=-np.inf), 0.0))
        taken = generator.random(num) < chance
        position, slope = (np.where(taken[:, None], *pair) for pair in ((new, position), (new_slope, slope)))
        value = np.where(taken, new_value, value)
        log_step += (float(np.mean(chance)) - _ACCEPTED) / math.sqrt(1 + move / 4)
        kept.append(position)
        if move in (num_moves // 4, num_moves // 2):
            scale = np.std(np.concatenate(kept[move // 2 :]), axis=0) + 1e-6
            log_step = math.log(0.2)
    # A chain that is far below the others has not arrived.
    arrived = value > np.median(value) - 10 - dimension
    return np.concatenate([rows[arrived] for rows in kept[num_moves // 2 :]])


def _starts(program: _Program, generator: np.random.Generator) -> tuple[Matrix, Values, Matrix]:
    """Return points with a density, with their log densities and gradients."""
    found: list[tuple[Row, float, Row]] = []
    for _ in range(_CHAINS * _TRIES):
        row = generator.uniform(-_RADIUS, _RADIUS, (1, program.dimension))
        (value,), (slope,) = program.at(row)
        if math.isfinite(value) and np.isfinite(slope).all():
            found.append((row[0], value, slope))
            if len(found) == _CHAINS:
                break
    if not found:
        raise QpathsError(
            f"the Stan program rejects {_CHAINS * _TRIES:,} random starts between -{_RADIUS:g} and {_RADIUS:g}, which "
            f"Stan takes too: check that it has a density anywhere, and bounds of its parameters."
        )
    rows, values, slopes = zip(*found, strict=True)
    return np.stack(rows), np.asarray(values), np.stack(slopes)
