// Questions: why a job waits, and what would happen to another.
"use strict";

// When a waiting job starts, by the autoscaler's estimate: three percentiles, each missing where it is unknown.
function startText(start) {
  if (!start) return "";
  const away = (moment) => length((Date.parse(moment) - Date.now()) / 1000);
  const because = start.dependsOn ? `: ${start.dependsOn} runs, and when it ends is unknown` : "";
  if (!start.p10) return `unknown${because}`;
  if (!start.p50) return `not before ${away(start.p10)} from now; beyond that unknown${because}`;
  const latest = start.p90 ? `${away(start.p90)} from now` : `a time that is unknown${because}`;
  return `between ${away(start.p10)} and ${latest}, half of such jobs within ${away(start.p50)}`;
}

function explainParts(found) {
  const parts = [el("p", { class: "lead" }, found.summary)];
  const facts = [];
  if (found.startEstimate) facts.push(["starts", startText(found.startEstimate)]);
  const queue = found.queue;
  if (queue) {
    const place = queue.position ? `position ${queue.position} of ${queue.nWaiting}` : "no position";
    const ahead = queue.ahead.length ? `; before it: ${queue.ahead.slice(0, 5).join(", ")}${queue.ahead.length > 5 ? " …" : ""}` : "";
    facts.push(["queue", `${queue.name}, ${queue.state}, holds ${amounts(queue.allocated) || "nothing"}`]);
    if (found.standing === "Waiting") facts.push(["place", `${place}${ahead}`]);
    for (const one of queue.limits) {
      facts.push(["limit", `${one.queue ? `queue ${one.queue}` : "the cluster"}: ${one.resource} ${one.held} of ${one.allowed}, ${one.asked} more asked for`]);
    }
  }
  for (const one of found.classes || []) {
    const why = one.refusals.map((refusal) => `${refusal.nNodes} ${refusal.text}`).join(", ");
    facts.push(["asks", `${one.role ? `${one.role}: ` : ""}${one.nPods} × ${amounts(one.each)}`],
      ["nodes", `${one.nNodesFit} of ${one.nNodes} fit${why ? `; ${why}` : ""}`]);
  }
  for (const one of found.podTroubles) facts.push(["pod", one]);
  for (const one of found.victims || []) facts.push(["has to leave", one]);
  if (found.schedulerSaid) facts.push(["the scheduler said", `${found.schedulerSaid.reason}: ${found.schedulerSaid.message}`]);
  for (const one of found.notes) facts.push(["note", one]);
  if (facts.length) parts.push(table(["", ""], facts));
  if ((found.holders || []).length) {
    parts.push(el("h3", {}, "Who holds the room"), table(["job", "queue", "priority", "pods", "holds", "can it be moved"],
      found.holders.map((one) => [one.name, one.queue || "-", one.priority ?? "-", one.nPods, amounts(one.holds), one.text])));
  }
  if ((found.advice || []).length) {
    parts.push(el("h3", {}, "What would help"), el("ul", {}, ...found.advice.map((one) =>
      el("li", {}, one.text, ...(one.command ? [" ", el("code", {}, one.command)] : [])))));
  }
  return parts;
}

// The section of a job's view that says why it waits; it is asked for, since it reads the whole cluster.
function whySection(path) {
  const body = el("div", { id: "why", "aria-live": "polite" });
  const load = async () => {
    body.textContent = "…";
    try { body.replaceChildren(...explainParts(await ask(`${path}/explain`))); }
    catch (error) { body.replaceChildren(el("p", {}, error.message)); }
  };
  const again = el("button", { type: "button", id: "explain", onclick: load }, "explain");
  return { load, parts: [el("h2", {}, "Why it stands as it does ", again), body] };
}

const ASKED = { priority: "Priority class", queue: "Queue", replicas: "Size", nodePool: "With more nodes, such as +4x8gpu",
  without: "Without the job (namespace/name)", drain: "With this node drained" };

function whatif([picked]) {
  const names = [...state.aitrainingjobs.values()].filter((row) => !row.isOver).slice(0, 2000).map((row) => keyOf(row)).sort();
  const job = el("input", { id: "picked", list: "names", autocomplete: "off", value: picked || "" });
  const list = el("datalist", { id: "names" }, ...names.map((value) => el("option", { value })));
  const manifest = el("textarea", { id: "manifest", rows: 8, spellcheck: "false", "aria-describedby": "hint" });
  const fields = Object.fromEntries(Object.keys(ASKED).map((name) => [name, el("input", { id: `if-${name}`, autocomplete: "off",
    type: name === "replicas" ? "number" : "text", min: name === "replicas" ? 1 : false })]));
  const answers = el("div", { id: "answers", "aria-live": "polite" });
  const form = el("form", { class: "whatif", onsubmit: async (event) => {
    event.preventDefault();
    const body = { job: job.value.trim(), manifest: manifest.value };
    for (const [name, field] of Object.entries(fields)) {
      if (field.value) body[name] = name === "replicas" ? Number(field.value) : field.value;
    }
    answers.textContent = "…";
    try { answers.replaceChildren(outlooks((await post("/api/what-if", body)).answers)); }
    catch (error) { answers.replaceChildren(el("p", { class: "bad" }, error.message)); }
  } },
  el("p", {}, el("label", { for: "picked" }, "A job that is there (namespace/name)"), job, list),
  el("p", {}, el("label", { for: "manifest" }, "or the manifest of one that is not"), manifest),
  el("fieldset", {}, el("legend", {}, "And if …"), ...Object.entries(ASKED).map(([name, text]) =>
    el("p", {}, el("label", { for: `if-${name}` }, text), fields[name]))),
  el("p", {}, el("button", { type: "submit" }, "Ask")),
  el("p", { id: "hint", class: "soft" }, "Worked out on a copy of the cluster; nothing is changed."));
  main().replaceChildren(el("h1", {}, "What if"), form, answers);
}

function outlooks(found) {
  const where = (nodes) => {
    const places = Object.entries(nodes).map(([node, n]) => `${node} ×${n}`);
    return places.slice(0, 4).join(", ") + (places.length > 4 ? ` and ${places.length - 4} more` : "");
  };
  return table(["", "starts", "where", "who makes room", "size", "why"], found.map((one) => [
    one.variant, one.startEstimate ? `${one.starts}: ${startText(one.startEstimate)}` : one.starts, where(one.nodes),
    one.makesRoom.join("; ") || "-", one.size || "-", one.why]));
}
