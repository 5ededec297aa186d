"""Files: what comes back is what was saved, and every other file is refused in words."""

import dataclasses
import errno
import json
import subprocess
import sys
import zipfile
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.core.cost import Cost
from qpaths.io import Codec, read, write


def _result(samples, dtype=jnp.float64):
    num = jax.tree.leaves(samples)[0].shape[0]
    names = ("beta", "ess", "acceptance", "step_size", "log_evidence", "derivative_mean", "derivative_variance")
    return qp.Result(
        log_evidence=jnp.asarray(-1 / 3, dtype),
        log_evidence_se=jnp.asarray(1 / 7, dtype),
        samples=samples,
        log_weights=jnp.where(jnp.arange(num) == 0, -jnp.inf, jnp.linspace(-1, 0.1, num)).astype(dtype),
        betas=jnp.asarray([0.0, 0.1, 1.0], dtype),
        stats={name: jnp.asarray([jnp.nan, 1 / 3], dtype) for name in names},
        status=jnp.zeros((), int),
        num_evaluations=Cost(1, 2, 3, 4_000_000_000_000),
        algorithm="SMC",
    )


class _Point(NamedTuple):
    mean: Any
    scale: Any


ARRAY = jnp.linspace(0, 1, 8).reshape(4, 2) / 3
POINTS = {
    "array": ARRAY,
    "float32": ARRAY.astype(jnp.float32),
    "bfloat16": ARRAY.astype(jnp.bfloat16),
    "dictionary": {"w": ARRAY, "a/b": {"": ARRAY[:, 0]}, "a": {"b": ARRAY, "file": ARRAY}, "header": ARRAY},
    "numbered": {3: ARRAY, 1: jnp.arange(4)},
    "tuple": (ARRAY, [ARRAY[:, :1], None, ()], {"µ": (ARRAY,)}),
}


def _assert_same(left, right):
    assert jax.tree.structure(left) == jax.tree.structure(right)
    for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b), strict=True)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "result.npz"


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("samples", POINTS.values(), ids=POINTS)
def test_a_result_comes_back_as_it_was(samples, dtype, file):
    result = _result(samples, dtype)
    result.save(file)
    loaded = qp.load_result(str(file))
    _assert_same(loaded, result)
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(loaded))
    assert (loaded.summary(), loaded.num_evaluations) == (result.summary(), result.num_evaluations)


def test_bounds_come_back_as_they_were(file):
    half = jnp.asarray(0.5)
    bounds = qp.results.BoundsResult(
        half, 2 * half, 3 * half, 4 * half, _result(ARRAY), _result({"w": ARRAY}, jnp.float32)
    )
    bounds.save(file)
    loaded = qp.load_result(file)
    _assert_same(loaded, bounds)
    assert loaded.summary() == bounds.summary()


def test_points_of_a_class_come_back_as_dictionaries(file):
    _result(_Point(ARRAY, (ARRAY,))).save(file)
    _assert_same(qp.load_result(file).samples, {"mean": ARRAY, "scale": (ARRAY,)})


def test_numbers_are_not_rounded_without_x64(file, tmp_path):
    _result({"w": ARRAY, "single": ARRAY.astype(jnp.float32)}).save(file)
    program = f"""
import jax, qpaths
result = qpaths.load_result({str(file)!r})
print(result.log_evidence.dtype, float(result.log_evidence) == -1 / 3, type(result.samples["single"]).__name__)
result.summary()
result.save({str(tmp_path / "again.npz")!r})
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["float64", "True", "ArrayImpl"], done.stderr
    _assert_same(qp.load_result(tmp_path / "again.npz"), qp.load_result(file))


def test_the_format_is_the_documented_one(file):
    """Readable without qpaths: an .npz archive with a header in JSON."""
    _result({"w": ARRAY}).save(file)
    with np.load(file, allow_pickle=False) as arrays:
        header = json.loads(str(arrays["header"]))
        np.testing.assert_array_equal(arrays["samples/w"], ARRAY)
    assert (header["format"], header["version"], header["kind"]) == ("qpaths-result", 1, "result")
    assert header["qpaths"] == qp.__version__
    fields = header["tree"]["fields"]
    assert (header["tree"]["class"], fields["algorithm"], fields["verdict"]) == (
        *("Result", {"value": "SMC"}, {"value": None}),
    )
    counts = {name: {"value": num} for name, num in dataclasses.asdict(Cost(1, 2, 3, 4 * 10**12)).items()}
    assert fields["num_evaluations"] == {"class": "Cost", "fields": counts}
    assert fields["samples"] == {"dict": [["w", {"array": "samples/w", "dtype": "float64"}]]}


def _foreign_files(file):
    np.savez(file, a=np.ones(3))
    npz = file.read_bytes()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.txt", "text")
    return {"it is empty": b"", "begins with": b"PNG", "no header": npz, "has no header": file.read_bytes()}


def test_foreign_files_are_refused(file):
    for message, contents in _foreign_files(file).items():
        file.write_bytes(contents)
        with pytest.raises(ValueError, match=f"not a file of qpaths.*{message}"):
            qp.load_result(file)
    with pytest.raises(FileNotFoundError):
        qp.load_result(file.with_name("missing.npz"))


def test_other_formats_versions_and_kinds_are_refused(file):
    header = {"format": "qpaths-result", "version": 1, "kind": "result", "qpaths": "9.9"}
    for change, message in [
        ({"format": "other"}, "its format is 'other'"),
        ({"version": 2}, "version 2 of the format, and this is version 1: read it with qpaths 9.9"),
        ({"kind": "checkpoint"}, r"holds a checkpoint, and result or bounds is wanted.*qpaths.drive"),
        ({}, "damaged"),
    ]:
        np.savez(file, header=np.array(json.dumps(header | change)))
        with pytest.raises(ValueError, match=message):
            qp.load_result(file)


def test_a_damaged_file_is_refused_wherever_the_damage_is(file):
    result = _result({"w": ARRAY})
    result.save(file)
    whole = file.read_bytes()
    for length in [4, 100, len(whole) // 2, len(whole) - 30, len(whole) - 1]:
        file.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="damaged or cut short"):
            qp.load_result(file)
    refused = 0
    for place in range(0, len(whole), 41):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            loaded = qp.load_result(file)
        except ValueError:
            refused += 1
        else:  # dates and names that nobody reads
            _assert_same(loaded, result)
    assert refused > len(whole) / 41 / 2


def test_pickles_are_neither_written_nor_read(file):
    np.savez(file, header=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        qp.load_result(file)
    with pytest.raises(TypeError, match="only arrays of numbers can be stored, got object at a"):
        write(file, "result", {"a": object()}, Codec())


def test_a_full_disk_leaves_the_old_file(file, monkeypatch):
    result = _result(ARRAY)
    result.save(file)

    def full_disk(target, **arrays):
        target.write(b"PK")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full_disk)
    with pytest.raises(OSError, match="No space left"):
        _result({"w": ARRAY}).save(file)
    _assert_same(qp.load_result(file), result)
    assert [p.name for p in file.parent.iterdir()] == ["result.npz"]


def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch):
    """Half of the bytes are written, and then there is no room."""
    file = tmp_path / "state.npz"
    write(file, "result", {"number": 1, "x": np.zeros(3)}, Codec())

    def full(file, **arrays):
        file.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(
        OSError, match=r"could not be written \(No space left on device\): what was there before is unch"
    ):
        write(file, "result", {"number": 2, "x": np.ones(3)}, Codec())
    monkeypatch.undo()
    assert read(file, ("result",), Codec())["number"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["state.npz"]
    with pytest.raises(FileNotFoundError):
        write(tmp_path / "missing" / "state.npz", "result", {}, Codec())
