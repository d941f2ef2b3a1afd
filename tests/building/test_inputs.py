"""Documents in: invalid input is refused with a clear message, and odd collections give the expected index."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from conftest import random_docs, refused
from segmax.base import memory
from segmax.base.memory import MemoryLimit
from segmax.building.inputs import open_source, source_name
from segmax.errors import ConfigError, InputError
from segmax.pruning import MaxPostings
from segmax.vectors.rows import SLAB_DOCS


def raw(values: Any, columns: Any, ends: Any, shape: tuple[int, int]) -> sp.csr_matrix:
    """A CSR matrix put together by hand, unchecked."""
    matrix = sp.csr_matrix(shape)
    matrix.data, matrix.indices, matrix.indptr = (np.asarray(part) for part in (values, columns, ends))
    return matrix


# --- files -----------------------------------------------------------------------------------------------------------


def arrays_of(docs: sp.csr_matrix) -> dict[str, Any]:
    """What save_npz puts into a file."""
    return {
        "indices": docs.indices,
        "indptr": docs.indptr,
        "format": np.array(b"csr"),
        "shape": np.array(docs.shape),
        "data": docs.data,
    }


def written(path: Path, docs: sp.csr_matrix, **changes: Any) -> Path:
    """Write a file of save_npz with some arrays changed; None leaves one out."""
    arrays = {**arrays_of(docs), **changes}
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    return path


@pytest.fixture
def docs(rng: np.random.Generator) -> sp.csr_matrix:
    """Some documents with float weights."""
    matrix = random_docs(rng, 60, 30, 5.0).astype(np.float32)
    matrix.data /= 7
    return matrix


def test_files_are_read(tmp_path: Path, docs: sp.csr_matrix) -> None:
    """Whatever save_npz writes: formats, dtypes, compressed or not, 64-bit indices, sparse arrays."""
    expected = segmax.build(docs)._open_arrays
    wide = docs.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    kinds: list[Any] = [
        docs,
        wide,
        sp.csr_array(docs),
        docs.tocsc(),
        docs.tocoo(),
        docs.astype(np.float64),
        docs.tobsr(),
    ]
    for number, matrix in enumerate(kinds):
        for compressed in (False, True):
            path = tmp_path / f"docs{number}{compressed}.npz"
            sp.save_npz(path, matrix, compressed=compressed)
            for name, array in segmax.build(path)._open_arrays.items():
                assert array.tobytes() == expected[name].tobytes(), (matrix.format, name)
    swapped = written(tmp_path / "swapped.npz", docs, data=docs.data.astype(">f4"), indices=docs.indices.astype(">i4"))
    assert (segmax.build(swapped).vectors(range(60)) != segmax.build(docs).vectors(range(60))).nnz == 0


def test_files_are_streamed(tmp_path: Path) -> None:
    """A file comes in slices, and its number of rows is known before."""
    num_docs = 2 * SLAB_DOCS + 5
    docs = random_docs(np.random.default_rng(0), num_docs, 20, 2.0)
    sp.save_npz(tmp_path / "docs.npz", docs)
    source = open_source(str(tmp_path / "docs.npz"), MemoryLimit(None))
    assert source.num_docs == num_docs
    assert [batch.vectors.num_rows for batch in source.batches()] == [SLAB_DOCS, SLAB_DOCS, 5]
    source = open_source([tmp_path / "docs.npz", tmp_path / "docs.npz"], MemoryLimit(None))
    assert source.num_docs == 2 * num_docs
    assert sum(batch.vectors.num_rows for batch in source.batches()) == 2 * num_docs


BAD_FILES: dict[str, tuple[dict[str, Callable[[sp.csr_matrix], Any] | None], str]] = {
    "indptr falls": ({"indptr": lambda d: np.r_[d.indptr[:9], d.indptr[8] - 1, d.indptr[10:]]}, "got a fall at row 8"),
    "indptr too short": ({"indptr": lambda d: d.indptr[:-1]}, "expected 61 entries in indptr, got 60"),
    "indptr too long": ({"indptr": lambda d: np.r_[d.indptr, d.nnz]}, "expected 61 entries in indptr, got 62"),
    "indptr ends early": ({"indptr": lambda d: np.r_[d.indptr[:-1], d.indptr[-2]]}, "as indptr states, got"),
    "indptr ends late": ({"indptr": lambda d: np.r_[d.indptr[:-1], d.nnz + 5]}, "entries up to row 60, got"),
    "indptr starts late": ({"indptr": lambda d: np.r_[1, d.indptr[1:]]}, "expected indptr to start at 0, got 1"),
    "indptr negative": ({"indptr": lambda d: np.r_[-1, d.indptr[1:]]}, "expected indptr to start at 0, got -1"),
    "indptr of floats": ({"indptr": lambda d: d.indptr.astype(float)}, "expected indptr of integer dtype, got float64"),
    "indptr 2-D": ({"indptr": lambda d: d.indptr[:, None]}, "indptr.npy has 2 dimensions instead of one"),
    "fewer weights than terms": ({"data": lambda d: d.data[:-1]}, "expected as many weights as terms, got"),
    "fewer terms than weights": ({"indices": lambda d: d.indices[:-1]}, "expected as many weights as terms, got"),
    "column too large": (
        {"indices": lambda d: np.r_[30, d.indices[1:]]},
        "expected column numbers from 0 to 29, got 30",
    ),
    "column negative": (
        {"indices": lambda d: np.r_[d.indices[:-1], -2]},
        "expected column numbers from 0 to 29, got -2",
    ),
    "columns of floats": ({"indices": lambda d: d.indices * 1.0}, "expected indices of integer dtype, got float64"),
    "weights of text": ({"data": lambda d: d.data.astype(str)}, "expected data of float or integer dtype, got <U"),
    "complex weights": ({"data": lambda d: d.data * 1j}, "expected data of float or integer dtype, got complex64"),
    "weights 2-D": ({"data": lambda d: d.data[None]}, "data.npy has 2 dimensions instead of one"),
    "one number as shape": ({"shape": lambda _: np.array([60])}, "expected a matrix of two dimensions, got shape [60]"),
    "three numbers as shape": ({"shape": lambda _: np.array([60, 30, 1])}, "expected a matrix of two dimensions"),
    "no shape": ({"shape": None}, "expected an .npz file of scipy.sparse.save_npz"),
    "no indptr": ({"indptr": None}, "indptr.npy"),
    "no data": ({"data": None}, "data.npy"),
    "no format": ({"format": None}, "expected an .npz file of scipy.sparse.save_npz"),
    "another format": ({"format": lambda _: np.array(b"xyz")}, "could not be read"),
    "negative shape": ({"shape": lambda _: np.array([-1, 30])}, "docs.npz': "),
    "negative width": ({"shape": lambda _: np.array([60, -30])}, "docs.npz': "),
    "shape of floats": ({"shape": lambda _: np.array([60.5, 30.0])}, "docs.npz': "),
    "shape of text": ({"shape": lambda _: np.array(["a", "b"])}, "docs.npz': "),
    "shape with NaN": ({"shape": lambda _: np.array([np.nan, 30.0])}, "docs.npz': "),
    "negative weight": (
        {"data": lambda d: np.r_[d.data[:-1], -1]},
        "expected finite weights >= 0, got -1.0 in document 59",
    ),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_invalid_files_are_refused(tmp_path: Path, docs: sp.csr_matrix, case: str) -> None:
    """Each is an InputError in words, whatever in the file is wrong; nothing is written."""
    changes, message = BAD_FILES[case]
    path = written(
        tmp_path / "docs.npz",
        docs,
        **{n: change(docs) if change is not None else None for n, change in changes.items()},
    )
    with pytest.raises(InputError) as error:
        segmax.build(path, path=tmp_path / "index")
    assert message in str(error.value)
    assert [entry.name for entry in tmp_path.iterdir()] == ["docs.npz"]


def test_a_file_of_objects(tmp_path: Path, docs: sp.csr_matrix) -> None:
    """Pickles inside are refused, not loaded."""
    for name in ("data", "indices", "indptr", "shape", "format"):
        arrays: dict[str, Any] = arrays_of(docs)
        np.savez(tmp_path / "docs.npz", **{**arrays, name: np.array([{}], dtype=object)})
        with pytest.raises(InputError):
            segmax.build(tmp_path / "docs.npz")


@pytest.mark.parametrize("compressed", [False, True])
def test_damaged_files(tmp_path: Path, docs: sp.csr_matrix, compressed: bool) -> None:
    """Cut short anywhere, or with bytes changed, a file is an InputError, or read as it was."""
    sp.save_npz(tmp_path / "docs.npz", docs, compressed=compressed)
    data = (tmp_path / "docs.npz").read_bytes()
    expected = segmax.build(docs).vectors(range(60))
    rng = np.random.default_rng(1)
    bad = tmp_path / "bad.npz"
    for length in [0, 1, 4, 30, 100, *rng.integers(0, len(data), 40).tolist(), len(data) - 1]:
        bad.write_bytes(data[:length])
        with refused(InputError, where=r"bad\.npz"):
            segmax.build(bad)
    noticed = 0
    for place in rng.integers(0, len(data), 150).tolist():
        bad.write_bytes(data[:place] + bytes([data[place] ^ (1 << int(rng.integers(8)))]) + data[place + 1 :])
        try:
            found = segmax.build(bad).vectors(range(60))
        except InputError:
            noticed += 1
        else:
            assert (found != expected).nnz == 0, place
    assert noticed > 50


def test_files_without_documents_are_refused(tmp_path: Path, docs: sp.csr_matrix) -> None:
    """Text, other archives, folders and names that are not there."""
    (tmp_path / "text.npz").write_text("hello")
    np.save(tmp_path / "dense.npy", np.ones((3, 3)))
    np.savez(tmp_path / "dense.npz", np.ones((3, 3)))
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("a.txt", "hello")
    (tmp_path / "folder.npz").mkdir()
    for name in ("text.npz", "dense.npy", "dense.npz", "other.zip"):
        with refused(InputError, where=name, expected=r"an \.npz file of scipy\.sparse\.save_npz"):
            segmax.build(tmp_path / name)
    for name in ("folder.npz", "none.npz", ""):
        with refused(InputError, message="there is no file '.*'", hint="check the path"):
            segmax.build(str(tmp_path / name))
    sp.save_npz(tmp_path / "good.npz", docs)
    with refused(InputError, message="there is no file"):
        segmax.build([tmp_path / "good.npz", tmp_path / "none.npz"])


def test_a_file_that_may_not_be_read(tmp_path: Path, docs: sp.csr_matrix, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the system about a file becomes an InputError with the name of the file."""
    sp.save_npz(tmp_path / "docs.npz", docs)

    real = io.open

    def refuse(file: Any, *arguments: Any, **options: Any) -> Any:
        if str(file).endswith("docs.npz"):
            raise PermissionError(13, "Permission denied")
        return real(file, *arguments, **options)

    monkeypatch.setattr(io, "open", refuse)
    with refused(InputError, where=r"docs\.npz", message="could not be read .Permission denied"):
        segmax.build(tmp_path / "docs.npz")


def test_an_encrypted_file(tmp_path: Path, docs: sp.csr_matrix) -> None:
    """A member marked as encrypted is refused."""
    sp.save_npz(tmp_path / "docs.npz", docs, compressed=False)
    data = bytearray((tmp_path / "docs.npz").read_bytes())
    for magic, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = data.find(magic)
        while place >= 0:
            data[place + offset] |= 1
            place = data.find(magic, place + 4)
    (tmp_path / "docs.npz").write_bytes(bytes(data))
    with refused(InputError, where=r"docs\.npz"):
        segmax.build(tmp_path / "docs.npz")


def test_files_of_different_width(tmp_path: Path, docs: sp.csr_matrix) -> None:
    """All files have the same columns."""
    sp.save_npz(tmp_path / "one.npz", docs)
    sp.save_npz(tmp_path / "two.npz", docs[:, :29])
    with refused(InputError, expected="30 columns in every batch", got="29"):
        segmax.build([tmp_path / "one.npz", tmp_path / "two.npz"])


def test_bad_weights_in_files_name_the_row(tmp_path: Path) -> None:
    """Rows are counted over slices and files."""
    good = sp.csr_matrix(np.ones((SLAB_DOCS + 10, 2), np.float32))
    bad = good.copy()
    bad.data[2 * (SLAB_DOCS + 3) + 1] = np.nan
    sp.save_npz(tmp_path / "good.npz", good, compressed=False)
    sp.save_npz(tmp_path / "bad.npz", bad, compressed=False)
    row = SLAB_DOCS + 10 + SLAB_DOCS + 3
    with refused(InputError, got=f"nan in document {row}, term 1"):
        segmax.build([tmp_path / "good.npz", tmp_path / "bad.npz"])


# --- matrices --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "ends", "parts"),
    [
        ([0, 1, 2], [0, 2, 1], {"got": "an indptr that does not ascend from 0"}),
        ([0, 1, 2], [0, 2], {"got": "an indptr that does not ascend from 0"}),
        ([0, 1, 2], [1, 2, 3], {"got": "an indptr that does not ascend from 0"}),
        ([0, 1, 2], [0, 2, 4], {"got": "an indptr that does not ascend from 0"}),
        ([0, 1, 3], [0, 2, 3], {"expected": "column numbers from 0 to 2", "got": "3"}),
        ([0, -1, 2], [0, 2, 3], {"expected": "column numbers from 0 to 2", "got": "-1"}),
        ([0, 1], [0, 2, 3], {"got": "an indptr that does not ascend from 0"}),
    ],
)
@pytest.mark.parametrize("batches", [False, True])
def test_invalid_matrices_are_refused(
    columns: list[int], ends: list[int], parts: dict[str, str], batches: bool
) -> None:
    """A malformed matrix is refused, alone and as a batch."""
    matrix = raw([1.0, 2.0, 3.0], columns, ends, (2, 3))
    with refused(InputError, **parts):
        segmax.build(iter([sp.csr_matrix((2, 3)), matrix]) if batches else matrix)


@pytest.mark.parametrize("dtype", [object, np.complex64, "U3", "S3", "datetime64[D]"])
@pytest.mark.parametrize("batches", [False, True])
def test_weights_that_are_no_numbers(dtype: Any, batches: bool) -> None:
    """Only floats, integers and truth values are weights."""
    matrix = raw(np.array([1, 2]).astype(dtype), [0, 1], [0, 1, 2], (2, 3))
    with refused(InputError, expected="weights of a float or integer dtype"):
        segmax.build([matrix] if batches else matrix)


@pytest.mark.parametrize("dtype", [">f4", ">f8", ">i4", ">u2", "f2", "g"])
@pytest.mark.parametrize("repeated", [False, True])
def test_unusual_numbers(dtype: str, repeated: bool) -> None:
    """Another byte order, half and extended precision are numbers all the same, also where terms repeat."""
    columns = [2, 2, 0] if repeated else [0, 2, 0]
    index = segmax.build(raw(np.array([1, 2, 3], dtype), columns, [0, 2, 3], (2, 3)))
    expected = [[0, 0, 3], [3, 0, 0]] if repeated else [[1, 0, 2], [3, 0, 0]]
    assert index.vectors([0, 1]).toarray().tolist() == expected


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf, -np.inf, -0.5])
@pytest.mark.parametrize("row", [0, 999, 1_000, 2_345, 39_999])
def test_bad_weights_name_the_row_of_the_collection(weight: float, row: int) -> None:
    """Row numbers are those of the collection, not of the batch."""
    docs = sp.csr_matrix(np.ones((40_000, 2)))
    docs.data[2 * row + 1] = weight
    sizes = [1_000, 0, 20_000, 19_000]
    batches = [docs[stop - size : stop] for size, stop in zip(sizes, np.cumsum(sizes), strict=True)]
    for vectors in (docs, iter(batches)):
        with pytest.raises(InputError) as error:
            segmax.build(vectors)
        assert f"expected finite weights >= 0, got {weight} in document {row}, term 1" in str(error.value)


def test_a_sum_that_overflows() -> None:
    """Repeated terms whose sum is no finite number are no weight."""
    docs = raw([1.0, 1e308, 1e308], [0, 1, 1], [0, 1, 3], (2, 2))
    with refused(InputError, expected="finite weights >= 0", got="inf in document 1, term 1"):
        segmax.build(docs)


@pytest.mark.parametrize(
    "vectors",
    [
        np.ones((2, 2)),
        np.ones(3),
        [np.ones(3)],
        [[1, 2]],
        [1, 2],
        5,
        None,
        b"x.npz",
        {0: 1.0},
        [None],
        ["a", 3],
        range,
    ],
    ids=str,
)
def test_things_that_are_no_documents(vectors: Any) -> None:
    """Dense arrays, plain lists and other objects are refused with what was expected."""
    with refused(InputError, expected="documents as|a scipy sparse matrix|paths"):
        segmax.build(vectors)


def test_batches_of_different_width() -> None:
    """The batch is named; an empty batch has a width, too."""
    for second in (sp.csr_matrix((2, 4)), sp.csr_matrix((0, 4))):
        with refused(InputError, expected="5 columns in every batch", got="4 in batch 1"):
            segmax.build([sp.csr_matrix((2, 5)), second])


@pytest.mark.deep
def test_torch_batches() -> None:
    """Tensors may be batches."""
    torch = pytest.importorskip("torch")
    tensor = torch.tensor([[1.0, 0.0], [2.0, 3.0]]).to_sparse()
    assert segmax.build([tensor, tensor]).vectors(range(4)).toarray().tolist() == [[1, 0], [2, 3]] * 2


# --- odd collections -------------------------------------------------------------------------------------------------


def empty_file(folder: Path) -> Path:
    """A file of a matrix without rows."""
    sp.save_npz(folder / "empty.npz", sp.csr_matrix((0, 4)))
    return folder / "empty.npz"


@pytest.mark.parametrize(
    "make",
    [
        lambda _: sp.csr_matrix((0, 5)),
        lambda _: sp.csr_matrix((0, 0)),
        lambda _: iter([]),
        lambda _: [],
        lambda _: (),
        lambda _: [sp.csr_matrix((0, 5))] * 3,
        empty_file,
        lambda folder: [empty_file(folder)] * 2,
    ],
)
def test_an_empty_collection(tmp_path: Path, make: Callable[[Path], Any]) -> None:
    """There is no index of no documents."""
    with refused(InputError, expected="at least one document", got="an empty collection"):
        segmax.build(make(tmp_path), path=tmp_path / "index")
    assert not (tmp_path / "index").exists()


CONFIGS: list[dict[str, Any]] = [
    {},
    {"num_clusters": 3},
    {"num_clusters": 3, "segmentation": "kmeans"},
    {"num_clusters": 100, "segmentation": "independent", "bits": 16, "compact": True},
    {"document_order": "row", "pruning": MaxPostings(count=1)},
]


def opened_both(docs: Any, tmp_path: Path, **config: Any) -> Iterator[segmax.Index]:
    """The index in memory, then the one from disk, checked in full."""
    options = segmax.BuildConfig(**config)
    yield segmax.build(docs, config=options)
    segmax.build(docs, config=options, path=tmp_path / "index").close()
    yield segmax.open(tmp_path / "index", verify=True)


@pytest.mark.filterwarnings("ignore:all .* documents are empty:segmax.errors.SegmaxWarning")
@pytest.mark.parametrize("config", CONFIGS, ids=str)
@pytest.mark.parametrize("columns", [0, 7])
def test_only_documents_without_terms(tmp_path: Path, config: dict[str, Any], columns: int) -> None:
    """They are in the index, and never found; also where there are no columns at all."""
    for index in opened_both(sp.csr_matrix((50, columns)), tmp_path, **config):
        assert (index.num_docs, index.num_terms, index.num_postings) == (50, columns, 0)
        assert index.num_clusters == min(config.get("num_clusters", 1), 50)
        assert index.cluster_sizes().sum() == 50
        assert len(index.search({0: 1.0, 3: 2.0})) == 0
        assert index.score({0: 1.0}, [0, 49]).tolist() == [0, 0]
        assert index.vectors([0, 49]).nnz == 0


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_some_documents_without_terms(tmp_path: Path, config: dict[str, Any]) -> None:
    """Empty documents are never found, and do no harm."""
    docs = sp.csr_matrix(np.diag([0, 3, 0, 2, 0, 0, 7, 0]))
    for index in opened_both(docs, tmp_path, **config):
        hits = index.search(dict.fromkeys(range(8), 1.0))
        assert hits.rows.tolist() == [6, 1, 3]
        assert index.cluster_sizes().sum() == 8


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_one_document(tmp_path: Path, config: dict[str, Any]) -> None:
    """The smallest collection."""
    for index in opened_both(sp.csr_matrix([[1.5, 0, 2]]), tmp_path, **config):
        assert index.num_clusters == 1
        assert index.search({2: 1.0}).rows.tolist() == [0]
        assert index.search({2: 1.0}).scores.tolist() == pytest.approx([2])


@pytest.mark.parametrize("clusters", [40, 41, 10**6])
def test_as_many_clusters_as_documents(rng: np.random.Generator, clusters: int) -> None:
    """Every document is a cluster of its own: there are no more clusters than documents."""
    docs = random_docs(rng, 40, 30, 5.0)
    index = segmax.build(docs, config=segmax.BuildConfig(num_clusters=clusters))
    assert index.cluster_sizes().tolist() == [1] * 40
    query = dict.fromkeys(range(30), 1)
    expected = segmax.build(docs, config=segmax.BuildConfig(num_clusters=1)).search(query, k=40)
    assert list(index.search(query, k=40)) == list(expected)


def test_more_clusters_than_fit_one_level() -> None:
    """The same for k-means in two levels."""
    docs = random_docs(np.random.default_rng(0), 1_500, 300, 5.0)
    index = segmax.build(docs, config=segmax.BuildConfig(num_clusters=1_500))
    assert index.cluster_sizes().tolist() == [1] * 1_500


@pytest.mark.parametrize("num_clusters", [1, 7, 30, pytest.param(700, marks=pytest.mark.deep)])
def test_one_document_many_times(num_clusters: int) -> None:
    """K-means cannot separate copies; clusters are even all the same, and results are the first rows."""
    docs = sp.csr_matrix(np.tile([3, 0, 5, 1], (7_000, 1)))
    index = segmax.build(docs, config=segmax.BuildConfig(num_clusters=num_clusters, segmentation="kmeans"))
    sizes = index.cluster_sizes()
    assert len(sizes) == num_clusters
    assert sizes.max() <= 3 * 7_000 / num_clusters
    assert sizes.min() >= 1
    assert index.search({2: 1.0}, k=5).rows.tolist() == [0, 1, 2, 3, 4]


def test_a_document_with_very_many_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    """One row may be larger than a slab."""
    from segmax.building import spool

    monkeypatch.setattr(spool, "SLAB_POSTINGS", 1_000)
    docs = sp.vstack([sp.csr_matrix(np.ones((1, 70_000))), sp.random(30, 70_000, 0.001, random_state=0)], format="csr")
    index = segmax.build(docs, config=segmax.BuildConfig(num_clusters=3))
    assert index.num_postings == docs.nnz
    assert index.search({69_999: 1.0}).rows.tolist()[0] == 0


#: What a process holds in the tests of memory_limit, whatever else it has done before.
HELD = 100 * 2**20


@pytest.fixture
def small_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that holds 100 MiB."""
    monkeypatch.setattr(memory, "anonymous_memory", lambda: HELD)


@pytest.mark.usefixtures("small_process")
@pytest.mark.deep
def test_tables_have_to_fit_into_memory(tmp_path: Path) -> None:
    """Tables of terms and of documents, and files that are read whole, need a limit that holds them."""
    limit = "256MiB"
    got = "256 MiB: this process holds 100 MiB already and needs"
    with refused(
        ConfigError,
        option="memory_limit",
        expected="at least 1,732 MiB",
        got=f"{got} 1,600 MiB more for tables of 16,777,216 terms",
    ):
        segmax.build(sp.csr_matrix(([1.0], ([0], [5])), shape=(2, 2**24)), memory_limit=limit)
    tiny = (sp.csr_matrix((500_000, 3)) for _ in range(8))
    with refused(ConfigError, got=f"{got} 275 MiB more for tables of 4,000,000 documents"):
        segmax.build(tiny, memory_limit=limit)
    sp.save_npz(tmp_path / "docs.npz", sp.csc_matrix(np.ones((2_000, 3_000))))
    with refused(ConfigError, got=rf"{got} \d+ MiB more for '.*docs.npz', which is CSC and read whole"):
        segmax.build(tmp_path / "docs.npz", memory_limit=limit)


@pytest.mark.usefixtures("small_process")
@pytest.mark.deep
def test_the_limit_that_a_message_names_is_enough() -> None:
    """Who sets what the message asks for gets an index."""
    docs = sp.csr_matrix(([1.0], ([0], [5])), shape=(2, 2**21))
    with refused(ConfigError, expected="at least 332 MiB", got="256 MiB"):
        segmax.build(docs, memory_limit="256MiB")
    assert segmax.build(docs, memory_limit="332MiB").num_docs == 2


def test_a_process_that_already_holds_more_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message blames the process, not the collection, and comes before anything is read."""
    monkeypatch.setattr(memory, "anonymous_memory", lambda: 300 * 2**20)

    def batches() -> Iterator[sp.csr_matrix]:
        raise AssertionError("read")
        yield

    with pytest.raises(ConfigError) as error:
        segmax.build(batches(), memory_limit="256MiB")
    assert str(error.value) == (
        "expected memory_limit to be at least 556 MiB, got 256 MiB: this process holds 300 MiB before the build starts"
    )
    assert segmax.build(sp.csr_matrix([[1, 2]]), memory_limit="556MiB").num_docs == 1
    assert segmax.build(sp.csr_matrix([[1, 2]])).num_docs == 1  # the default leaves room beside what is held


def test_memory_of_the_process_is_measured() -> None:
    """The same with real memory: 300 MiB that the caller holds."""
    ballast = np.ones(300 * 2**17)
    with refused(ConfigError, got=r"256 MiB: this process holds \d[\d,]+ MiB before the build starts"):
        segmax.build(sp.csr_matrix([[1, 2, 3]]), memory_limit="256MiB")
    assert ballast[-1] == 1.0


def test_the_message_names_what_was_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A batch that takes more than the limit is the reason, not the small tables that come next."""
    held = [HELD]
    monkeypatch.setattr(memory, "anonymous_memory", lambda: held[0])

    def batches() -> Iterator[sp.csr_matrix]:
        held[0] = 3544 * 2**20
        yield sp.csr_matrix([[1.0], [2.0]])

    with pytest.raises(ConfigError) as error:
        segmax.build(batches(), memory_limit="1GiB")
    assert str(error.value) == (
        "expected memory_limit to be at least 3,800 MiB, got 1,024 MiB: this process holds 3,544 MiB, 3,444 MiB of it "
        "since the build started to read: 2 documents of the given generator; or read less at a time"
    )


def test_sources_have_names() -> None:
    """Messages call documents by their file, or by what they came as."""
    assert source_name("a.npz") == "'a.npz'"
    assert source_name(["a.npz", Path("b.npz")]) == "'a.npz', 'b.npz'"
    assert source_name(["a", "b", "c"]) == "'a', 'b' and others"
    assert source_name([sp.csr_matrix([[1]])]) == "the given list"
