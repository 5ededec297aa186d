"""Files: what comes back is what was saved, and every other file is refused in words."""

import dataclasses
import errno
import json
import os
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
from qpaths.resampling import thinned


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

    monkeypatch.setattr(np, "savez_compressed", full_disk)
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


def test_a_file_holds_some_thousand_draws_and_the_summary_of_all(file):
    """Every island keeps its evidence and as many draws as the others."""
    generator = np.random.default_rng(0)
    log_weights = generator.normal(0.0, 1.0, (4, 1000))
    log_weights[:, ::9] = -np.inf
    samples = {"w": jnp.asarray(generator.normal(size=(4000, 10)))}
    result = dataclasses.replace(
        _result(samples), log_weights=jnp.asarray(log_weights.ravel()), islands={"log_evidence": np.zeros(4)}
    )
    result.save(file, draws=800)
    loaded = qp.load_result(file)
    assert (loaded.log_weights.shape, loaded.samples["w"].shape) == ((800,), (800, 10))
    assert loaded.summary().splitlines()[:3] == result.summary().splitlines()[:3]
    mean = np.mean(np.exp(log_weights), axis=1)
    np.testing.assert_allclose(np.mean(np.exp(np.reshape(loaded.log_weights, (4, 200))), axis=1), mean)
    assert set(np.asarray(loaded.samples["w"][:, 0])) <= set(np.asarray(samples["w"][:, 0]))
    # Equal weights as nearly as can be: 800 draws of which the largest weights alone are unequal.
    assert float(loaded.ess) > 600
    result.save(file, draws=None)
    _assert_same(qp.load_result(file), result)


def test_the_summary_of_a_file_is_that_of_the_run(file):
    """Also its intervals, which are those of the draws that a file holds."""
    generator = np.random.default_rng(0)
    log_weights = jnp.asarray(generator.normal(size=20_000))
    result = dataclasses.replace(_result({"w": generator.normal(size=20_000)}), log_weights=log_weights)
    result.save(file)
    assert qp.load_result(file).log_weights.shape == (16_000,)
    assert qp.load_result(file).summary() == result.summary()


def test_thinned_draws_estimate_without_bias():
    generator = np.random.default_rng(0)
    for scale in (0.0, 1.0, 4.0):
        log_weights, x = generator.normal(0.0, scale, 4000), generator.normal(size=4000)
        kept, new = thinned(log_weights, 500)
        old, weights = (np.exp(one) / np.exp(one).sum() for one in (log_weights, new))
        assert len(set(kept)) == 500
        # The part that is drawn has at most the variance of 500 equally weighted draws.
        assert abs(old @ x - weights @ x[kept]) < 5 * 500**-0.5
        np.testing.assert_allclose(np.mean(np.exp(new)), np.mean(np.exp(log_weights)))
        assert new.max() <= log_weights.max() + np.log(4000 / 500) + 1e-9


def test_a_file_of_ten_parameters_has_two_megabytes(file):
    generator = np.random.default_rng(0)
    points = {f"p{i}": generator.normal(size=10_000) for i in range(10)}
    named = {name: np.exp(leaf) if name < "p5" else leaf for name, leaf in points.items()}
    result = dataclasses.replace(
        _result(named), log_weights=generator.normal(size=10_000), unconstrained=points, samples=named
    )
    result.save(file)
    assert file.stat().st_size < 2e6
    with np.load(file) as arrays:  # an array that is twice there is stored once
        assert not any(f"unconstrained/p{i}" in arrays for i in range(5, 10))
    np.testing.assert_array_equal(qp.load_result(file).unconstrained["p7"], points["p7"])


def test_modes_and_links_stay(file, tmp_path):
    result = _result(ARRAY)
    result.save(file)
    file.chmod(0o600)
    link = tmp_path / "link.npz"
    link.symlink_to(file)
    result.save(link)
    assert link.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o600
    _assert_same(qp.load_result(link), result)
    # A link under the temporary name is not written through.
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / f".result.{os.getpid()}.part.npz").symlink_to(victim)
    result.save(file)
    assert victim.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.npz", "result.npz", "victim"]


def test_pipes_and_devices_are_no_files(tmp_path):
    pipe = tmp_path / "pipe.npz"
    os.mkfifo(pipe)
    with pytest.raises(ValueError, match=r"pipe.npz` is a device or a pipe"):
        qp.load_result(pipe)
    with pytest.raises(OSError, match=r"pipe.npz` is a device or a pipe"):
        _result(ARRAY).save(pipe)
    assert pipe.is_fifo()
    with pytest.raises(OSError, match="/dev/null` is a device"):
        _result(ARRAY).save("/dev/null")


def test_a_file_that_expands_to_more_than_it_says_is_not_expanded(file, monkeypatch):
    _result(ARRAY).save(file)
    with np.load(file) as arrays:
        header = json.loads(str(arrays["header"]))
    for said in ({"bytes": 1000}, {"bytes": None}):
        changed = {name: value for name, value in (header | said).items() if value is not None}
        np.savez_compressed(file, header=np.array(json.dumps(changed)), samples=np.zeros(10**6))
        monkeypatch.setattr(Codec, "decode", lambda *_: pytest.fail("was read"))
        with pytest.raises(ValueError, match=r"result.npz` is damaged.*it expands to 8,000,\d+ bytes, and says"):
            qp.load_result(file)


IMPOSSIBLE = {
    "NaN": {"log_evidence": np.asarray(np.nan)},
    "vector": {"log_evidence": np.zeros(2)},
    "complex": {"log_evidence": np.asarray(1j)},
    "text": {"log_evidence": "one"},
    "negative error": {"log_evidence_se": np.asarray(-0.1)},
    "too few weights": {"log_weights": np.zeros(3)},
    "status": {"status": np.asarray(99)},
    "evaluations": {"num_evaluations": Cost(-1)},
    "verdict": {"verdict": "excellent"},
    "stats": {"stats": {}},
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_impossible_results_do_not_load(name, file):
    """Files that somebody made by hand: each is refused with its name."""
    result = _result(ARRAY)
    for field, value in IMPOSSIBLE[name].items():
        object.__setattr__(result, field, value)
    write(file, "result", result, qp.results._CODEC)
    with pytest.raises(ValueError, match=r"result.npz` is damaged"):
        qp.load_result(file)


def test_a_result_that_says_it_is_wrong_loads(file):
    with pytest.warns(UserWarning, match="is nan"):
        result = dataclasses.replace(_result(ARRAY), log_evidence=np.asarray(np.nan))
    result.save(file)
    assert qp.load_result(file).verdict.level == "wrong"


def test_a_file_of_an_earlier_version_lacks_new_fields(file):
    codec = Codec((_Later,))
    write(file, "result", _Later(1), codec)
    with np.load(file) as arrays:
        header = json.loads(str(arrays["header"]))
    del header["tree"]["fields"]["added"]
    np.savez(file, header=np.array(json.dumps(header)))
    assert read(file, ("result",), codec) == _Later(1)


@dataclasses.dataclass(frozen=True)
class _Later:
    first: int
    added: int = 7
