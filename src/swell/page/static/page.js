// The page: one script without libraries. Every text from the cluster is set as text, never as
// markup: `el` makes elements, and strings among its children become text nodes.
"use strict";

const OWN = { "X-Swell-Page": "1", "Content-Type": "application/json" };
const ROW = 28; // the height of a row, as the style sheet has it
const COLORS = {
  queued: "#9aa4b2", blocked: "#c3a6e8", suspended: "#6b7280", starting: "#e3b341",
  running: "#2da44e", restart: "#e5534b", resize: "#2f8fdb", preemption: "#d2691e",
  node: "#a11d5b", ending: "#7c8aa0",
};
const VIEWS = { overview: "Overview", jobs: "Jobs", queues: "Queues", nodes: "Nodes",
  history: "History" };
const state = { aitrainingjobs: new Map(), trainingjobs: new Map(), queues: new Map(),
  nodes: new Map() };
let stream = null;
let redraw = null; // draws the live parts of the present view
let leave = null; // ends what the present view has begun
let drawing = false;

function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.map((one) => (one instanceof Node ? one : String(one ?? ""))));
  return made;
}

function svg(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const main = () => document.getElementById("main");
const keyOf = (row) => `${row.namespace || ""}/${row.name}`;
const notice = (text) => { document.getElementById("notice").textContent = text || ""; };

async function ask(path, options) {
  const answer = await fetch(path, options);
  const body = await answer.json();
  if (answer.status === 401 && path !== "/api/login") { showLogin(body.error); throw new Error(body.error); }
  if (!answer.ok) throw new Error(body.error || `the answer was ${answer.status}`);
  return body;
}

const post = (path, body) =>
  ask(path, { method: "POST", headers: OWN, body: JSON.stringify(body || {}) });

function length(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  const d = Math.floor(whole / 86400), h = Math.floor(whole / 3600) % 24;
  const m = Math.floor(whole / 60) % 60, s = whole % 60;
  if (d) return `${d}d${h}h`;
  if (h) return `${h}h${m}m`;
  return m ? `${m}m${s}s` : `${s}s`;
}

const amount = (text) => (text ? parseFloat(text) * (String(text).endsWith("m") ? 0.001 : 1) : 0);

function table(heads, rows) {
  return el("div", { class: "scroll" }, el("table", {},
    el("thead", {}, el("tr", {}, ...heads.map((one) => el("th", { scope: "col" }, one)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((one) => el("td", {}, one)))))));
}

// -- login and the stream ---------------------------------------------------------------------

function showLogin(why) {
  if (stream) { stream.close(); stream = null; }
  if (leave) { leave(); leave = null; }
  redraw = null;
  for (const held of Object.values(state)) held.clear();
  document.getElementById("nav").hidden = true;
  document.getElementById("logout").hidden = true;
  document.getElementById("who").textContent = "";
  const token = el("input", { id: "token", type: "password", autocomplete: "off", required: "" });
  const names = el("input", { id: "namespaces", autocomplete: "off" });
  const form = el("form", { method: "post", action: "/api/login", onsubmit: async (event) => {
    event.preventDefault();
    const namespaces = names.value.split(/[\s,]+/).filter(Boolean);
    try {
      await post("/api/login", { token: token.value, namespaces });
    } catch (error) {
      notice(error.message);
      return;
    } finally {
      token.value = "";
    }
    notice("");
    start();
  } },
  el("p", {}, el("label", { for: "token" }, "Token, or the code that swell dashboard printed"), token),
  el("p", {}, el("label", { for: "namespaces" }, "Namespaces (empty: all that you may see)"), names),
  el("p", {}, el("button", { type: "submit" }, "Log in")));
  main().replaceChildren(el("h1", {}, "Log in"), form);
  notice(why && why !== "log in first" ? why : "");
  token.focus();
}

async function start() {
  let me;
  try { me = await ask("/api/me"); } catch { return; }
  document.getElementById("who").textContent = me.user;
  document.getElementById("logout").hidden = false;
  const nav = document.getElementById("nav");
  nav.hidden = false;
  nav.replaceChildren(...Object.entries(VIEWS).map(([view, name]) =>
    el("a", { href: `#/${view}`, "data-view": view }, name)));
  stream = new EventSource("/api/stream");
  stream.addEventListener("state", (event) => {
    for (const [kind, rows] of Object.entries(JSON.parse(event.data))) {
      state[kind] = new Map(rows.map((row) => [keyOf(row), row]));
    }
    changed();
  });
  stream.addEventListener("changes", (event) => {
    for (const one of JSON.parse(event.data)) {
      if (one.row) state[one.kind].set(keyOf(one), one.row);
      else state[one.kind].delete(keyOf(one));
    }
    changed();
  });
  stream.onerror = () => notice("the connection is interrupted; trying again");
  stream.onopen = () => notice("");
  show();
}

function changed() {
  if (drawing || !redraw) return;
  drawing = true; // several changes are drawn once
  requestAnimationFrame(() => { drawing = false; if (redraw) redraw(); });
}

// -- views ------------------------------------------------------------------------------------

function show() {
  if (leave) { leave(); leave = null; }
  redraw = null;
  const [view, ...rest] = decodeURI(location.hash.replace(/^#\/?/, "")).split("/");
  const name = VIEWS[view] || view === "job" ? view : "overview";
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === (name === "job" ? "jobs" : name)) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  ({ overview, jobs, job, queues, nodes, history })[name](rest.map(decodeURIComponent));
  main().focus({ preventScroll: true });
}

const allJobs = () => [...state.aitrainingjobs.values(), ...state.trainingjobs.values()];
const jobLink = (row) => el("a", {
  href: `#/job/${[row.kind, row.namespace, row.name].map(encodeURIComponent).join("/")}`,
}, `${row.namespace}/${row.name}`);
const phase = (row) => el("span", { class: `phase p-${row.phase.replace(/\W/g, "")}` }, row.phase);

function overview() {
  const cards = el("div", { class: "cards" });
  const waiting = el("div", {});
  const load = el("div", {});
  main().replaceChildren(el("h1", {}, "Overview"), cards, el("h2", {}, "What waits, and why"), waiting,
    el("h2", {}, "Queues"), load);
  redraw = () => {
    const rows = allJobs();
    const count = (test) => rows.filter(test).length;
    const top = [...state.queues.values()].filter((one) => !state.queues.has(`/${one.parent}`));
    const use = (name) => {
      const all = [...state.nodes.values()].reduce((sum, one) => sum + amount(one.allocatable[name]), 0);
      const used = top.reduce((sum, one) => sum + amount(one.allocated[name]), 0);
      return all ? `${Math.round(100 * used / all)}%` : "-";
    };
    const bad = [...state.nodes.values()].filter((node) => node.faults.length || node.isCordoned);
    const card = (name, value) => el("div", { class: "card" }, el("b", {}, value), el("span", {}, name));
    cards.replaceChildren(
      card("running", count((row) => row.phase === "Running")),
      card("waiting", count((row) => ["New", "Pending", "Creating"].includes(row.phase))),
      card("interrupted", count((row) => ["Restarting", "Terminating"].includes(row.phase))),
      card("over", count((row) => row.isOver)),
      card("of the cpus in use", use("cpu")), card("of the GPUs in use", use("nvidia.com/gpu")),
      card("nodes", state.nodes.size), card("nodes with faults", bad.length));
    const held = rows.filter((row) => row.phase === "Pending").slice(0, 50);
    waiting.replaceChildren(held.length ? table(["job", "queue", "reason", ""],
      held.map((row) => [jobLink(row), row.queue, row.reason, row.message])) : el("p", {}, "Nothing waits."));
    load.replaceChildren(queueTable());
  };
  redraw();
}

let filter = "", sortBy = "name", upwards = true;

function jobs() {
  const input = el("input", { id: "filter", type: "search", value: filter, "aria-label": "Filter jobs",
    placeholder: "Filter: name, phase, queue, reason", oninput: (event) => {
      filter = event.target.value; list.scrollTop = 0; redraw();
    } });
  const shown = el("span", { id: "shown", class: "soft" });
  const space = el("div", { id: "space" });
  const columns = ["name", "phase", "ready", "queue", "restarts", "message"];
  const head = el("div", { class: "row head", role: "row" }, ...columns.map((name) =>
    el("button", { type: "button", onclick: () => {
      upwards = sortBy === name ? !upwards : true; sortBy = name; redraw();
    } }, name)));
  const list = el("div", { id: "list", tabindex: "0", role: "table", "aria-label": "Jobs" }, head, space);
  main().replaceChildren(el("h1", {}, "Jobs"), el("p", {}, input, " ", shown), list);
  let rows = [];
  // Only rows in sight are in the document, however many there are.
  const draw = () => {
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 5);
    const last = Math.min(rows.length, first + Math.ceil(list.clientHeight / ROW) + 10);
    space.style.height = `${rows.length * ROW}px`;
    const focused = document.activeElement && document.activeElement.getAttribute("href");
    space.replaceChildren(...rows.slice(first, last).map((row, at) => {
      const line = el("div", { class: "row", role: "row" }, jobLink(row), phase(row), el("span", {}, row.ready),
        el("span", {}, row.queue), el("span", {}, row.restarts),
        el("span", { title: row.message }, row.message || row.reason));
      line.style.top = `${(first + at) * ROW}px`;
      return line;
    }));
    if (focused) {
      const again = [...space.querySelectorAll("a")].find((one) => one.getAttribute("href") === focused);
      if (again) again.focus({ preventScroll: true });
    }
  };
  list.addEventListener("scroll", () => requestAnimationFrame(draw));
  redraw = () => {
    const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
    rows = allJobs().filter((row) => {
      if (!words.length) return true;
      const text = `${row.namespace}/${row.name} ${row.phase} ${row.queue} ${row.reason}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
    // Keys are made once for a row, not once for a comparison.
    const keyed = rows.map((row) => {
      const key = keyOf(row);
      return [sortBy === "name" ? key : row[sortBy], key, row];
    });
    const way = upwards ? 1 : -1;
    keyed.sort((a, b) => way * (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : a[1] < b[1] ? -1 : 1));
    rows = keyed.map((one) => one[2]);
    shown.textContent = `${rows.length} of ${state.aitrainingjobs.size + state.trainingjobs.size}`;
    draw();
  };
  redraw();
}

function queueTable() {
  const rows = [];
  const queues = [...state.queues.values()];
  const named = new Set(queues.map((one) => one.name));
  const below = (parent, depth) => {
    for (const queue of queues.filter((one) => (named.has(one.parent) ? one.parent : "") === parent)) {
      const waits = allJobs().filter((row) => row.queue === queue.name && row.phase === "Pending");
      const amounts = (map) => Object.entries(map).map(([name, value]) => `${name} ${value}`).join(", ");
      rows.push([`${"\u00a0\u00a0".repeat(depth)}${queue.name}`, queue.state, queue.weight,
        amounts(queue.allocated), amounts(queue.deserved), amounts(queue.guarantee),
        amounts(queue.capability), queue.running, waits.length || queue.pending]);
      if (depth < 20) below(queue.name, depth + 1);
    }
  };
  below("", 0);
  return table(["queue", "state", "weight", "in use", "deserved", "guaranteed", "at most", "run", "wait"], rows);
}

function queues() {
  const body = el("div", {});
  main().replaceChildren(el("h1", {}, "Queues"), body);
  redraw = () => body.replaceChildren(queueTable());
  redraw();
}

function nodes() {
  const body = el("div", {});
  main().replaceChildren(el("h1", {}, "Nodes"), body);
  redraw = () => {
    const rows = [...state.nodes.values()].slice(0, 1000).map((node) => [node.name,
      node.faults.join(", ") || (node.isCordoned ? "cordoned" : "ready"),
      Object.entries(node.allocatable).filter(([name]) => name === "cpu" || name === "memory"
        || name.endsWith("/gpu")).map(([name, value]) => `${name} ${value}`).join(", "),
      Object.values(node.labels).join(", "), node.taints.join(", ")]);
    body.replaceChildren(state.nodes.size ? table(["node", "state", "has", "domains", "taints"], rows)
      : el("p", {}, "You may not see nodes, or there are none."));
  };
  redraw();
}

function history() {
  const days = el("select", { id: "days", "aria-label": "How long ago", onchange: () => load() },
    ...[["1", "a day"], ["7", "a week"], ["30", "30 days"], ["", "all"]].map(([value, text]) =>
      el("option", { value, selected: value === "7" ? "" : false }, text)));
  const body = el("div", {}, "…");
  main().replaceChildren(el("h1", {}, "History"), el("p", {}, days), body);
  const load = async () => {
    let found;
    try { found = (await ask(`/api/history?days=${days.value}`)).jobs; } catch (error) { notice(error.message); return; }
    const sum = (part) => found.reduce((total, one) => total + part(one), 0);
    const cards = el("div", { class: "cards" }, ...[
      ["jobs", found.length], ["cpu hours", sum((one) => one.cost.cpuHours).toFixed(2)],
      ["GPU hours", sum((one) => one.cost.gpuHours).toFixed(2)],
      ["lost", length(sum((one) => one.lostSeconds))],
    ].map(([name, value]) => el("div", { class: "card" }, el("b", {}, value), el("span", {}, name))));
    const kinds = { AITrainingJob: "aitrainingjobs", TrainingJob: "trainingjobs" };
    const rows = found.slice(0, 1000).map((one) => [
      jobLink({ ...one, kind: kinds[one.kind] || "aitrainingjobs" }), phase(one), one.user || "-", one.queue, one.ended,
      length(one.wallSeconds), length(one.ledger.queued), length(one.ledger.running),
      length(one.lostSeconds), one.restarts, one.cost.cpuHours.toFixed(2), one.cost.gpuHours.toFixed(2), one.reason]);
    body.replaceChildren(cards, table(["job", "phase", "user", "queue", "ended", "wall", "queued", "running",
      "lost", "restarts", "cpu h", "GPU h", "reason"], rows));
  };
  load();
}

// -- one job ----------------------------------------------------------------------------------

function job([kind, namespace, name]) {
  const path = `/api/jobs/${[kind, namespace, name].map(encodeURIComponent).join("/")}`;
  const title = el("h1", {}, `${namespace}/${name}`);
  const buttons = el("p", { id: "actions" });
  const body = el("div", {}, "…");
  const logs = el("div", {});
  main().replaceChildren(title, buttons, body, logs);
  let seen = "", timer = 0, asking = false, shownPods = "";
  const control = new AbortController();
  leave = () => { clearTimeout(timer); control.abort(); };
  const load = async () => {
    asking = true;
    try {
      const found = await ask(path);
      body.replaceChildren(...jobParts(found));
      const pods = (found.livePods || []).map((pod) => pod.name).join();
      if (pods !== shownPods) { shownPods = pods; logs.replaceChildren(...logParts(namespace, found, control)); }
    } catch (error) { body.replaceChildren(el("p", {}, error.message)); } finally { asking = false; }
  };
  redraw = () => {
    const row = (state[kind] || new Map()).get(`${namespace}/${name}`);
    const now = JSON.stringify(row || null);
    if (now === seen && seen) return;
    seen = now;
    buttons.replaceChildren(...(row && !row.isOver ? actions(path, row) : []));
    title.replaceChildren(`${namespace}/${name} `, ...(row ? [phase(row)] : []));
    if (!asking) { clearTimeout(timer); timer = setTimeout(load, 50); } else { timer = setTimeout(load, 300); }
  };
  redraw();
}

function jobParts(found) {
  const facts = table(["", ""], [["phase", found.phase], ["reason", found.reason], ["message", found.message],
    ["queue", found.queue], ["user", found.user || "-"], ["created", found.created], ["ended", found.ended || "-"],
    ["wall", length(found.wallSeconds)], ["lost", length(found.lostSeconds)], ["restarts", found.restarts],
    ["held", `${found.cost.cpuHours} cpu h, ${found.cost.gpuHours} GPU h`]]);
  const parts = [facts, el("h2", {}, "Timeline"), timeline(found), legend(found)];
  parts.push(table(["from", "length", "cause", "detail"], found.timeline.map((one) =>
    [one.start, length(one.seconds), one.cause, one.detail])));
  for (const [name, field] of [["Loss", "loss"], ["Samples a second", "rate"]]) {
    const points = found.progress.filter((one) => one[field] !== null);
    if (points.length > 1) parts.push(el("h2", {}, name), curve(found, points, field));
  }
  if (found.sizes.length) parts.push(el("h2", {}, "Sizes"), table(["time", "role", "size", "by", "reason"],
    found.sizes.map((one) => [one.time, one.role, one.size, one.by, one.reason])));
  parts.push(el("h2", {}, "Pods"), table(["pod", "node", "start", "end", "outcome"], found.pods.map((one) =>
    [`${one.role}-${one.index}`, one.node, one.start, one.end || "-", one.outcome])));
  if ((found.events || []).length) parts.push(el("h2", {}, "Events"), table(["time", "type", "reason", "message"],
    found.events.map((one) => [one.time, one.type, one.reason, one.message])));
  return parts;
}

function axis(found) {
  const start = Date.parse(found.created), end = found.ended ? Date.parse(found.ended) : Date.now();
  return (time) => 110 + 790 * Math.min(1, Math.max(0, (Date.parse(time) - start) / Math.max(1000, end - start)));
}

function bar(x, from, to, top, height, color, title) {
  const rect = svg("rect", { x: x(from), y: top, width: Math.max(0.5, x(to) - x(from)), height, fill: color });
  const text = svg("title");
  text.textContent = title;
  rect.append(text);
  return rect;
}

function label(text, top) {
  const made = svg("text", { x: 102, y: top, "text-anchor": "end" });
  made.textContent = text.length > 16 ? `${text.slice(0, 15)}…` : text;
  return made;
}

function timeline(found) {
  const x = axis(found), parts = [label("time", 18)];
  for (const one of found.timeline) {
    parts.push(bar(x, one.start, one.end, 0, 26, COLORS[one.cause], `${one.cause}: ${length(one.seconds)} ${one.detail}`));
  }
  const places = [...new Set(found.pods.map((one) => `${one.role}-${one.index}`))].sort().slice(0, 60);
  places.forEach((place, at) => parts.push(label(place, 44 + 13 * at)));
  for (const one of found.pods) {
    const at = places.indexOf(`${one.role}-${one.index}`);
    if (at < 0) continue;
    const end = one.end || found.ended || new Date().toISOString();
    const color = one.outcome.startsWith("exit") ? COLORS.restart : COLORS.running;
    parts.push(bar(x, one.start, end, 35 + 13 * at, 10, color, `${place(one)} on ${one.node} ${one.outcome}`));
  }
  return svg("svg", { viewBox: `0 0 900 ${42 + 13 * places.length}`, role: "img", "aria-label": "Timeline" }, ...parts);
}

const place = (one) => `${one.role}-${one.index}`;

function legend(found) {
  return el("p", {}, ...[...new Set(found.timeline.map((one) => one.cause))].map((cause) => {
    const square = el("i");
    square.style.background = COLORS[cause];
    return el("span", { class: "key" }, square, cause);
  }));
}

function curve(found, points, field) {
  const x = axis(found), values = points.map((one) => one[field]);
  const low = Math.min(...values), span = Math.max(...values) - low || 1;
  const line = points.map((one) => `${x(one.time)},${10 + 130 * (1 - (one[field] - low) / span)}`).join(" ");
  return svg("svg", { viewBox: "0 0 900 150", role: "img", "aria-label": field },
    svg("rect", { class: "bed", x: 110, y: 0, width: 790, height: 150 }),
    svg("polyline", { class: "trace", points: line }), label(String(Math.max(...values)), 14), label(String(low), 146));
}

function logParts(namespace, found, control) {
  const pods = found.livePods || [];
  if (!pods.length) return [];
  const out = el("pre", { id: "log", tabindex: "0", "aria-label": "Log" });
  const choice = el("select", { id: "pod", "aria-label": "Pod", onchange: () => follow() },
    ...pods.flatMap((pod) => pod.containers.map((one) => el("option", { value: JSON.stringify([pod.name, one]) }, `${pod.name}: ${one}`))));
  let reading = null;
  const follow = async () => {
    if (reading) reading.abort();
    const mine = reading = new AbortController();
    control.signal.addEventListener("abort", () => mine.abort());
    out.textContent = "";
    const [pod, container] = JSON.parse(choice.value);
    try {
      const answer = await fetch(`/api/logs/${[namespace, pod, container].map(encodeURIComponent).join("/")}`, { signal: mine.signal });
      if (!answer.ok) { out.textContent = (await answer.json()).error; return; }
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        out.append(value);
        while (out.textContent.length > 500000 && out.firstChild !== out.lastChild) out.firstChild.remove();
        out.scrollTop = out.scrollHeight;
      }
    } catch (error) { if (error.name !== "AbortError") out.append(`\n${error.message}`); }
  };
  follow();
  return [el("h2", {}, "Logs"), el("p", {}, choice), out];
}

// -- actions ----------------------------------------------------------------------------------

function actions(path, row) {
  const act = (name, what, body) => el("button", { type: "button", onclick: () => confirm(what, async () => {
    await post(`${path}/${name}`, body && body());
    notice(`${row.name}: ${name} was asked for`);
  }) }, name);
  const made = [act("stop", `Stop ${row.name}? It ends as Failed; its record stays.`)];
  if (row.kind === "aitrainingjobs") {
    made.push(" ", row.isSuspended ? act("resume", `Let ${row.name} queue again?`)
      : act("suspend", `Take all pods from ${row.name} for a while?`));
  }
  for (const [role, one] of Object.entries(row.roles).filter(([, found]) => found.scalable)) {
    const size = el("input", { type: "number", min: one.min, max: one.max, value: one.size, "aria-label": `Size of ${role}` });
    made.push(" ", size, " ", act("scale", `Set the size of ${role}?`, () => ({ role, size: Number(size.value) })));
  }
  return made;
}

function confirm(text, then) {
  const box = document.getElementById("confirm");
  const yes = el("button", { type: "button", id: "yes", onclick: async () => {
    box.close();
    try { await then(); } catch (error) { notice(error.message); }
  } }, "Yes");
  const no = el("button", { type: "button", onclick: () => box.close() }, "No");
  box.replaceChildren(el("p", {}, text), el("p", {}, yes, " ", no));
  box.showModal();
}

document.getElementById("logout").addEventListener("click", async () => { await post("/api/logout"); showLogin(""); });
window.addEventListener("hashchange", () => { if (stream) show(); });
start();
