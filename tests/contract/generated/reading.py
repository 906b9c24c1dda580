"""Reads: selectors, paging, versions, tables, watches, discovery, logs, errors of requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.contract.generated.steps import *  # noqa: F403
from tests.contract.generated.objects import GLOBAL, KINDS

LABELS = [
    "a",
    "a=1",
    "a==1",
    "a!=1",
    "!a",
    "a in (1,2)",
    "a notin (1)",
    "a in ()",
    "a in (",
    "a in 1",
    "a=1,b",
    "a=1,b=x",
    "a=1,",
    ",a=1",
    "a=1,,b",
    "",
    " ",
    "a = 1 , b = x",
    "a>1",
    "n>9",
    "n<10",
    "n>x",
    "n>=9",
    "a=1 b",
    "a=(1)",
    "a!1",
    "!!a",
    "! a",
    "a=",
    "a!=",
    "a==",
    "a===1",
    "=1",
    "a in (1) , b",
    "a notin (1,2),!b",
    "ex.com/k",
    "ex.com/k=v",
    "ex.com/k/z=v",
    "-a",
    "a=-1",
    "a=" + "x" * 64,
    "x" * 64,
    "a in (x,)",
    "a in (1, 2)",
    "a IN (1)",
    "in",
    "in in (in)",
    "notin",
    "a,!a",
    "exists",
    "a=1=2",
    "a=%",
    "a=é",
    "a\n=1",
    "a in (1),",
    "a in(1)",
    "n>9,n<20",
    "n>-1",
    "n>1.5",
    "n > 9",
    "a in (1)b",
    "(a)",
    "a)",
    "a=1)",
    "metadata.name=x",
]
FIELDS = [
    "metadata.name=a",
    "metadata.name==a",
    "metadata.name!=a",
    "metadata.namespace={ns}",
    "metadata.namespace=x",
    "metadata.name",
    "metadata.name=",
    "metadata.name=a,metadata.name=b",
    "metadata.name=a,metadata.namespace={ns}",
    "=a",
    "",
    ",",
    "metadata.name=a,",
    "metadata.name in (a)",
    "metadata.labels.x=1",
    "spec.nodeName=n",
    "spec.nodeName=",
    "spec.nodeName!=n",
    "status.phase=Pending",
    "status.phase!=Pending",
    "spec.restartPolicy=Always",
    "spec.schedulerName=nobody",
    "spec.serviceAccountName=x",
    "status.podIP=",
    "status.podIPs=",
    "status.nominatedNodeName=",
    "spec.hostNetwork=false",
    "spec.hostNetwork=true",
    "type=Opaque",
    "type=kubernetes.io/tls",
    "status.successful=0",
    "status.successful=1",
    "status.replicas=0",
    "spec.unschedulable=false",
    "involvedObject.name=x",
    "involvedObject.kind=Pod",
    "reason=r",
    "regarding.name=x",
    "regarding.kind=Pod",
    "type=Normal",
    "source=x",
    "reportingController=x",
    "reportingComponent=x",
    "spec.clusterIP=None",
    "spec.type=ClusterIP",
    "metadata.name=a\\,b",
    "metadata.name=a\\=b",
    "metadata.name=a\\",
    "metadata.name!a",
    "metadata.name>a",
    " metadata.name=a",
    "metadata.name = a",
    "metadata.uid=x",
    "spec.size=3",
    "involvedObject.uid=",
    "involvedObject.fieldPath=",
    "involvedObject.apiVersion=v1",
    "involvedObject.resourceVersion=",
    "status.addresses=x",
    "spec.nodeName",
    "a=b=c",
    "metadata.name=a=b",
]


def selectors() -> Iterator[Case]:
    made = [
        cm(metadata={"labels": labels, "name": f"c{n}"})
        for n, labels in enumerate(
            (
                {"a": "1", "b": "x"},
                {"a": "1", "b": "y"},
                {"a": "2"},
                {"a": ""},
                {},
                {"ex.com/k": "v"},
                {"n": "10"},
                {"n": "9"},
                {"in": "in"},
            )
        )
    ]
    for text in LABELS:
        yield Case(
            "labelselector",
            f"[{text}]",
            [
                *(post(CM, one, unchecked=True) for one in made),
                get(CM, query={"labelSelector": text}),
            ],
        )
        yield Case(
            "labelselector",
            f"widgets [{text}]",
            [
                post(WIDGETS, widget(metadata={"labels": {"a": "1"}}), unchecked=True),
                get(WIDGETS, query={"labelSelector": text}),
            ],
        )
        yield Case(
            "labelselector",
            f"watch [{text}]",
            [
                post(CM, made[0], unchecked=True),
                {
                    "watch": CM,
                    "as": "w",
                    "query": {"watch": "1", "labelSelector": text, "timeoutSeconds": "1"},
                },
                {"events": "w", "to_end": True},
            ],
        )
    for path, one in KINDS + GLOBAL:
        for text in FIELDS:
            if path in (PODS, EVENTS, NEWEVENTS) or not text.startswith(
                ("involved", "regarding", "spec.host", "status.pod")
            ):
                yield Case(
                    "fieldselector",
                    f"{path.split('/')[-1]} [{text}]",
                    [
                        *(
                            [
                                post(path, one, unchecked=True),
                                post(
                                    path, merged(one, {"metadata": {"name": "b"}}), unchecked=True
                                ),
                            ]
                            if "{ns}" in path
                            else []
                        ),
                        get(
                            path,
                            query={"fieldSelector": text},
                            **({} if "{ns}" in path else {"bodyless": True}),
                        ),
                    ],
                )
    for text in FIELDS[:30]:
        yield Case(
            "fieldselector",
            f"watch [{text}]",
            [
                post(PODS, pod(), unchecked=True),
                {
                    "watch": PODS,
                    "as": "w",
                    "query": {"watch": "1", "fieldSelector": text, "timeoutSeconds": "1"},
                },
                {"events": "w", "to_end": True},
            ],
        )
        yield Case(
            "fieldselector",
            f"both [{text}]",
            [
                post(PODS, pod(metadata={"labels": {"a": "1"}}), unchecked=True),
                get(PODS, query={"fieldSelector": text, "labelSelector": "a=1"}),
            ],
        )


def paging() -> Iterator[Case]:
    many = [
        post(CM, cm(metadata={"name": f"c{n}", "labels": {"p": str(n % 2)}}), unchecked=True)
        for n in range(5)
    ]
    for limit in (
        "0",
        "1",
        "2",
        "4",
        "5",
        "6",
        "-1",
        "x",
        "",
        "99999999999999999999",
        "1.5",
        "1e1",
        " 1",
        "+1",
        "500",
    ):
        yield Case("paging", f"limit {limit}", [*many, get(CM, query={"limit": limit})])
        yield Case(
            "paging",
            f"limit {limit} selected",
            [*many, get(CM, query={"limit": limit, "labelSelector": "p=0"})],
        )
        yield Case(
            "paging",
            f"limit {limit} rv0",
            [
                *many,
                get(
                    CM,
                    query={"limit": limit, "resourceVersion": "0"},
                    until={"len items": 5},
                    poll=1,
                ),
            ],
        )
        yield Case(
            "paging",
            f"limit {limit} table",
            [
                *many,
                get(
                    CM,
                    query={"limit": limit},
                    headers={"Accept": TABLE},
                    bodyless=True,
                    look=["metadata.remainingItemCount", "len rows", "has metadata.continue"],
                ),
            ],
        )
    for token in (
        "x",
        "e30",
        "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0",
        "",
        " ",
        "%",
        "YQ==",
        "eyJydiI6MSwibmFtZXNwYWNlIjoiYSIsIm5hbWUiOiJiIn0",
    ):
        for query in (
            {},
            {"limit": "1"},
            {"resourceVersion": "1"},
            {"resourceVersion": "0"},
            {"resourceVersionMatch": "Exact"},
        ):
            yield Case(
                "paging",
                f"token {token} {query}",
                [*many, get(CM, query={"continue": token, **query})],
            )
    first = get(
        CM,
        query={"limit": "2"},
        capture={"t": "metadata.continue", "v": "metadata.resourceVersion"},
    )
    for query in (
        {},
        {"limit": "1"},
        {"limit": "2"},
        {"limit": "3"},
        {"limit": "0"},
        {"resourceVersion": "{v}"},
        {"resourceVersion": "0"},
        {"resourceVersion": "1"},
        {"resourceVersionMatch": "Exact"},
        {"resourceVersionMatch": "Exact", "resourceVersion": "{v}"},
        {"resourceVersionMatch": "NotOlderThan"},
        {"labelSelector": "p=0"},
        {"limit": "1", "labelSelector": "p=1"},
        {"fieldSelector": "metadata.name=c3"},
        {"timeoutSeconds": "1"},
        {"watch": "true"},
    ):
        yield Case(
            "paging", f"next {query}", [*many, first, get(CM, query={"continue": "{t}", **query})]
        )
    yield Case(
        "paging",
        "other namespace",
        [
            *many,
            first,
            get("/api/v1/namespaces/default/configmaps", query={"continue": "{t}", "limit": "1"}),
            get("/api/v1/configmaps", query={"continue": "{t}", "limit": "1"}, bodyless=True),
            get(SECRETS, query={"continue": "{t}"}),
        ],
    )
    yield Case(
        "paging",
        "changes between",
        [
            *many,
            first,
            post(CM, cm(metadata={"name": "c25"})),
            delete(CM + "/c3"),
            patch(CM + "/c4", {"data": {"x": "1"}}),
            get(CM, query={"continue": "{t}", "limit": "2"}, capture={"t": "metadata.continue"}),
            get(CM, query={"continue": "{t}", "limit": "2"}),
        ],
    )
    for query in (
        {"resourceVersion": v, **m}
        for v in ("", "0", "1", "x", "-1", "99999999", "1.5", "{v}")
        for m in (
            {},
            {"resourceVersionMatch": "Exact"},
            {"resourceVersionMatch": "NotOlderThan"},
            {"resourceVersionMatch": "x"},
            {"resourceVersionMatch": ""},
            {"resourceVersionMatch": "Exact", "limit": "2"},
            {"resourceVersionMatch": "NotOlderThan", "limit": "2"},
            {"limit": "2"},
            {"sendInitialEvents": "true"},
            {"sendInitialEvents": "false"},
            {"sendInitialEvents": "x"},
            {"resourceVersionMatch": "NotOlderThan", "sendInitialEvents": "true"},
            {"allowWatchBookmarks": "true"},
            {"continue": "x"},
        )
    ):
        listed = get(CM, capture={"v": "metadata.resourceVersion"})
        slow = {"unchecked": True} if query["resourceVersion"] in ("99999999", "0") else {}
        if not slow:
            yield Case(
                "resourceversion", f"list {query}", [*many[:3], listed, get(CM, query=query)]
            )
            yield Case("resourceversion", f"widgets {query}", [listed, get(WIDGETS, query=query)])
            yield Case(
                "resourceversion",
                f"watch {query}",
                [
                    *many[:3],
                    listed,
                    {
                        "watch": CM,
                        "as": "w",
                        "query": {"watch": "true", "timeoutSeconds": "1", **query},
                    },
                    {"events": "w", "to_end": True, "marks": True},
                ],
            )
            yield Case(
                "resourceversion",
                f"watch bookmarks {query}",
                [
                    *many[:3],
                    listed,
                    {
                        "watch": CM,
                        "as": "w",
                        "query": {
                            "watch": "true",
                            "timeoutSeconds": "1",
                            "allowWatchBookmarks": "true",
                            **query,
                        },
                    },
                    {"events": "w", "to_end": True, "marks": True},
                ],
            )
            yield Case(
                "resourceversion", f"get {query}", [*many[:1], listed, get(CM + "/c0", query=query)]
            )


TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
ACCEPTS = [
    "",
    "*/*",
    "application/json",
    "application/*",
    "text/html",
    "application/yaml",
    "application/xml",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
    "application/json;as=Table;v=v2;g=meta.k8s.io",
    "application/json;as=Table",
    "application/json;as=Nope;v=v1;g=meta.k8s.io",
    "application/json;as=Table;v=v1;g=nope",
    PARTIAL,
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    TABLE + ",application/json",
    "application/json," + TABLE,
    "text/html,application/json",
    "application/json;q=0.1," + TABLE + ";q=0.9",
    "application/json;q=0.9," + TABLE + ";q=0.1",
    "application/json;stream=watch",
    "application/json;charset=utf-8",
    "application/json;pretty=1",
    "APPLICATION/JSON",
    "application/json ; as=Table ; v=v1 ; g=meta.k8s.io",
    "text/html;q=0.9,*/*;q=0.1",
    "application/json;q=0",
    "x",
    "/",
    ",",
    "application/json;q=x",
    "application/json;as=Table;g=meta.k8s.io;v=v1,application/json;as=Table;g=meta.k8s.io;v=v1beta1,application/json",
    "application/json;as=",
    "application/yaml;q=0.5,application/json",
]


def tables() -> Iterator[Case]:
    for path, one in KINDS + GLOBAL:
        name = one["metadata"]["name"]
        for include in (None, "", "None", "Metadata", "Object", "x", "none"):
            query = {} if include is None else {"includeObject": include}
            listed = (
                get(path, query=query, headers={"Accept": TABLE})
                if "{ns}" in path
                else get(
                    path,
                    query={**query, "fieldSelector": "metadata.name=" + name},
                    headers={"Accept": TABLE},
                )
            )
            yield Case(
                "table",
                f"{path.split('/')[-1]} {include}",
                [
                    post(path, one, unchecked=True),
                    listed,
                    get(f"{path}/{name}", query=query, headers={"Accept": TABLE}),
                ],
            )
            if path in (CM, PODS, WIDGETS):
                yield Case(
                    "table",
                    f"watch {path.split('/')[-1]} {include}",
                    [
                        post(path, one, unchecked=True),
                        {
                            "watch": path,
                            "as": "w",
                            "query": {
                                **query,
                                "watch": "true",
                                "timeoutSeconds": "1",
                                "allowWatchBookmarks": "true",
                            },
                            "headers": {"Accept": TABLE},
                        },
                        patch(path + "/a", {"metadata": {"labels": {"x": "1"}}}, unchecked=True),
                        {"events": "w", "to_end": True, "marks": True},
                    ],
                )
        for accept in (PARTIAL, "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"):
            yield Case(
                "table",
                f"partial {path} {accept}",
                [
                    post(path, one, unchecked=True),
                    *([get(path, headers={"Accept": accept})] if "{ns}" in path else []),
                    get(f"{path}/{name}", headers={"Accept": accept}),
                    patch(
                        f"{path}/{name}",
                        {"metadata": {"labels": {"x": "1"}}},
                        headers={"Accept": accept},
                    ),
                    delete(f"{path}/{name}", headers={"Accept": accept}),
                ],
            )
        for accept in (TABLE, PARTIAL):
            yield Case(
                "table",
                f"writes {path} {accept}",
                [
                    post(path, one, headers={"Accept": accept}),
                    patch(
                        f"{path}/{name}",
                        {"metadata": {"labels": {"x": "1"}}},
                        headers={"Accept": accept},
                    ),
                    patch(
                        f"{path}/{name}",
                        {"metadata": {"labels": {"bad key": "1"}}},
                        headers={"Accept": accept},
                    ),
                    get(f"{path}/nope", headers={"Accept": accept}),
                    delete(f"{path}/{name}", headers={"Accept": accept}),
                ],
            )
    for accept in ACCEPTS:
        for path in (CM, CM + "/a", WIDGETS, WIDGETS + "/a", PODS):
            yield Case(
                "errors",
                f"accept {path.split('/')[-1]} {accept}",
                [
                    post(CM, cm(), unchecked=True),
                    post(WIDGETS, widget(), unchecked=True),
                    get(path, headers={"Accept": accept or None}),
                ],
            )
        yield Case(
            "errors", f"accept post {accept}", [post(CM, cm(), headers={"Accept": accept or None})]
        )
        yield Case(
            "errors", f"accept 404 {accept}", [get(CM + "/zz", headers={"Accept": accept or None})]
        )
        yield Case(
            "errors",
            f"accept watch {accept}",
            [
                {
                    "watch": CM,
                    "as": "w",
                    "query": {"watch": "1", "timeoutSeconds": "1"},
                    "headers": {"Accept": accept or None},
                }
            ],
        )
        for path in (
            "/api",
            "/apis",
            "/api/v1",
            "/apis/batch",
            "/apis/batch/v1",
            "/version",
            "/healthz",
            "/openapi/v3",
        ):
            yield Case(
                "discovery",
                f"accept {path} {accept}",
                [get(path, headers={"Accept": accept or None}, bodyless=True)],
            )
    statuses: list[Any] = [
        {"phase": "Running"},
        {"phase": "Failed", "reason": "Evicted"},
        {"phase": "Succeeded"},
        {
            "phase": "Running",
            "containerStatuses": [
                {
                    "name": "main",
                    "ready": True,
                    "restartCount": 3,
                    "image": "i",
                    "imageID": "",
                    "state": {"running": {"startedAt": "2020-01-01T00:00:00Z"}},
                    "lastState": {
                        "terminated": {"exitCode": 1, "finishedAt": "2020-01-01T00:00:00Z"}
                    },
                }
            ],
        },
        {
            "phase": "Pending",
            "containerStatuses": [
                {
                    "name": "main",
                    "ready": False,
                    "restartCount": 0,
                    "image": "i",
                    "imageID": "",
                    "state": {"waiting": {"reason": "ImagePullBackOff"}},
                }
            ],
        },
        {
            "phase": "Failed",
            "containerStatuses": [
                {
                    "name": "main",
                    "ready": False,
                    "restartCount": 0,
                    "image": "i",
                    "imageID": "",
                    "state": {"terminated": {"exitCode": 3}},
                }
            ],
        },
        {
            "phase": "Failed",
            "containerStatuses": [
                {
                    "name": "main",
                    "ready": False,
                    "restartCount": 0,
                    "image": "i",
                    "imageID": "",
                    "state": {"terminated": {"exitCode": 0, "signal": 9}},
                }
            ],
        },
        {
            "phase": "Running",
            "containerStatuses": [
                {
                    "name": "main",
                    "ready": True,
                    "restartCount": 0,
                    "image": "i",
                    "imageID": "",
                    "state": {"terminated": {"exitCode": 0, "reason": "Completed"}},
                },
                {
                    "name": "b",
                    "ready": True,
                    "restartCount": 1,
                    "image": "i",
                    "imageID": "",
                    "state": {"running": {}},
                },
            ],
        },
        {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]},
        {"nominatedNodeName": "n"},
        {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]},
        {
            "conditions": [
                {"type": "Ready", "status": "True"},
                {"type": "e.com/g", "status": "True"},
            ]
        },
        {"reason": "NodeLost"},
    ]
    for status in statuses:
        for spec in (
            {},
            {"nodeName": "n", "readinessGates": [{"conditionType": "e.com/g"}]},
            {"initContainers": [{"name": "i", "image": "x:1"}]},
        ):
            if spec.get("nodeName") and "nominatedNodeName" in status:
                continue
            yield Case(
                "table",
                f"pod {status} {list(spec)}"[:120],
                [
                    post(PODS, pod(spec), unchecked=True),
                    patch(PODS + "/a/status", {"status": status}),
                    get(PODS, headers={"Accept": TABLE}, query={"includeObject": "None"}),
                ],
            )


def watches() -> Iterator[Case]:
    for path, one in KINDS:
        for query in (
            {},
            {"resourceVersion": "0"},
            {"allowWatchBookmarks": "true"},
            {"sendInitialEvents": "true"},
            {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"},
            {
                "sendInitialEvents": "true",
                "resourceVersionMatch": "NotOlderThan",
                "allowWatchBookmarks": "true",
            },
        ):
            yield Case(
                "watch",
                f"{path} {query}",
                [
                    post(path, one, unchecked=True),
                    {"sleep": 0.3},
                    {
                        "watch": path,
                        "as": "w",
                        "query": {"watch": "true", "timeoutSeconds": "2", **query},
                    },
                    patch(path + "/a", {"metadata": {"labels": {"q": "1"}}}, unchecked=True),
                    delete(path + "/a", query={"gracePeriodSeconds": "0"}, unchecked=True),
                    {"events": "w", "to_end": True, "marks": True},
                ],
            )
    for value in ("true", "1", "false", "0", "x", "", "TRUE", "yes"):
        yield Case(
            "watch",
            f"watch={value}",
            [
                post(CM, cm(), unchecked=True),
                {"watch": CM, "as": "w", "query": {"watch": value, "timeoutSeconds": "1"}},
            ],
        )
        yield Case(
            "watch",
            f"bookmarks={value}",
            [
                post(CM, cm(), unchecked=True),
                {
                    "watch": CM,
                    "as": "w",
                    "query": {"watch": "true", "allowWatchBookmarks": value, "timeoutSeconds": "1"},
                },
                {"events": "w", "to_end": True, "marks": True},
            ],
        )
    for value in ("0", "1", "-1", "x", "", "1.5", "1s"):
        yield Case(
            "watch",
            f"timeout={value}",
            [
                post(CM, cm(), unchecked=True),
                {"watch": CM, "as": "w", "query": {"watch": "true", "timeoutSeconds": value}},
            ],
        )
        yield Case(
            "watch",
            f"list timeout={value}",
            [post(CM, cm(), unchecked=True), get(CM, query={"timeoutSeconds": value})],
        )
    yield Case("watch", "method", [{"do": "POST " + CM, "query": {"watch": "true"}, "body": cm()}])


def discovery() -> Iterator[Case]:
    for path in (
        "/api/v1",
        "/apis/batch/v1",
        "/apis/apps/v1",
        "/apis/policy/v1",
        "/apis/coordination.k8s.io/v1",
        "/apis/discovery.k8s.io/v1",
        "/apis/events.k8s.io/v1",
        "/apis/scheduling.k8s.io/v1",
        "/apis/apiextensions.k8s.io/v1",
        "/apis/" + GROUP + "/v1",
    ):
        for plural in (
            "pods",
            "pods/status",
            "pods/log",
            "pods/eviction",
            "pods/binding",
            "services",
            "services/status",
            "nodes",
            "nodes/status",
            "namespaces",
            "namespaces/status",
            "namespaces/finalize",
            "configmaps",
            "secrets",
            "events",
            "endpoints",
            "jobs",
            "jobs/status",
            "replicasets",
            "replicasets/scale",
            "replicasets/status",
            "poddisruptionbudgets",
            "leases",
            "endpointslices",
            "priorityclasses",
            "customresourcedefinitions",
            "customresourcedefinitions/status",
            "widgets",
            "widgets/status",
            "plains",
        ):
            yield Case(
                "discovery",
                f"{path} {plural}",
                [
                    get(
                        path,
                        bodyless=True,
                        look=["kind", "groupVersion"]
                        + [
                            f"resources[name={plural}].{f}"
                            for f in (
                                "name",
                                "kind",
                                "namespaced",
                                "singularName",
                                "verbs",
                                "shortNames",
                                "categories",
                                "group",
                                "version",
                            )
                        ],
                    )
                ],
            )
    for group in (
        "batch",
        "apps",
        "policy",
        "coordination.k8s.io",
        "discovery.k8s.io",
        "events.k8s.io",
        "scheduling.k8s.io",
        "apiextensions.k8s.io",
        GROUP,
    ):
        yield Case("discovery", f"group {group}", [get("/apis/" + group)])
    for path in (
        "/apis/nope",
        "/apis/batch/v9",
        "/api/v9",
        "/apis/batch/v1/nope",
        "/nope",
        "/",
        "/api/",
        "/apis/",
        "/healthz/",
        "/healthz/ping",
        "/livez",
        "/readyz",
        "/readyz?verbose",
        "/version/",
        "/apis/batch/",
        "/apis/batch/v1/",
        "/api/v1/",
        "/api/v1/nope",
        "/api/v1/namespaces/{ns}/nope",
        "/api/v1/namespaces/{ns}/pods/x/nope",
        "/api/v1/namespaces/{ns}/configmaps/x/status",
        "/api/v1/pods/x",
        "/api/v1/namespaces/{ns}/nodes",
        "/api/v1/namespaces/{ns}/namespaces",
        "/apis/batch/v1/namespaces/{ns}/pods",
        "/apis/" + GROUP + "/v9/namespaces/{ns}/widgets",
        "/apis/" + GROUP + "/v1/namespaces/{ns}/nope",
        "/apis/" + GROUP + "/v1/widgets/x",
        "/apis/" + GROUP + "/v1/namespaces/{ns}/widgets/x/scale",
        "/apis/" + GROUP + "/v1/namespaces/{ns}/widgets/x/nope",
        "/apis/" + GROUP + "/v1/namespaces/{ns}/plains/x/status",
        "/api/v1/namespaces/{ns}/pods/",
        "/api/v1//pods",
        "//api/v1",
        "/api/v1/namespaces//pods",
        "/api/v1/namespaces/{ns}",
        "/api/v1/namespaces/{ns}/",
        "/api/v1/namespaces/{ns}/pods/a/b/c",
        "/openapi/v3/nope",
        "/openapi/v3/api/v1/x",
        "/api/v1/namespaces/{ns}/services/x/proxy",
        "/api/v1/namespaces/{ns}/pods/x/exec",
        "/api/v1/namespaces/{ns}/status",
        "/api/v1/namespaces/{ns}/finalize",
        "/api/v1/nodes/x/status",
        "/api/v1/nodes/x/log",
        "/metrics/x",
        "/api/v1/namespaces/%7Bx/pods",
        "/api/v1/namespaces/{ns}/pods/A",
        "/api/v1/namespaces/{ns}/pods/..",
        "/api/v1/namespaces/{ns}/pods/.",
    ):
        for method in (
            "GET",
            "POST",
            "PUT",
            "PATCH",
            "DELETE",
            "OPTIONS",
            "HEAD",
            "TRACE",
            "NONSENSE",
            "get",
        ):
            yield Case("errors", f"{method} {path}", [{"do": f"{method} {path}", "bodyless": True}])
    for method in (
        "OPTIONS",
        "HEAD",
        "TRACE",
        "NONSENSE",
        "get",
        "CONNECT",
        "PURGE",
        "LINK",
        "POST",
        "PUT",
        "PATCH",
        "DELETE",
        "GET",
    ):
        for path in (
            CM,
            CM + "/a",
            WIDGETS,
            WIDGETS + "/a",
            WIDGETS + "/a/status",
            PODS + "/a/status",
            PODS + "/a/binding",
            PODS + "/a/eviction",
            PODS + "/a/log",
            NODES,
            NAMESPACES + "/{ns}/finalize",
            REPLICASETS + "/a/scale",
            CRDS,
        ):
            if method == "DELETE" and path in (NODES, CRDS):
                continue
            yield Case(
                "errors",
                f"method {method} {path}",
                [
                    post(CM, cm(), unchecked=True),
                    post(PODS, pod(), unchecked=True),
                    post(WIDGETS, widget(), unchecked=True),
                    post(REPLICASETS, rs(), unchecked=True),
                    {
                        "do": f"{method} {path}",
                        "bodyless": method == "GET" and path in (NODES, CRDS),
                    },
                ],
            )


def bodies() -> Iterator[Case]:
    base = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":%s}}'
    values = [
        '"x"',
        "1",
        "null",
        "true",
        "[]",
        "{}",
        '"\\u0000"',
        '"\\ud800"',
        '"\\ud83d\\ude00"',
        '"\\x"',
        '"a\nb"',
        '"\t"',
        "01",
        "1.",
        ".5",
        "+1",
        "-",
        "1e5",
        "1E400",
        "-0",
        "NaN",
        "Infinity",
        "'x'",
        '"x',
        "tru",
        "undefined",
        '"\\u00zz"',
        '"\xff"',
        '"\x7f"',
        "x",
        '{"a":1,}',
        "[1,]",
        "/*c*/1",
        '"a"//c',
    ]
    for value in values:
        for path, form in (
            (CM, base),
            (
                WIDGETS,
                '{"apiVersion":"'
                + GROUP.replace("{", "{").replace("}", "}")
                + '/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":3,"free":{"k":%s}}}',
            ),
        ):
            yield Case(
                "errors",
                f"value {path.split('/')[-1]} {value}",
                [raw("POST", path, form.replace("%s", value)), get(path + "/a")],
            )
    for text in (
        "",
        " ",
        "{",
        "{}",
        "[]",
        "null",
        "nul",
        "true",
        "1",
        '"x"',
        "{} {}",
        "{}x",
        "\ufeff{}".encode("utf-8").decode("latin-1"),
        base % '"x"' + "\n",
        base % '"x"' + "x",
        " \n" + base % '"x"',
        "apiVersion: v1",
        "<x/>",
        "a=b",
        "\x00",
        base % '"x"' + base % '"y"',
        '{"kind":"ConfigMap"}',
        '{"apiVersion":"v1"}',
        '{"kind":"Status","apiVersion":"v1"}',
        '{"kind":"ConfigMapList","apiVersion":"v1","items":[]}',
        '{"kind":"List","apiVersion":"v1","items":[]}',
        "{'a':1}",
        "{a:1}",
        '{"a" 1}',
        '{"a":}',
        '{"":1}',
        "{1:2}",
    ):
        for path in (CM, WIDGETS):
            for kind in (
                "application/json",
                "application/yaml",
                "text/plain",
                "",
                "application/json; charset=utf-8",
                "application/json;charset=latin-1",
                "application/xml",
            ):
                yield Case(
                    "errors",
                    f"body {path.split('/')[-1]} {kind} {text[:30]}",
                    [raw("POST", path, text, type=kind)],
                )
    for depth in (10, 100, 150, 190, 250, 1000, 5000, 9990, 10100):
        for path, head, tail in (
            (CM, '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"x":', "}"),
            (
                WIDGETS,
                '{"apiVersion":"'
                + GROUP
                + '/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":3,"free":',
                "}}",
            ),
        ):
            yield Case(
                "errors",
                f"depth {path.split('/')[-1]} {depth}",
                [
                    {
                        "do": "POST " + path,
                        "raw": [head + '{"a":' * depth + "1" + "}" * depth + tail],
                        "bodyless": True,
                    },
                    get(path + "/a", bodyless=True),
                ],
            )
            yield Case(
                "errors",
                f"depth list {path.split('/')[-1]} {depth}",
                [
                    {
                        "do": "POST " + path,
                        "raw": [head + '{"a":' + "[" * depth + "1" + "]" * depth + "}" + tail],
                        "bodyless": True,
                    },
                    get(path + "/a", bodyless=True),
                ],
            )
    for encoding in ("gzip", "identity", "deflate", "br", "gzip, identity", "*", "gzip;q=0"):
        yield Case(
            "errors",
            f"accept encoding {encoding}",
            [post(CM, cm(data={"k": "1"})), get(CM, headers={"Accept-Encoding": encoding})],
        )
        yield Case(
            "errors",
            f"content encoding {encoding}",
            [post(CM, cm(), headers={"Content-Encoding": encoding})],
        )


def logs() -> Iterator[Case]:
    for query in (
        {},
        {"container": "main"},
        {"container": "x"},
        {"container": ""},
        {"follow": "true"},
        {"follow": "x"},
        {"previous": "true"},
        {"previous": "x"},
        {"sinceSeconds": "1"},
        {"sinceSeconds": "0"},
        {"sinceSeconds": "-1"},
        {"sinceSeconds": "x"},
        {"sinceTime": "x"},
        {"sinceTime": "2020-01-01T00:00:00Z"},
        {"sinceTime": ""},
        {"sinceTime": "2020-01-01T00:00:00Z", "sinceSeconds": "1"},
        {"timestamps": "true"},
        {"timestamps": "x"},
        {"tailLines": "0"},
        {"tailLines": "1"},
        {"tailLines": "-1"},
        {"tailLines": "x"},
        {"tailLines": ""},
        {"limitBytes": "1"},
        {"limitBytes": "0"},
        {"limitBytes": "-1"},
        {"limitBytes": "x"},
        {"limitBytes": ""},
        {"insecureSkipTLSVerifyBackend": "true"},
        {"insecureSkipTLSVerifyBackend": "x"},
        {"stream": "Stdout"},
        {"stream": "Stderr"},
        {"stream": "All"},
        {"stream": "x"},
        {"stream": ""},
        {"stream": "Stdout", "tailLines": "1"},
        {"unknown": "x"},
        {"tailLines": "-1", "limitBytes": "0"},
        {"limitBytes": "99999999999999999999"},
        {"sinceSeconds": ""},
    ):
        yield Case(
            "log",
            f"one {query}",
            [post(PODS, pod(), unchecked=True), get(PODS + "/a/log", query=query)],
        )
        two = pod(
            {
                "containers": [{"name": "m", "image": "x:1"}, {"name": "n", "image": "x:1"}],
                "initContainers": [{"name": "i", "image": "x:1"}],
            }
        )
        yield Case(
            "log",
            f"two {query}",
            [
                post(PODS, two, unchecked=True),
                get(PODS + "/a/log", query=query),
                get(PODS + "/a/log", query={**query, "container": "n"}),
                get(PODS + "/a/log", query={**query, "container": "i"}),
                get(PODS + "/a/log", query={**query, "container": "zz"}),
            ],
        )
        annotated = pod(
            {"containers": [{"name": "m", "image": "x:1"}, {"name": "n", "image": "x:1"}]},
            metadata={"annotations": {"kubectl.kubernetes.io/default-container": "n"}},
        )
        yield Case(
            "log",
            f"annotated {query}",
            [post(PODS, annotated, unchecked=True), get(PODS + "/a/log", query=query)],
        )
        yield Case("log", f"missing {query}", [get(PODS + "/zz/log", query=query)])
        yield Case(
            "log",
            f"bound {query}",
            [
                post(PODS, pod({"nodeName": "nope-{u}"}), unchecked=True),
                get(PODS + "/a/log", query=query, coarse=True),
            ],
        )


def gets() -> Iterator[Case]:
    for path, one in KINDS + GLOBAL:
        name = one["metadata"]["name"]
        yield Case(
            "get",
            f"{path}",
            [
                get(f"{path}/zz-{{u}}"),
                post(path, one, unchecked=True),
                {"sleep": 0.4},
                get(f"{path}/{name}", bodyless=path in (JOBS, REPLICASETS)),
                get(f"{path}/{name}/status", bodyless=path in (JOBS, REPLICASETS)),
                get(f"{path}/{name}", query={"pretty": "true"}, bodyless=True),
                get(f"{path}/{name}", query={"resourceVersion": "x"}),
                get(f"{path}/{name}", query={"resourceVersion": "1"}, bodyless=True),
                get(f"{path}/{name}", query={"exact": "true", "export": "true"}, bodyless=True),
                *([get(path)] if "{ns}" in path else []),
            ],
        )
        for sub in (
            "status",
            "scale",
            "binding",
            "eviction",
            "log",
            "finalize",
            "nope",
            "proxy",
            "exec",
            "attach",
            "portforward",
            "ephemeralcontainers",
            "resize",
            "token",
        ):
            for method in ("GET", "PUT", "POST", "PATCH", "DELETE"):
                if sub not in (
                    "proxy",
                    "exec",
                    "attach",
                    "portforward",
                    "ephemeralcontainers",
                    "resize",
                ):
                    yield Case(
                        "get",
                        f"{method} {path.split('/')[-1]} {sub}",
                        [{"do": f"{method} {path}/{name}/{sub}"}],
                    )


def all_cases() -> Iterator[Case]:
    for family in (selectors, paging, tables, watches, discovery, bodies, logs, gets):
        yield from family()
