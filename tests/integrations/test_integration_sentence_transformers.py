"""The search function beside those of sentence-transformers: tensors as they come, decoded lists, its own model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import segmax
from conftest import random_docs, refused
from integration_samples import run_documented
from segmax.base.errors import InputError
from segmax.integrations.sentence_transformers import semantic_search_segmax

QUIET = {"progress": False}


def vectors(rng: np.random.Generator) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """A corpus and queries with weights that half precision holds exactly."""
    return random_docs(rng, 300, 40).astype(np.float32), random_docs(rng, 20, 40, largest=16).astype(np.float32)


def by_hand(queries: sp.csr_matrix, corpus: sp.csr_matrix, top_k: int) -> list[list[dict[str, float]]]:
    """The contract, by multiplying matrices."""
    products = (queries @ corpus.T).toarray()
    order = np.argsort(-products, axis=1, kind="stable")[:, :top_k]
    return [
        [{"corpus_id": int(row), "score": float(scores[row])} for row in rows if scores[row] > 0]
        for rows, scores in zip(order, products, strict=True)
    ]


def decoded(matrix: sp.csr_matrix) -> list[list[tuple[str, float]]]:
    """What SparseEncoder.decode would make of the rows: pairs of token and weight, the heaviest first."""
    rows = []
    for row in matrix:
        pairs = [(f"tok{term}", float(weight)) for term, weight in zip(row.indices, row.data, strict=True)]
        rows.append(sorted(pairs, key=lambda pair: -pair[1]))
    return rows


@pytest.mark.parametrize("top_k", [1, 7, 1000])
def test_scipy_and_decoded_agree_with_multiplication(rng: np.random.Generator, top_k: int) -> None:
    """Both forms give the rows and scores of the product, best first, and seconds."""
    corpus, queries = vectors(rng)
    wanted = by_hand(queries, corpus, top_k)
    for asked, searched in ((queries, corpus), (decoded(queries), decoded(corpus))):
        results, seconds = semantic_search_segmax(asked, searched, top_k=top_k, index_kwargs=QUIET)
        assert results == wanted
        assert type(results[0][0]["corpus_id"]) is int
        assert type(results[0][0]["score"]) is float
        assert seconds > 0


def test_the_index_comes_back_and_serves_again(rng: np.random.Generator, tmp_path: Path) -> None:
    """An index from one call, or its path, is searched by the next; a corpus beside it is not looked at."""
    corpus, queries = vectors(rng)
    path = tmp_path / "corpus.segmax"
    options = {**QUIET, "path": path}
    results, _, index = semantic_search_segmax(queries, corpus, output_index=True, index_kwargs=options)
    assert isinstance(index, segmax.Index)
    for again in (index, path, str(path)):
        found, _, same = semantic_search_segmax(queries, "no corpus", again, output_index=True)
        assert found == results
        assert same.num_docs == index.num_docs


def test_options_reach_build_and_search(rng: np.random.Generator) -> None:
    """Options of build and of search_batch do what they do there; corpus_id stays the row where ids are given."""
    corpus, queries = vectors(rng)
    options = {**QUIET, "ids": [f"doc{i}" for i in range(300)], "config": segmax.BuildConfig(bits=16)}
    results, _, index = semantic_search_segmax(
        queries,
        corpus,
        output_index=True,
        index_kwargs=options,
        search_kwargs={"params": segmax.Exhaustive(), "threads": 2},
    )
    assert results == by_hand(queries, corpus, 10)
    assert (index.bits, index.search(queries[0], k=1).ids) == (16, [f"doc{results[0][0]['corpus_id']}"])


def test_a_single_query_and_none(rng: np.random.Generator) -> None:
    """One decoded embedding is one query, as decode returns it; an empty list asks nothing."""
    corpus, queries = vectors(rng)
    wanted = by_hand(queries[:1], corpus, 10)
    assert semantic_search_segmax(decoded(queries)[0], decoded(corpus), index_kwargs=QUIET)[0] == wanted
    assert semantic_search_segmax([], decoded(corpus), index_kwargs=QUIET)[0] == []
    assert semantic_search_segmax([[]], decoded(corpus), index_kwargs=QUIET)[0] == [[]]


def test_a_token_that_occurs_twice_counts_twice() -> None:
    """Repeated tokens are summed on both sides; unknown ones find nothing."""
    corpus = [[("a", 1.0), ("a", 2.0)], [("b", 4.0)]]
    results, _ = semantic_search_segmax(
        [[("b", 1.0), ("b", 1.0), ("z", 9.0)], [("a", 1.0)]], corpus, index_kwargs=QUIET
    )
    assert results == [[{"corpus_id": 1, "score": 8.0}], [{"corpus_id": 0, "score": 3.0}]]


def test_mismatched_embeddings_are_refused(rng: np.random.Generator) -> None:
    """No corpus, sides that do not fit together and things that are no embeddings raise InputError."""
    corpus, queries = vectors(rng)
    with refused(InputError, expected="corpus_embeddings or corpus_index", got="neither"):
        semantic_search_segmax(queries)
    with refused(InputError, expected="queries of 40 columns, as the index has", got="39"):
        semantic_search_segmax(queries[:, :39], corpus, index_kwargs=QUIET)
    with refused(InputError, hint="both as tensors or both decoded"):
        semantic_search_segmax(queries, [[("a", 1.0)]], index_kwargs=QUIET)
    with refused(InputError, expected="term numbers", got="this index stores no vocabulary"):
        semantic_search_segmax([[("a", 1.0)]], corpus, index_kwargs=QUIET)
    with refused(InputError, expected="query_embeddings as a sparse tensor", got="int"):
        semantic_search_segmax(5, corpus, index_kwargs=QUIET)
    with refused(InputError, expected=r"\(token, weight\) in a decoded embedding", got=r"5 in row 1"):
        semantic_search_segmax([[("a", 1.0)], [5]], corpus, index_kwargs=QUIET)
    with refused(InputError, expected=r"query_embeddings of one width", got=r"\[3, 4\]"):
        semantic_search_segmax([sp.csr_matrix((1, 3)), sp.csr_matrix((1, 4))], corpus, index_kwargs=QUIET)


# --- torch -----------------------------------------------------------------------------------------------------------


@pytest.mark.deep
@pytest.mark.parametrize("layout", ["coo", "uncoalesced", "csr", "dense", "list"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
def test_torch_tensors_as_they_come(rng: np.random.Generator, layout: str, dtype: str) -> None:
    """Every layout and precision gives what multiplication gives; gradients are not in the way."""
    torch = pytest.importorskip("torch")
    corpus, queries = vectors(rng)

    def tensor(matrix: sp.csr_matrix) -> Any:
        rows = matrix.tocoo()
        places = torch.tensor(np.array([rows.row, rows.col]))
        weights = torch.tensor(rows.data).to(getattr(torch, dtype))
        if layout == "uncoalesced":  # every weight twice: they add up
            return torch.sparse_coo_tensor(torch.cat([places, places], 1), torch.cat([weights, weights]), matrix.shape)
        coo = torch.sparse_coo_tensor(places, weights.requires_grad_(), matrix.shape).coalesce()
        if layout == "csr":
            return coo.detach().to_sparse_csr()
        if layout == "dense":
            return coo.to_dense()
        return [coo[i] for i in range(matrix.shape[0])] if layout == "list" else coo

    exact = [sp.csr_matrix(tensor_to_dense(torch, tensor(side))) for side in (queries, corpus)]
    options = {**QUIET, "config": segmax.BuildConfig(bits=16)}
    results, _ = semantic_search_segmax(tensor(queries), tensor(corpus), top_k=9, index_kwargs=options)
    assert results == by_hand(exact[0], exact[1], 9)


def tensor_to_dense(torch: Any, tensor: Any) -> np.ndarray:
    """The numbers of a tensor, repeated entries summed in double precision."""
    if isinstance(tensor, list):
        return np.stack([part.detach().to_dense().double().numpy() for part in tensor])
    if str(tensor.layout) == "torch.sparse_coo":
        indices, values = tensor.detach()._indices(), tensor.detach()._values().double()
        tensor = torch.sparse_coo_tensor(indices, values, tensor.shape)
    return np.asarray(tensor.detach().to_dense().double().numpy())


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore")  # torch and transformers warn about themselves
def test_one_embedding_as_a_vector(rng: np.random.Generator) -> None:
    """encode("text") gives a tensor of one dimension: one query."""
    torch = pytest.importorskip("torch")
    corpus, queries = vectors(rng)
    single = torch.tensor(queries[0].toarray()[0]).to_sparse()
    assert semantic_search_segmax(single, corpus, index_kwargs=QUIET)[0] == by_hand(queries[:1], corpus, 10)


# --- the package itself ----------------------------------------------------------------------------------------------

SENTENCES = [
    "A man is eating food.",
    "The girl is carrying a baby.",
    "A man is riding a horse.",
    "A monkey is playing drums.",
]


@pytest.fixture(scope="module")
def model() -> Any:
    """The small SPLADE model beside the project."""
    package = pytest.importorskip("sentence_transformers")
    folder = Path(__file__).resolve().parents[3] / "shared" / "models" / "splade-mini"
    if not folder.is_dir():
        pytest.skip("needs the model beside the project")
    return package.SparseEncoder(str(folder), device="cpu")


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore")  # torch and transformers warn about themselves
def test_the_real_encoder(model: Any) -> None:
    """What SparseEncoder encodes and decodes goes in as it is, and the ranking is that of its own similarity."""
    queries = ["a man eats pasta", "a baby with a girl"]
    corpus = model.encode_document(SENTENCES)
    asked = model.encode_query(queries)
    wanted = model.similarity(asked, corpus).numpy()
    options = {**QUIET, "config": segmax.BuildConfig(bits=16)}
    for search in (
        (asked, corpus),
        (model.decode(asked), model.decode(corpus)),
        (list(asked), list(corpus)),
    ):
        results, _ = semantic_search_segmax(*search, top_k=4, index_kwargs=options)
        for hits, scores in zip(results, wanted, strict=True):
            assert [hit["corpus_id"] for hit in hits] == np.argsort(-scores, kind="stable").tolist()[: len(hits)]
            assert [hit["score"] for hit in hits] == pytest.approx(
                sorted(scores, reverse=True)[: len(hits)], rel=1e-3, abs=1e-4
            )


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore")
def test_the_contract_is_that_of_the_package() -> None:
    """The parameters of the package's own function for Seismic are parameters here, in the same order."""
    import inspect

    engines = pytest.importorskip("sentence_transformers.sparse_encoder.search_engines")
    names = list(inspect.signature(engines.semantic_search_seismic).parameters)
    ours = list(inspect.signature(semantic_search_segmax).parameters)
    assert [name.removesuffix("_decoded") for name in names] == ours[: len(names)]
    assert set(names) <= set(ours)  # the decoded names, too, by keyword


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore")
def test_the_documented_example_runs(model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/integrations.md says what works."""
    import sentence_transformers

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sentence_transformers, "SparseEncoder", lambda name: model)
    names = run_documented("sentence-transformers")
    assert names["results"][0][0]["corpus_id"] == 0  # type: ignore[index]


def test_the_names_of_seismic_and_elasticsearch(rng: np.random.Generator) -> None:
    """Queries and corpus may be called decoded, as the functions for other engines call them; not both at once."""
    corpus, queries = vectors(rng)
    results, _ = semantic_search_segmax(
        query_embeddings_decoded=decoded(queries),
        corpus_embeddings_decoded=decoded(corpus),
        top_k=7,
        index_kwargs=QUIET,
    )
    assert results == by_hand(queries, corpus, 7)
    with refused(InputError, expected="query_embeddings or query_embeddings_decoded", got="both"):
        semantic_search_segmax(queries, corpus, query_embeddings_decoded=decoded(queries))
    with refused(InputError, expected="corpus_embeddings or corpus_embeddings_decoded", got="both"):
        semantic_search_segmax(queries, corpus, corpus_embeddings_decoded=decoded(corpus))
    with refused(InputError, expected="query_embeddings", got="none"):
        semantic_search_segmax(corpus_embeddings=corpus)
