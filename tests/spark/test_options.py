# SPDX-License-Identifier: Apache-2.0
"""Options of the data source: valid values, and errors of invalid ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from tests.spark import reference
from tests.support.spark_reads import (
    BatchRead,
    SimulatedQuery,
    SparkTestStore,
    columns,
    source,
    values,
)
from zaqar_redis.errors import BadConfiguration
from zaqar_redis.spark.options import (
    BATCH,
    ENVIRONMENT,
    OPTIONS,
    SINK,
    STREAM,
    WRITE,
    SourceOptions,
)
from zaqar_redis.spark.positions import EARLIEST_OFFSET, LATEST_OFFSET, OffsetPosition

USES = (BATCH, STREAM, WRITE, SINK)
_BODY = StructType([StructField("body", BinaryType())])

#: By option: a use of it; valid texts with their values; invalid texts.
GOOD: dict[str, tuple[str, dict[str, object]]] = {
    "uri": (BATCH, {"redis://h": "redis://h"}),
    "uriFile": (BATCH, {"/etc/uri": "/etc/uri"}),
    "controlUri": (BATCH, {"redis://h": "redis://h"}),
    "project": (BATCH, {"acme": "acme"}),
    "kind": (BATCH, {"queue": "queue", "QUEUE": "queue", "topic": "topic"}),
    "timeout": (BATCH, {"100ms": 0.1, "2.5 s": 2.5, "10M": 600.0}),
    "subscribe": (BATCH, {"a": ("a",), "b, a,b": ("b", "a")}),
    "columns": (BATCH, {"body,rank": "body,rank"}),
    "startingOffsets": (
        STREAM,
        {
            "Earliest": "earliest",
            "latest": "latest",
            '{"q": 7}': {"q": OffsetPosition(None, 7)},
            '{"q": {"epoch": "00112233aabbccdd", "offset": -2}, "r": -1}': {
                "q": OffsetPosition("00112233aabbccdd", EARLIEST_OFFSET),
                "r": OffsetPosition(None, LATEST_OFFSET),
            },
        },
    ),
    "startingTimestamp": (STREAM, {"0": 0, "1800000000000": 1_800_000_000_000}),
    "startingOffsetsByTimestamp": (STREAM, {'{"q": 0, "r": 18}': {"q": 0, "r": 18}}),
    "endingOffsets": (BATCH, {'{"q": {"offset": 3}}': {"q": OffsetPosition(None, 3)}}),
    "endingTimestamp": (BATCH, {"5": 5}),
    "minPartitions": (BATCH, {"1": 1, "10000": 10_000}),
    "maxRecordsPerPartition": (BATCH, {"1000": 1000}),
    "fetchSize": (BATCH, {"1": 1, "5000": 5000}),
    "readReplicas": (BATCH, {"TRUE": True, "false": False}),
    "includeExpired": (BATCH, {"TRUE": True, "false": False}),
    "includeClaimed": (BATCH, {"false": False}),
    "includeDelayed": (BATCH, {"false": False}),
    "pushdown": (BATCH, {"true": True}),
    "failOnDataLoss": (STREAM, {"false": False}),
    "maxOffsetsPerTrigger": (STREAM, {"1": 1}),
    "maxBytesPerTrigger": (STREAM, {"7": 7, "2k": 2048, "64MB": 64 * 2**20, "1gb": 2**30}),
    "minOffsetsPerTrigger": (STREAM, {"5": 5}),
    "maxTriggerDelay": (STREAM, {"0s": 0.0, "24h": 86400.0}),
    "maxWait": (STREAM, {"0s": 0.0, "10s": 10.0}),
    "consume": (STREAM, {"claim": "claim", "Browse": "browse"}),
    "group": (STREAM, {"a.b_c-D1": "a.b_c-D1"}),
    "claimTtl": (STREAM, {"60s": 60.0, "12h": 43200.0}),
    "claimGrace": (STREAM, {"60s": 60.0}),
    "queue": (WRITE, {"q": "q"}),
    "delivery": (WRITE, {"LEDGER": "ledger", "staged": "staged", "none": "none"}),
    "writeId": (WRITE, {"load-1": "load-1"}),
    "putSize": (WRITE, {"1": 1, "2000": 2000}),
    "maxMessageSize": (WRITE, {"1k": 1024}),
    "ttl": (WRITE, {"60": 60, "2147483647": 2**31 - 1}),
    "clientId": (WRITE, {"me": "me"}),
    "preserve": (WRITE, {"true": True}),
}
BAD = {
    "uri": [""],
    "uriFile": [""],
    "controlUri": [""],
    "project": ["", "x" * 300],
    "kind": ["", "topics"],
    "timeout": ["", "10", "0.05s", "601s", "1d", "-1s"],
    "subscribe": ["", "a,,b", "a b", "x" * 65],
    "subscribePattern": ["(", "*"],
    "columns": [""],
    "startingOffsets": [
        *("", "newest", "7", "[]", '{"q": "7"}', '{"q": -3}', '{"q": true}', '{"q": 1.5}'),
        *('{"q": {"epoch": "00112233aabbccdd"}}', '{"q": {"epoch": "XY", "offset": 1}}'),
        *('{"q": {"epoch": 7, "offset": 1}}', '{"q": {"offset": 1, "ofset": 2}}'),
        *('{"q": 1, "q": 2}', '{"default/q": 1, "q": 2}', '{"q": null}', "{"),
    ],
    "startingTimestamp": ["", "-1", "now", "1" * 19],
    "startingOffsetsByTimestamp": [
        *("", "7", "[]", '{"q": "7"}', '{"q": -1}', '{"q": true}', "{", '{"q": 1, "q": 2}'),
    ],
    "endingOffsets": ["newest", "earliest"],
    "endingTimestamp": ["-1"],
    "minPartitions": ["0", "10001"],
    "maxRecordsPerPartition": ["999"],
    "fetchSize": ["0", "5001", "\u0662"],
    "readReplicas": ["", "yes"],
    "includeExpired": ["", "yes"],
    "includeClaimed": ["1"],
    "includeDelayed": ["no"],
    "pushdown": ["on"],
    "failOnDataLoss": ["maybe"],
    "maxOffsetsPerTrigger": ["0", "-5", "1e3"],
    "maxBytesPerTrigger": ["0", "1t", "-1", "1.5m"],
    "minOffsetsPerTrigger": ["0"],
    "maxTriggerDelay": ["25h"],
    "maxWait": ["11s"],
    "consume": ["eat"],
    "group": ["", "a b", "x" * 65],
    "claimTtl": ["59s", "13h"],
    "claimGrace": ["59s"],
    "queue": ["", "a b"],
    "delivery": ["twice"],
    "writeId": ["", "a/b"],
    "putSize": ["0", "2001"],
    "maxMessageSize": ["0"],
    "ttl": ["59", "2147483648"],
    "clientId": [""],
    "preserve": ["1"],
}


def _use(name: str) -> str:
    return next(option.uses[0] for option in OPTIONS if option.name == name)


def test_every_option_has_examples() -> None:
    names = {option.name for option in OPTIONS}
    assert names == {*GOOD, "subscribePattern"} == set(BAD)


@pytest.mark.parametrize(
    ("name", "text", "meaning"),
    [
        (name, text, meaning)
        for name, (_, examples) in GOOD.items()
        for text, meaning in examples.items()
    ],
)
def test_option_text_parses_to_its_value(name: str, text: str, meaning: object) -> None:
    use, _ = GOOD[name]
    # Spark writes names in lower case.
    assert SourceOptions(use, {name.lower(): text})[name] == meaning


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name, texts in BAD.items() for text in texts]
)
def test_invalid_value_error_names_the_option(name: str, text: str) -> None:
    with pytest.raises(BadConfiguration, match=f'^option "{name}": .*'):
        SourceOptions(_use(name), {name.lower(): text})


@pytest.mark.parametrize("epoch", ['"4f2a"', '"00112233AABBCCDD"', "7"])
def test_malformed_epoch_error_names_its_queue_and_form(epoch: str) -> None:
    why = f'the epoch of "q" must be 16 hexadecimal digits in lower case, .* not {epoch}$'
    with pytest.raises(BadConfiguration, match=f'^option "startingOffsets": {why}'):
        SourceOptions(STREAM, {"startingOffsets": f'{{"q": {{"epoch": {epoch}, "offset": 1}}}}'})


def test_pattern_matches_whole_names() -> None:
    pattern = SourceOptions(BATCH, {"subscribePattern": "orders-.*"})["subscribePattern"]
    assert pattern.fullmatch("orders-1")
    assert not pattern.fullmatch("old-orders-1")


@pytest.mark.parametrize("use", USES)
def test_defaults_match_the_reference(use: str) -> None:
    options = SourceOptions(use, {})
    assert not options.given
    for option in OPTIONS:
        if use in option.uses:
            expected = None if option.default is None else option.read(option.default)
            assert options[option.name] == expected


@pytest.mark.parametrize("use", USES)
def test_unknown_option_error_lists_the_known_ones(use: str) -> None:
    known = ", ".join(option.name for option in OPTIONS if use in option.uses)
    with pytest.raises(BadConfiguration) as caught:
        SourceOptions(use, {"nothing": "q"})
    assert str(caught.value) == f'unknown option "nothing"; for a {use} there are: {known}'


@pytest.mark.parametrize("use", USES)
def test_path_of_load_and_save_is_told_what_to_use_instead(use: str) -> None:
    instead = "queue" if use.endswith("write") else "subscribe"
    with pytest.raises(
        BadConfiguration, match=f'take no path: name the queue by the .* "{instead}"'
    ):
        SourceOptions(use, {"path": "orders"})


def test_option_of_spark_for_kafka_suggests_the_one_that_does_as_much() -> None:
    with pytest.raises(BadConfiguration, match=r'did you mean "endingTimestamp"\?$'):
        SourceOptions(BATCH, {"endingoffsetsbytimestamp": "{}"})


@pytest.mark.parametrize("name", ["startingOffset", "startingoffset"])
def test_misspelt_option_error_suggests_the_right_spelling(name: str) -> None:
    with pytest.raises(BadConfiguration) as caught:
        SourceOptions(BATCH, {name: "earliest"})
    assert str(caught.value) == f'unknown option "{name}"; did you mean "startingOffsets"?'


@pytest.mark.parametrize(
    ("use", "name"),
    [(use, option.name) for use in USES for option in OPTIONS if use not in option.uses],
)
def test_option_of_another_use_is_an_error(use: str, name: str) -> None:
    with pytest.raises(BadConfiguration, match=f'^the option "{name}" is none of a {use}; '):
        SourceOptions(use, {name.lower(): "1"})


def test_spark_query_option_is_ignored() -> None:
    assert not SourceOptions(SINK, {"checkpointlocation": "/somewhere"}).given


def test_uri_is_read_from_a_file(store: SparkTestStore, tmp_path: Path) -> None:
    store.post("hello")
    file = tmp_path / "uri"
    file.write_text(f"  {store.uri}\n")
    data_source = source(uriFile=file, project=store.project, subscribe="q")
    assert values(BatchRead(data_source).rows()) == ["hello"]


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe"])
def test_invalid_uri_file_is_named(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "uri"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(BadConfiguration, match='option "uriFile": '):
        SourceOptions(BATCH, {"uriFile": str(file)}).uri()


def test_uri_defaults_to_the_environment(
    store: SparkTestStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.post("hello")
    monkeypatch.setenv(ENVIRONMENT, store.uri)
    assert values(BatchRead(source(project=store.project, subscribe="q")).rows()) == ["hello"]
    assert SourceOptions(BATCH, {"uri": "redis://h"}).uri() == "redis://h"


def test_missing_uri_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    with pytest.raises(BadConfiguration, match=f'"uri" and "uriFile" .* {ENVIRONMENT}'):
        SourceOptions(BATCH, {}).uri()


def test_uri_given_twice_is_an_error() -> None:
    with pytest.raises(BadConfiguration, match='options "uri" and "uriFile" exclude each other'):
        SourceOptions(BATCH, {"uri": "redis://h", "urifile": "/x"}).uri()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, 'one of the options "subscribe" and "subscribePattern" must be given'),
        (
            {"subscribe": "q", "subscribePattern": ".*"},
            'the options "subscribe" and "subscribePattern" exclude each other; give one of them',
        ),
    ],
)
def test_queues_given_other_than_once_are_an_error(
    store: SparkTestStore, options: dict[str, str], why: str
) -> None:
    store.create()
    with pytest.raises(BadConfiguration, match=why):
        BatchRead(store.source(**options))
    query = SimulatedQuery(store.source(**options))
    with pytest.raises(BadConfiguration, match=why):
        query.trigger()
    query.stop()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("startingOffsets", "startingTimestamp"),
        ("startingTimestamp", "startingOffsetsByTimestamp"),
        ("endingTimestamp", "endingOffsets"),
    ],
)
def test_bounds_that_exclude_each_other_are_an_error(
    store: SparkTestStore, one: str, other: str
) -> None:
    store.post("hello")
    given = {name: '{"q": 1}' if "Offsets" in name else "1" for name in (one, other)}
    with pytest.raises(BadConfiguration, match=f'the options "{one}" and "{other}" exclude each'):
        BatchRead(store.source(subscribe="q", **given))


@pytest.mark.parametrize("name", ["startingOffsets", "endingOffsets"])
def test_offsets_of_unsubscribed_queues_are_an_error(store: SparkTestStore, name: str) -> None:
    store.post("hello")
    with pytest.raises(BadConfiguration, match=f'option "{name}": x is not among .*: q$'):
        BatchRead(store.source(**{"subscribe": "q", name: '{"x": 1}'}))


@pytest.mark.parametrize(
    "name",
    [
        *("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp"),
        *("minOffsetsPerTrigger", "maxTriggerDelay", "includeExpired"),
    ],
)
def test_browsing_options_are_an_error_when_claiming(store: SparkTestStore, name: str) -> None:
    text = {
        "startingOffsets": "latest",
        "startingOffsetsByTimestamp": "{}",
        "maxTriggerDelay": "1s",
        "includeExpired": "true",
    }
    data_source = store.source(
        subscribe="q", consume="claim", group="g", **{name: text.get(name, "1")}
    )
    with pytest.raises(BadConfiguration, match=f'"{name}" means nothing with consume=claim'):
        data_source.streamReader(columns(data_source))


def test_claiming_needs_a_group(store: SparkTestStore) -> None:
    data_source = store.source(subscribe="q", consume="claim")
    with pytest.raises(BadConfiguration, match='option "group" must be given'):
        data_source.streamReader(columns(data_source))


@pytest.mark.parametrize("name", ["group", "claimTtl", "claimGrace"])
def test_claiming_options_are_an_error_when_browsing(store: SparkTestStore, name: str) -> None:
    data_source = store.source(subscribe="q", **{name: "60s" if name != "group" else "g"})
    with pytest.raises(BadConfiguration, match=f'"{name}" means nothing with consume=browse'):
        data_source.streamReader(columns(data_source))


def test_write_id_without_idempotent_delivery_is_an_error(store: SparkTestStore) -> None:
    with pytest.raises(BadConfiguration, match='option "writeId" means nothing unless'):
        store.source(queue="q", writeId="load").writer(_BODY, overwrite=False)


def test_reference_has_every_option_and_column_and_what_it_means() -> None:
    for meanings in (reference.meanings_of_options(), reference.meanings_of_columns()):
        assert all(meanings)
        assert len(set(meanings)) == len(meanings)
