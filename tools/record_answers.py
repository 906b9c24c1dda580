"""Asks a real API server the questions in tests/data/real_answers again, and writes its answers.

Run from the top of the tree: `python -m tools.record_answers`. Starts the testbed's control plane.
Decides how each file's questions are put; what is asked is in the files.
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
from pathlib import Path
from typing import Any

from tests.access_answers import exchange
from tests.testbed.control_plane import ControlPlane, running_control_plane

ANSWERS = Path("tests/data/real_answers")
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "answers.example.com"
SERVED_S = 5.0  # a new definition is served a little after it is established
RIGHTS_S = 0.3  # a real server decides by roles that it knew a moment ago
FIELDS_MAX = 30  # rules in one definition, so that their total cost stays within bounds

Json = dict[str, Any]


class Asker:
    """One connection to the server, every question a dry run."""

    def __init__(self, plane: ControlPlane) -> None:
        context = ssl.create_default_context(cafile=str(plane.ca_file))
        host = plane.server_url.removeprefix("https://")
        self._connection = http.client.HTTPSConnection(host, context=context)
        self._token = plane.token

    def post(self, path: str, body: Json, *, dry_run: bool = True) -> Json:
        """Status, causes that have a field, and the object when there is one."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        query = "?dryRun=All" if dry_run else ""
        self._connection.request("POST", path + query, json.dumps(body), headers)
        answer = self._connection.getresponse()
        found = json.loads(answer.read())
        causes = (found.get("details") or {}).get("causes") or [] if answer.status >= 400 else []
        pairs = {(cause.get("field", ""), cause.get("reason", "")) for cause in causes}
        shown = [list(pair) for pair in sorted(pairs) if pair[0] != "<nil>"]
        return {"status": answer.status, "causes": shown, "object": found}

    def ask(self, question: Json) -> tuple[int, Json]:
        """Status and comparable answer of a request, as another user if the question says so."""
        headers = {"Authorization": f"Bearer {self._token}"}
        return exchange(self._connection, question, headers)


def definition(plural: str, schema: Json) -> Json:
    version = {"name": "v1", "served": True, "storage": True}
    return {
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {"plural": plural, "kind": plural.capitalize()},
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def with_spec(schema: Json) -> Json:
    return {"type": "object", "properties": {"spec": schema}}


def with_rule(fields: Json, raw: Json) -> Json:
    return {"type": "object", "properties": fields, "x-kubernetes-validations": [raw]}


def ask_objects(asker: Asker, document: Json) -> None:
    for index, question in enumerate(document["questions"]):
        body = json.loads(json.dumps(question["body"]))
        if isinstance(body.get("metadata"), dict):
            body["metadata"].setdefault("name", f"subject-{index}")
        answer = asker.post(question.get("path") or document["path"], body)
        question["status"] = answer["status"]
        if answer["status"] >= 400:
            question["causes"] = answer["causes"]


def ask_custom(asker: Asker, document: Json) -> None:
    asker.post(CRDS, definition("customs", document["schema"]), dry_run=False)
    time.sleep(SERVED_S)
    for question in document["questions"]:
        body = a_custom("customs", question["spec"])
        answer = asker.post(f"/apis/{GROUP}/v1/customs", body)
        question["status"], question["causes"] = answer["status"], answer["causes"]
        if answer["status"] == 201:
            question["stored"] = answer["object"].get("spec")


def a_custom(plural: str, spec: object) -> Json:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": plural.capitalize(),
        "metadata": {"name": "x"},
        "spec": spec,
    }


def ask_definitions(asker: Asker, document: Json) -> None:
    for question in document["questions"]:
        schema = question.get("schema")
        if schema is None:
            schema = with_spec(with_rule(document["fields"], question["rule"]))
        question["accepted"] = asker.post(CRDS, definition("probes", schema))["status"] == 201


def ask_schemas(asker: Asker, document: Json) -> None:
    for question in document["questions"]:
        body = definition("probes", question["schema"])
        version = body["spec"]["versions"][0]
        version["subresources"] = {"status": {}} if question["hasStatus"] else {}
        answer = asker.post(CRDS, body)
        question["status"] = answer["status"]
        if answer["status"] >= 400:
            question["causes"] = answer["causes"]
            continue
        stored = answer["object"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        question.pop("stored", None)
        if stored != question["schema"]:
            question["stored"] = stored


def ask_rules(asker: Asker, document: Json) -> None:
    for question in document["questions"]:
        schema = with_spec(with_rule(document["fields"], {"rule": question["rule"]}))
        question["accepted"] = asker.post(CRDS, definition("probes", schema))["status"] == 201
    accepted = [question for question in document["questions"] if question["accepted"]]
    groups = [accepted[at : at + FIELDS_MAX] for at in range(0, len(accepted), FIELDS_MAX)]
    for number, group in enumerate(groups):
        fields = {
            f"r{index}": with_rule(document["fields"], {"rule": question["rule"]})
            for index, question in enumerate(group)
        }
        schema = with_spec({"type": "object", "properties": fields})
        asker.post(CRDS, definition(f"group{number}s", schema), dry_run=False)
    time.sleep(SERVED_S)
    for number, group in enumerate(groups):
        plural = f"group{number}s"
        for index, question in enumerate(group):
            body = a_custom(plural, {f"r{index}": document["value"]})
            question["holds"] = asker.post(f"/apis/{GROUP}/v1/{plural}", body)["status"] == 201


def ask_access(asker: Asker, document: Json) -> None:
    for question in document["questions"]:
        question["status"], question["answer"] = asker.ask(question)
        if "as" not in question:
            time.sleep(RIGHTS_S)


QUESTIONS = {
    "access": ask_access,
    "pods": ask_objects,
    "kinds": ask_objects,
    "custom": ask_custom,
    "definitions": ask_definitions,
    "rules": ask_rules,
    "schemas": ask_schemas,
}


def write(path: Path, document: Json) -> None:
    """One question a line, so that a changed answer is one changed line."""
    head = {key: value for key, value in document.items() if key != "questions"}
    lines = ["{"]
    lines += [f" {json.dumps(k)}: {json.dumps(v, sort_keys=True)}," for k, v in head.items()]
    questions = [
        json.dumps(question, ensure_ascii=False, sort_keys=True)
        for question in document["questions"]
    ]
    lines += [' "questions": [', ",\n".join(f"  {question}" for question in questions), " ]", "}"]
    path.write_text("\n".join(lines) + "\n")


def main() -> None:
    with running_control_plane() as plane:
        asker = Asker(plane)
        work = {"metadata": {"name": "work"}}
        asker.post("/api/v1/namespaces", work, dry_run=False)
        for name, ask in QUESTIONS.items():
            path = ANSWERS / f"{name}.json"
            document = json.loads(path.read_text())
            ask(asker, document)
            write(path, document)


if __name__ == "__main__":
    main()
