"""What containers declare for vector and full-text searches: defaults, what is shown, what is refused, what may change."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mayflydb.frontends.cosmos import search
from mayflydb.frontends.cosmos.policies import ContainerDefinition, parse_container
from mayflydb.model.errors import BadRequest, Unsupported
from mayflydb.query.cosmos_sql import Embedding

EMBEDDING = {"path": "/v", "dataType": "float32", "dimensions": 256, "distanceFunction": "euclidean"}
SMALL = {"path": '/a/"b c"', "dataType": "int8", "dimensions": 200, "distanceFunction": "dotproduct"}
WIDE = EMBEDDING | {"dimensions": 550}
VECTOR_INDEXES = [
    {"path": "/v", "type": "flat"},
    {"path": '/a/"b c"', "type": "diskANN", "quantizerType": "spherical", "quantizationByteSize": 200,
     "indexingSearchListSize": 500, "vectorIndexShardKey": ["/country/city"]},
]  # fmt: skip
TEXTS = {"defaultLanguage": "en-US", "fullTextPaths": [{"path": "/t", "language": "en-US"}, {"path": "/u/w"}]}


def body(
    embeddings: Any = None, vector_indexes: Any = None, texts: Any = None, text_indexes: Any = None
) -> dict[str, Any]:
    indexing = {"vectorIndexes": vector_indexes, "fullTextIndexes": text_indexes}
    return {
        "id": "c",
        "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2},
        "indexingPolicy": {name: value for name, value in indexing.items() if value is not None},
        "vectorEmbeddingPolicy": None if embeddings is None else {"vectorEmbeddings": embeddings},
        "fullTextPolicy": texts,
    }


def test_everything_reads_back() -> None:
    sent = body([EMBEDDING, SMALL], VECTOR_INDEXES, TEXTS, [{"path": "/t"}, {"path": "/u/w"}])
    definition = parse_container(sent)
    shown = json.loads(json.dumps(definition.to_json()))
    assert parse_container(shown) == definition
    assert parse_container(shown, definition) == definition
    assert shown["vectorEmbeddingPolicy"] == {"vectorEmbeddings": [EMBEDDING, SMALL]}
    assert shown["indexingPolicy"]["vectorIndexes"] == VECTOR_INDEXES
    assert shown["indexingPolicy"]["fullTextIndexes"] == [{"path": "/t"}, {"path": "/u/w"}]
    assert shown["fullTextPolicy"] == TEXTS
    assert search.embeddings(shown) == {
        ("v",): Embedding("euclidean", "float32", 256), ("a", "b c"): Embedding("dotproduct", "int8", 200)
    }  # fmt: skip


def test_defaults() -> None:
    shown = parse_container(body([{"path": "/v"}], texts={})).to_json()
    assert shown["vectorEmbeddingPolicy"]["vectorEmbeddings"] == [
        {"path": "/v", "dataType": "float32", "dimensions": 1536, "distanceFunction": "cosine"}
    ]
    assert shown["fullTextPolicy"] == {"defaultLanguage": "en-US", "fullTextPaths": []}
    assert search.embeddings(shown) == {("v",): Embedding("cosine", "float32", 1536)}


def test_nothing_is_declared() -> None:
    shown = parse_container(body()).to_json()
    assert shown.keys().isdisjoint({"vectorEmbeddingPolicy", "fullTextPolicy"})
    assert shown["indexingPolicy"].keys().isdisjoint({"vectorIndexes", "fullTextIndexes"})
    assert search.embeddings(shown) == {}


def test_spelling() -> None:
    (shown,) = parse_container(
        body([EMBEDDING | {"dataType": "Float32", "distanceFunction": "DotProduct"}])
    ).to_json()["vectorEmbeddingPolicy"]["vectorEmbeddings"]  # fmt: skip
    assert (shown["dataType"], shown["distanceFunction"]) == ("float32", "dotproduct")


@pytest.mark.parametrize("data_type", ["float32", "float16", "int8", "uint8"])
def test_data_types(data_type: str) -> None:
    assert parse_container(body([EMBEDDING | {"dataType": data_type}])).vectors == {
        "vectorEmbeddings": [EMBEDDING | {"dataType": data_type}]
    }


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"path": "v"}, "Vector Embedding Policy has an invalid Path: v"), ({"path": None}, "invalid Path"),
        ({"path": "/v/"}, "invalid Path"), ({"other": 1}, "other"),
        ({"dataType": "float33"}, "The Vector Embedding Policy has an invalid DataType:float33"), ({"dataType": []}, "DataType"),
        ({"dimensions": 8000}, "The Vector Embedding Policy has Dimensions:8000 which is more than the maximum supported value"),
        ({"dimensions": -1}, "The Vector Embedding Policy has Dimensions:-1"), ({"dimensions": 0}, "Dimensions:0"),
        ({"dimensions": 1.5}, "Dimensions:1.5"), ({"dimensions": True}, "Dimensions:True"),
        ({"distanceFunction": "handMeasured"}, "The Vector Embedding Policy has an invalid DistanceFunction:handMeasured"),
        ({"distanceFunction": 5}, "DistanceFunction:5"),
    ],
)  # fmt: skip
def test_refused_embedding(change: dict[str, Any], says: str) -> None:
    with pytest.raises(BadRequest, match=says) as caught:
        parse_container(body([EMBEDDING | change]))
    assert "vectorEmbeddingPolicy" in caught.value.message


@pytest.mark.parametrize("policy", [5, [], {"other": []}, {"vectorEmbeddings": {}}, {"vectorEmbeddings": [5]},
                                    {"vectorEmbeddings": [EMBEDDING, EMBEDDING]}])  # fmt: skip
def test_refused_embeddings(policy: Any) -> None:
    with pytest.raises(BadRequest, match="vectorEmbeddingPolicy"):
        parse_container(body() | {"vectorEmbeddingPolicy": policy})


def test_no_model_is_asked_for_embeddings() -> None:
    with pytest.raises(Unsupported, match="embeddingSource"):
        parse_container(body([EMBEDDING | {"embeddingSource": {"sourcePaths": ["/t"]}}]))


@pytest.mark.parametrize(
    ("embedding", "index", "says"),
    [
        (None, {"type": "flat"}, "path::/v not matching in Embedding's path"),
        (SMALL, {"type": "flat"}, "path::/v not matching in Embedding's path"),
        (EMBEDDING, {"type": "notFlat"}, "Index Type::notFlat is invalid"), (EMBEDDING, {}, "Index Type::None is invalid"),
        (EMBEDDING, {"type": ["flat"]}, "Index Type"), (EMBEDDING, {"type": "flat", "path": "v"}, "valid path"),
        (EMBEDDING, {"type": "flat", "other": 1}, "other"), (WIDE, {"type": "flat"}, "at most 505 dimensions"),
        (EMBEDDING, {"type": "quantizedFlat", "quantizerType": "round"}, "quantizerType"),
        (EMBEDDING, {"type": "quantizedFlat", "quantizationByteSize": 0},
         "Policy parameter QuantizationByteSize value :: 0 is out of range. The allowed range is between 1 and 256."),
        (WIDE, {"type": "quantizedFlat", "quantizationByteSize": 513},
         "QuantizationByteSize value :: 513 is out of range. The allowed range is between 1 and 512."),
        (EMBEDDING, {"type": "quantizedFlat", "quantizationByteSize": 1.5}, "quantizationByteSize"),
        (EMBEDDING, {"type": "diskANN", "indexingSearchListSize": 5},
         "IndexingSearchListSize value :: 5 is out of range. The allowed range is between 25 and 500."),
        (EMBEDDING, {"type": "diskANN", "indexingSearchListSize": 501}, "value :: 501 is out of range"),
        (EMBEDDING, {"type": "diskANN", "indexingSearchListSize": "25"}, "value :: 25 is out of range"),
        (EMBEDDING, {"type": "diskANN", "vectorIndexShardKey": ["country"]},
         "The Vector Indexing Policy has an invalid Shard Path: country."),
        (EMBEDDING, {"type": "diskANN", "vectorIndexShardKey": ["/a", "/b", "/c"]},
         "The number of shard paths defined in the Vector Indexing Policy: 3 exceeds the maximum: 1."),
        (EMBEDDING, {"type": "diskANN", "vectorIndexShardKey": "/country"}, "One of the specified inputs is invalid"),
    ],
)  # fmt: skip
def test_refused_vector_index(embedding: Any, index: dict[str, Any], says: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_container(body(None if embedding is None else [embedding], [{"path": "/v"} | index]))
    assert says in caught.value.message


def test_a_path_has_one_index() -> None:
    with pytest.raises(BadRequest, match="vectorIndexes' names a path twice"):
        parse_container(body([EMBEDDING], [{"path": "/v", "type": "flat"}, {"path": "/v", "type": "diskANN"}]))
    with pytest.raises(BadRequest, match="fullTextIndexes' names a path twice"):
        parse_container(body(texts=TEXTS, text_indexes=[{"path": "/t"}, {"path": "/t"}]))


@pytest.mark.parametrize(
    ("texts", "indexes", "says"),
    [
        ({"fullTextPaths": [{"path": "abstract"}]}, None, "The Full Text Policy contains an invalid Path: abstract"),
        ({"fullTextPaths": [{}]}, None, "invalid Path"), ({"fullTextPaths": {}}, None, "fullTextPaths"),
        ({"fullTextPaths": [{"path": "/t"}, {"path": "/t"}]}, None, "twice"), (5, None, "fullTextPolicy"),
        ({"fullTextPaths": [{"path": "/t", "x": 1}]}, None, "x"), ({"x": 1}, None, "x"),
        (None, [{"path": "/t"}], "path::/t not matching"), (TEXTS, [{"path": "/path"}], "path::/path not matching"),
        (TEXTS, [{"path": "t"}], "fullTextIndexes"), (TEXTS, [{"not_path": "t"}], "not_path"), (TEXTS, {}, "fullTextIndexes"),
    ],
)  # fmt: skip
def test_refused_full_text(texts: Any, indexes: Any, says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        parse_container(body(texts=texts, text_indexes=indexes))


@pytest.mark.parametrize("language", ["spa-SPA", "ja-JP", "en", 5])
def test_languages(language: Any) -> None:
    says = f"Full Text Policy contains an unsupported Language:{language}"
    with pytest.raises(Unsupported, match=says):
        parse_container(body(texts={"defaultLanguage": language}))
    with pytest.raises(Unsupported, match=says):
        parse_container(body(texts={"fullTextPaths": [{"path": "/t", "language": language}]}))


@pytest.mark.parametrize("language", ["en-US", "de-DE", "es-ES", "fr-FR", "it-IT", "pt-BR", "pt-PT"])
def test_the_languages_of_texts(language: str) -> None:
    texts = {"defaultLanguage": language, "fullTextPaths": [{"path": "/t"}, {"path": '/a/"b"', "language": "en-US"}]}
    shown = {"fullTextPolicy": search.parse_full_text(texts)}
    assert search.languages(shown) == ({("t",): language, ("a", "b"): "en-US"}, language)


def test_the_language_of_a_container_without_texts() -> None:
    assert search.languages({}) == search.languages({"fullTextPolicy": None}) == ({}, "en-US")


@pytest.fixture
def previous() -> ContainerDefinition:
    return parse_container(body([EMBEDDING], [{"path": "/v", "type": "flat"}], TEXTS, [{"path": "/t"}]))


def test_what_a_replace_may_change(previous: ContainerDefinition) -> None:
    more = body(
        [SMALL, EMBEDDING], [VECTOR_INDEXES[1], {"path": "/v", "type": "flat"}], {"fullTextPaths": [{"path": "/x"}]}
    )
    assert parse_container(more, previous) == parse_container(more)


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (body(None, [{"path": "/v", "type": "flat"}]), "path::/v not matching in Embedding's path."),
        (body([EMBEDDING], [{"path": "/v", "type": "quantizedFlat"}]), "existing vector indexing policy cannot be modified"),
        (body([EMBEDDING]), "Paths in existing vector indexing policy cannot be modified in Collection Replace"),
        (body([EMBEDDING | {"dimensions": 384}], [{"path": "/v", "type": "flat"}]),
         "Paths in existing embedding policy cannot be modified in Collection Replace"),
        (body(), "existing embedding policy cannot be modified"),
    ],
)  # fmt: skip
def test_what_a_replace_may_not_change(previous: ContainerDefinition, sent: Any, says: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_container(sent, previous)
    assert says in caught.value.message
