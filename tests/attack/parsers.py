"""Parsers of what pods, other servers, members of a job and users' annotations say."""

from __future__ import annotations

import json
import tempfile
import zlib
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from swell.api.kinds import AI_TRAINING_JOBS, PODS
from swell.api.meta import ObjectMeta, Uid
from swell.api.node_faults import FAULTS_ANNOTATION, read_faults
from swell.api.scheduling import LOSS_ANNOTATION, PodGroup
from swell.cluster.decoding import decode_event, decode_list
from swell.cluster.embedded.builtin.definitions import merge_schema
from swell.cluster.embedded.http import logs, options, streams
from swell.cluster.embedded.http.protobuf import read_protobuf
from swell.cluster.embedded.http.spdy import SpdyDecoder, SpdyError
from swell.cluster.embedded.patching.strategic import StrategicMergeError, strategic_merge
from swell.cluster.kube.access import AccessError
from swell.cluster.kube.answers import AnswerReader, LostError, TooLargeError
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.history.life import LifeError, unpack
from swell.operator.framework.dependencies import marked
from swell.operator.framework.recovery import read_mark
from swell.operator.framework.reports import ReportError, read_report
from swell.operator.framework.waiting import eviction_of
from swell.page.questions import QuestionError, asked_variant, pasted_job
from swell.runtime.errors import ClusterError
from swell.scheduler.plugins.resource_strategy_fit import chosen_by_pod
from swell.train.bus.messages import decode_frame
from tests.protobuf_bodies import encode_body


@dataclass(frozen=True)
class Parser:
    """A parser, the errors by which it refuses, and pieces of inputs that it may take.

    Of a whole example most changes are read further than of pieces in a row.
    """

    name: str
    read: Callable[[str], object]
    refusals: tuple[type[Exception], ...]
    pieces: tuple[str, ...]
    example: str = ""


JSON = ('{"a":', '"b"', "[", "]", "{", "}", ",", ":", "1", "1e400", "9" * 30, "null", '"\\ud800"')
YAML = ("a: ", "\n", "- ", "  ", "[", "]", "{", "}", "&a ", "*a", "!!int ", '"', "'", "|\n ", "? ")

_POD = {
    "metadata": {"name": "n", "labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "i", "env": [{"name": "E", "value": "1"}]}]},
}
_UID = Uid("u")


def _bytes(text: str) -> bytes:
    """The bytes of these numbers, as far as they are any."""
    return text.encode("latin-1", "replace")


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _meta(name: str, text: str) -> ObjectMeta:
    return ObjectMeta(name="n", uid=_UID, annotations={name: text})


def _protobuf(text: str) -> None:
    read_protobuf(_bytes(text), ("v1", "Pod"))


def _kubeconfig(text: str) -> None:
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", errors="replace") as file:
        file.write(text)
        file.flush()
        read_kubeconfig([Path(file.name)])


def _answer(text: str) -> None:
    reader, raw = AnswerReader(1 << 20), _bytes(text)
    for at in range(0, len(raw), 700):
        reader.feed(raw[at : at + 700])
    reader.end()


def _strategic(text: str) -> None:
    try:
        patch = msgspec.json.decode(_raw(text))
    except (msgspec.DecodeError, RecursionError):
        return  # bodies have a reader of their own
    if isinstance(patch, dict):
        strategic_merge(_POD, patch, merge_schema("io.k8s.api.core.v1.Pod"))


def _queries(text: str) -> None:
    query = options.parse_query(text)
    for read in (streams.exec_command, streams._ports, lambda q: logs.parse_log_request("n", q)):
        try:
            read(query)
        except ClusterError:
            continue


def _variant(text: str) -> None:
    values = text.split(",")
    names = ("replicas", "priority", "queue", "nodePool", "without", "drain")
    given = [int(one) if one == "7" else one for one in values]
    asked_variant(dict(zip(names, given, strict=False)))


def _group_of(text: str) -> object:
    return eviction_of(PodGroup(metadata=_meta(LOSS_ANNOTATION, text)))


def _life(text: str) -> None:
    for raw in (text, b64encode(zlib.compress(_raw(text))).decode()):
        try:
            unpack(raw)
        except LifeError:
            continue


_PROTOBUF = (
    "k8s\0",
    "\x0a",
    "\x12",
    "\x1a",
    "\x01",
    "\x08",
    "\xff" * 9,
    "\x80",
    "\x7f",
    "\x0a\x06\x0a\x02v1",
    "\x12\x03Pod",
    "\x0b",
    "\x0c",
    "\x0d\0\0\0\0",
    "\x0a\x05\x0a\x03abc",
    "\x22\x00",
    "n",
)
_SPDY = (
    "\x80\x03\0\x01",
    "\x80\x03\0\x08",
    "\x80\x03\0\x03",
    "\x80\x03\0\x06",
    "\0\0\0\x01",
    "\x01",
    "\0\0\0\x08",
    "\0\0\0\x40",
    "\0\x10\0\0",
    "\xff",
    "\x78\xbb",
    zlib.compress(b"\0" * 40_000).decode("latin-1"),
)
_HTTP = (
    "HTTP/1.1 200 OK\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Content-Length: 5\r\n",
    "\r\n",
    "5\r\nhello\r\n",
    "0\r\n",
    "-1\r\n",
    "f" * 30,
    "a: b\r\n",
    ": ",
    "\0",
    "Content-Length: -1\r\n",
    "5;a=b\r\n",
    "hello",
    "1_0\r\n",
)
_KUBECONFIG = (
    "apiVersion: v1\n",
    "clusters:\n",
    "- name: a\n",
    "  cluster: {server: 'https://h'}\n",
    "contexts:\n",
    "  context: {cluster: a, user: a}\n",
    "users:\n",
    "  user: {token: t}\n",
    "current-context: a\n",
    "  user: {exec: {command: c, apiVersion: v}}\n",
    "  cluster: {certificate-authority-data: '%'}\n",
    *YAML,
)
_EVENT = ('{"type":"ADDED","object":', '{"metadata":{"name":"n"}', '"items":', *JSON)
_MERGE = (
    '"$patch":"delete"',
    '"$setElementOrder/containers":',
    '"containers":',
    '"name":"c"',
    '{"spec":',
    '"$deleteFromPrimitiveList/x":',
    '"$retainKeys":',
    '"env":',
    *JSON,
)
_FRAME = (
    "\x92",
    "\x01",
    "\x81",
    "\xa4type",
    "\xa5Hello",
    "\xdd\xff\xff\xff\xff",
    "\x91",
    "\xc0",
    "\xc6\xff",
)
_QUERY = (
    "command=",
    "a",
    "&",
    "stdin=true",
    "ports=",
    "80",
    ",",
    "-1",
    "9" * 30,
    "tailLines=",
    "sinceTime=",
    "2030-01-01T00:00:00Z",
    "%ff",
    "limitBytes=",
    "0",
)

_KUBECONFIG_EXAMPLE = """apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: 'https://h:6443', certificate-authority-data: aGk=}}]
contexts: [{name: a, context: {cluster: a, user: a, namespace: n}}]
users: [{name: a, user: {token: t, client-certificate-data: aGk=, exec: {command: c, args: [b]}}}]
current-context: a
"""
_POD_EXAMPLE = json.dumps({"apiVersion": "v1", "kind": "Pod", **_POD})
_JOB_EXAMPLE = """apiVersion: elasticdeeplearning.ai/v1
kind: AITrainingJob
metadata: {name: j, labels: {a: b}}
spec:
  priority: 5
  replicaSpecs:
    trainer:
      replicas: 2
      template: {spec: {containers: [{name: aitj-main, image: i, command: [a, "b c"]}]}}
"""
_ANSWER_EXAMPLE = (
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    "5;a=b\r\nhello\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\n"
)
_STRATEGIC_EXAMPLE = json.dumps({"spec": {
    "containers": [{"name": "c", "env": [{"name": "E", "$patch": "delete"}, {"name": "F"}]}],
    "$setElementOrder/containers": [{"name": "c"}], "$retainKeys": ["containers"]}})  # fmt: skip
_LIST_EXAMPLE = json.dumps(
    {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": [_POD]}
)
_EVENT_EXAMPLE = json.dumps({"type": "ADDED", "object": {
    "apiVersion": "elasticdeeplearning.ai/v1", "kind": "AITrainingJob",
    "metadata": {"name": "j", "namespace": "n", "uid": "u", "resourceVersion": "3"},
    "spec": {"replicaSpecs": {"t": {"replicas": 2, "template": {"spec": {}}}}}}})  # fmt: skip
_PROTOBUF_EXAMPLE = encode_body(
    {"apiVersion": "v1", "kind": "Pod", **_POD, "status": {"phase": "Running", "podIP": "1.2.3.4"}}
).decode("latin-1")
_MARKS = '{"uid":"u","at":1.5,"reason":"r","names":["a"],"n":{"a":1}}'

PARSERS = (
    Parser("protobuf", _protobuf, (ClusterError,), _PROTOBUF, _PROTOBUF_EXAMPLE),
    Parser("spdy", lambda t: list(SpdyDecoder().feed(_bytes(t))), (SpdyError,), _SPDY),
    Parser("answer", _answer, (LostError, TooLargeError), _HTTP, _ANSWER_EXAMPLE),
    Parser("kubeconfig", _kubeconfig, (AccessError,), _KUBECONFIG, _KUBECONFIG_EXAMPLE),
    Parser("list", lambda t: decode_list(_raw(t), PODS), (ClusterError,), _EVENT, _LIST_EXAMPLE),
    Parser(
        "event",
        lambda t: decode_event(_raw(t), AI_TRAINING_JOBS, lambda *_: False),
        (ClusterError,),
        _EVENT,
        _EVENT_EXAMPLE,
    ),
    Parser(
        "strategic merge",
        _strategic,
        (StrategicMergeError, ClusterError),
        _MERGE,
        _STRATEGIC_EXAMPLE,
    ),
    Parser("queries of streams and logs", _queries, (), _QUERY),
    Parser("frame of members", lambda t: decode_frame(_bytes(t)), (ValueError,), _FRAME),
    Parser("report", lambda t: read_report(_raw(t)), (ReportError,), JSON),
    Parser("record of a job", _life, (), JSON),
    Parser(
        "mark of an end",
        lambda t: read_mark(_meta("x", t), "x"),
        (),
        ('{"uid":"u",', *JSON),
        _MARKS,
    ),
    Parser(
        "mark of others", lambda t: marked(_meta("x", t), "x"), (), ('{"uid":"u",', *JSON), _MARKS
    ),
    Parser("mark of faults", lambda t: read_faults({FAULTS_ANNOTATION: t}), (), JSON),
    Parser("mark of an eviction", _group_of, (), JSON),
    Parser("weights of a pod", lambda t: chosen_by_pod({}, t, t), (), JSON),
    Parser(
        "job of the page",
        pasted_job,
        (QuestionError,),
        (*YAML, "kind: AITrainingJob\n"),
        _JOB_EXAMPLE,
    ),
    Parser("question of the page", _variant, (QuestionError,), ("7", ",", "a", "-", "'")),
)
