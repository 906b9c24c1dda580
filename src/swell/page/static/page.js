// The page: scripts without libraries, of which this one comes last. Every text from the cluster is set as text, never as
// markup: `el` makes elements, and strings among its children become text nodes.
"use strict";

const OWN = { "X-Swell-Page": "1", "Content-Type": "application/json" };
const COLORS = {
  queued: "#9aa4b2", blocked: "#c3a6e8", suspended: "#6b7280", starting: "#e3b341",
  running: "#2da44e", restart: "#e5534b", resize: "#2f8fdb", preemption: "#d2691e",
  node: "#a11d5b", ending: "#7c8aa0",
};
const VIEWS = { overview: "Overview", jobs: "Jobs", queues: "Queues", nodes: "Nodes",
  whatif: "What if", history: "History" };
const state = { aitrainingjobs: new Map(), trainingjobs: new Map(), queues: new Map(),
  nodes: new Map(), hypernodes: new Map() };
let stream = null;
let redraw = null; // draws the live parts of the present view
let leave = null; // ends what the present view has begun
let drawing = false, drawn = 0;
const DRAW_MS = 200; // the least time between two drawings, whatever the number of changes

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
  setTimeout(() => requestAnimationFrame(() => {
    drawing = false; drawn = performance.now(); if (redraw) redraw();
  }), Math.max(0, DRAW_MS - (performance.now() - drawn)));
}

// -- views ------------------------------------------------------------------------------------

function show() {
  if (leave) { leave(); leave = null; }
  redraw = null;
  const [view, ...rest] = address();
  const isJob = view === "job" && rest.length === 3; // its kind, its namespace, its name
  const name = isJob || Object.hasOwn(VIEWS, view) ? view : "overview";
  document.title = `${isJob ? rest[2] : VIEWS[name]} · Swell`;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === (name === "job" ? "jobs" : name)) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  ({ overview, jobs, job, queues, nodes, whatif, history })[name](rest);
  main().focus({ preventScroll: true });
}

// The view and what it is of, by the address; one that nobody can read leads to the overview.
function address() {
  try {
    return location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  } catch {
    return ["overview"];
  }
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
    waiting.replaceChildren(held.length ? table(["job", "queue", "starts", "reason", ""],
      held.map((row) => [jobLink(row), row.queue, startText(row.start) || "-", row.reason, row.message])) : el("p", {}, "Nothing waits."));
    load.replaceChildren(queueTable(false));
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

// -- actions ----------------------------------------------------------------------------------

function actions(path, row) {
  const act = (name, what, body) => el("button", { type: "button", onclick: () => confirm(what, async () => {
    await post(`${path}/${name}`, body && body());
    notice(`${row.name}: ${name} was asked for`);
  }) }, name);
  const ifs = el("a", { href: `#/whatif/${encodeURIComponent(keyOf(row))}` }, "what if …");
  const made = [act("stop", `Stop ${row.name}? It ends as Failed; its record stays.`)];
  if (row.kind === "aitrainingjobs") {
    made.push(" ", row.isSuspended ? act("resume", `Let ${row.name} queue again?`)
      : act("suspend", `Take all pods from ${row.name} for a while?`));
  }
  for (const [role, one] of Object.entries(row.roles).filter(([, found]) => found.scalable)) {
    const size = el("input", { type: "number", min: one.min, max: one.max, value: one.size, "aria-label": `Size of ${role}` });
    made.push(" ", size, " ", act("scale", `Set the size of ${role}?`, () => ({ role, size: Number(size.value) })));
  }
  if (row.kind === "aitrainingjobs") made.push(" ", ifs);
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
