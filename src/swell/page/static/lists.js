// The views of jobs, queues and nodes. Only rows in sight are in the document, however many there are.
"use strict";

const ROW = 28; // the height of a row, as the style sheet has it

// A list of rows that scrolls: `columns` names them, `cells` makes the elements of one row.
function scroller(id, title, columns, cells, onsort) {
  const space = el("div", { id: "space" });
  const head = el("div", { class: "row head", role: "row" }, ...columns.map((name) =>
    el("button", { type: "button", onclick: () => onsort(name) }, name)));
  const list = el("div", { id, class: "list", tabindex: "0", role: "table", "aria-label": title }, head, space);
  let rows = [];
  const draw = () => {
    space.style.height = `${rows.length * ROW}px`; // first: the list is as high as its rows, up to a bound
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 5);
    const last = Math.min(rows.length, first + Math.ceil(list.clientHeight / ROW) + 10);
    const focused = document.activeElement && document.activeElement.getAttribute("href");
    space.replaceChildren(...rows.slice(first, last).map((row, at) => {
      const line = el("div", { class: "row", role: "row" }, ...cells(row));
      line.style.top = `${(first + at) * ROW}px`;
      return line;
    }));
    if (focused) {
      const again = [...space.querySelectorAll("a")].find((one) => one.getAttribute("href") === focused);
      if (again) again.focus({ preventScroll: true });
    }
  };
  list.addEventListener("scroll", () => requestAnimationFrame(draw));
  return { list, show: (found) => { rows = found; draw(); } };
}

// Rows whose text has all words, in order of a column. Keys are made once for a row, not once for a comparison.
function selected(rows, words, textOf, valueOf, upwards) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const found = wanted.length ? rows.filter((row) => {
    const text = textOf(row).toLowerCase();
    return wanted.every((word) => text.includes(word));
  }) : rows;
  const way = upwards ? 1 : -1;
  return found.map((row) => [valueOf(row), keyOf(row), row])
    .sort((a, b) => way * (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : a[1] < b[1] ? -1 : 1))
    .map((one) => one[2]);
}

let filter = "", sortBy = "name", upwards = true;

function jobs() {
  const input = el("input", { id: "filter", type: "search", value: filter, "aria-label": "Filter jobs",
    placeholder: "Filter: name, phase, queue, reason", oninput: (event) => {
      filter = event.target.value; made.list.scrollTop = 0; redraw();
    } });
  const shown = el("span", { id: "shown", class: "soft" });
  const cells = (row) => [jobLink(row), phase(row), el("span", {}, row.ready), el("span", {}, row.queue),
    el("span", {}, row.restarts), el("span", { title: row.message }, row.message || row.reason)];
  const made = scroller("list", "Jobs", ["name", "phase", "ready", "queue", "restarts", "message"], cells, (name) => {
    upwards = sortBy === name ? !upwards : true; sortBy = name; redraw();
  });
  main().replaceChildren(el("h1", {}, "Jobs"), el("p", {}, input, " ", shown), made.list);
  redraw = () => {
    const found = selected(allJobs(), filter, (row) => `${row.namespace}/${row.name} ${row.phase} ${row.queue} ${row.reason}`,
      (row) => (sortBy === "name" ? keyOf(row) : row[sortBy]), upwards);
    shown.textContent = `${found.length} of ${state.aitrainingjobs.size + state.trainingjobs.size}`;
    made.show(found);
  };
  redraw();
}

// -- queues -----------------------------------------------------------------------------------

const SUFFIXES = { m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18,
  Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60 };

function amount(text) {
  const [, number, suffix] = /^([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)([A-Za-z]*)$/.exec(String(text ?? "")) || [];
  return number ? parseFloat(number) * (SUFFIXES[suffix] || 1) : 0;
}

function short(name, value) {
  if (name === "memory" || name.endsWith("storage")) {
    return value >= 2 ** 30 ? `${+(value / 2 ** 30).toFixed(1)}Gi` : `${Math.round(value / 2 ** 20)}Mi`;
  }
  return String(+value.toFixed(2));
}

const amounts = (map) => Object.entries(map).map(([name, value]) => `${name} ${value}`).join(", ");

// What a queue has beyond what it deserves: others may take it back.
function borrowed(queue) {
  const own = Object.keys(queue.deserved).length ? queue.deserved : null;
  if (!own) return "";
  return Object.entries(queue.allocated).map(([name, value]) => [name, amount(value) - amount(own[name])])
    .filter(([name, more]) => more > 0 && name in own).map(([name, more]) => `${name} ${short(name, more)}`).join(", ");
}

function queueActions(queue) {
  const isShut = queue.state === "Closed" || queue.state === "Closing";
  const name = isShut ? "open" : "close";
  const text = isShut ? `Let queue ${queue.name} take jobs again, and the queues below that closed with it?`
    : `Let queue ${queue.name} and those below it take no new jobs? What runs stays.`;
  return el("button", { type: "button", "data-queue": queue.name, onclick: () => confirm(text, async () => {
    await post(`/api/queues/${encodeURIComponent(queue.name)}/${name}`);
    notice(`queue ${queue.name}: ${name} was asked for`);
  }) }, name);
}

function queueTable(isWhole) {
  const rows = [];
  const all = [...state.queues.values()];
  const named = new Set(all.map((one) => one.name));
  const children = new Map();
  for (const queue of all) {
    const parent = named.has(queue.parent) ? queue.parent : "";
    children.set(parent, [...(children.get(parent) || []), queue]);
  }
  const waiting = new Map();
  for (const row of allJobs()) {
    if (row.phase === "Pending") waiting.set(row.queue, [...(waiting.get(row.queue) || []), row]);
  }
  const below = (parent, depth) => {
    const siblings = children.get(parent) || [];
    const weights = siblings.reduce((sum, one) => sum + (Number(one.weight) || 0), 0);
    for (const queue of siblings) {
      const waits = waiting.get(queue.name) || [];
      const share = weights ? `${Math.round(100 * (Number(queue.weight) || 0) / weights)}%` : "-";
      const line = [`${"\u00a0\u00a0".repeat(depth)}${queue.name}`, queue.state, `${queue.weight} (${share})`,
        amounts(queue.allocated), amounts(queue.deserved), borrowed(queue), amounts(queue.guarantee),
        amounts(queue.capability), queue.running, waits.length || queue.pending];
      if (isWhole) {
        line.push(el("span", {}, ...waits.slice(0, 3).flatMap((row) => [jobLink(row), " "]),
          waits.length > 3 ? `and ${waits.length - 3} more` : ""), queueActions(queue));
      }
      rows.push(line);
      if (depth < 20) below(queue.name, depth + 1);
    }
  };
  below("", 0);
  const heads = ["queue", "state", "weight (share)", "in use", "deserved", "borrowed", "guaranteed", "at most", "run", "wait"];
  return table(isWhole ? [...heads, "who waits", ""] : heads, rows);
}

function queues() {
  const body = el("div", {});
  main().replaceChildren(el("h1", {}, "Queues"), body);
  redraw = () => {
    const focused = document.activeElement && document.activeElement.dataset.queue;
    body.replaceChildren(queueTable(true));
    if (focused) {
      const again = [...body.querySelectorAll("button")].find((one) => one.dataset.queue === focused);
      if (again) again.focus({ preventScroll: true });
    }
  };
  redraw();
}

// -- nodes ------------------------------------------------------------------------------------

let nodeFilter = "", nodeSort = "node", nodesUpwards = true;

const part = (used, has) => (used === null || !has ? null : used / has);
const percent = (share) => (share === null ? "-" : `${Math.round(100 * share)}%`);
const nodeParts = (node) => (node.used ? { cpu: part(node.used.cpuMilli, node.has.cpuMilli),
  memory: part(node.used.memoryBytes, node.has.memoryBytes), gpu: part(node.used.gpus, node.has.gpus) }
  : { cpu: null, memory: null, gpu: null });
const nodeState = (node) => node.faults.join(", ") || (node.isCordoned ? "cordoned" : "ready");

// The failures that jobs blame on a node, until they are forgotten.
const marksOf = (node) => (node.marks || []).filter((one) => Date.parse(one.until) > Date.now());

function blame(node) {
  const marks = marksOf(node);
  if (!marks.length) return el("span", {}, "-");
  const names = [...new Set(marks.map((one) => one.job))];
  const text = `${marks.length} of ${names.join(", ")}`;
  return el("span", { class: "bad", title: marks.map((one) => `${one.time} ${one.job}: ${one.reason}`).join("\n") }, text);
}
const domainsOf = (node) => Object.values(node.labels).join(", ");

function meter(share, text) {
  return share === null ? el("span", {}, text)
    : el("span", { title: text }, el("meter", { min: 0, max: 1, value: Math.min(1, share), "aria-label": text }), ` ${percent(share)}`);
}

function nodeCells(node) {
  const shares = nodeParts(node), has = node.has;
  const of = (used, all, name) => `${used} of ${all} ${name}`;
  const used = node.used || { cpuMilli: 0, memoryBytes: 0, gpus: 0, pods: 0 };
  const gi = (bytes) => Math.round(bytes / 2 ** 30);
  return [el("span", { title: node.name }, node.name), el("span", { class: node.faults.length ? "bad" : "", title: nodeState(node) }, nodeState(node)),
    blame(node), meter(shares.cpu, of(used.cpuMilli / 1000, has.cpuMilli / 1000, "cpu")),
    meter(shares.memory, of(gi(used.memoryBytes), gi(has.memoryBytes), "GiB")),
    has.gpus ? meter(shares.gpu, of(used.gpus, has.gpus, "GPUs")) : el("span", {}, "-"),
    el("span", {}, node.used ? node.used.pods : "-"), el("span", { title: domainsOf(node) }, domainsOf(node)),
    el("span", { title: node.taints.join(", ") }, node.taints.join(", "))];
}

// Nodes by the domains that their labels and the HyperNodes name.
function domainTable() {
  const domains = new Map();
  for (const node of state.nodes.values()) {
    for (const [label, value] of Object.entries(node.labels)) {
      const key = `${label}=${value}`;
      const held = domains.get(key) || { label, value, nodes: 0, faults: 0, cpu: 0, cpuHas: 0, gpu: 0, gpuHas: 0 };
      held.nodes += 1;
      held.faults += node.faults.length || node.isCordoned ? 1 : 0;
      held.cpuHas += node.has.cpuMilli; held.gpuHas += node.has.gpus;
      if (node.used) { held.cpu += node.used.cpuMilli; held.gpu += node.used.gpus; }
      domains.set(key, held);
    }
  }
  const rows = [...domains.values()].sort((a, b) => (a.label + a.value < b.label + b.value ? -1 : 1)).slice(0, 200)
    .map((one) => [one.label, one.value, one.nodes, one.faults, percent(part(one.cpu, one.cpuHas)),
      one.gpuHas ? `${one.gpu} of ${one.gpuHas}` : "-"]);
  const tiers = [...state.hypernodes.values()].sort((a, b) => b.tier - a.tier || (a.name < b.name ? -1 : 1)).slice(0, 200)
    .map((one) => [`HyperNode, tier ${one.tier}${one.tierName ? ` (${one.tierName})` : ""}`, one.name, one.nodes, "-", "-", "-"]);
  const all = [...tiers, ...rows];
  return all.length ? table(["domain of", "name", "nodes", "faults", "cpu in use", "GPUs in use"], all)
    : el("p", {}, "No node has a label topology.…, and there are no HyperNodes.");
}

function nodes() {
  const input = el("input", { id: "nodefilter", type: "search", value: nodeFilter, "aria-label": "Filter nodes",
    placeholder: "Filter: name, fault, domain, taint", oninput: (event) => {
      nodeFilter = event.target.value; made.list.scrollTop = 0; redraw();
    } });
  const shown = el("span", { class: "soft" });
  const values = { node: keyOf, state: nodeState, blamed: (node) => -marksOf(node).length, cpu: (node) => nodeParts(node).cpu ?? -1,
    memory: (node) => nodeParts(node).memory ?? -1, GPUs: (node) => nodeParts(node).gpu ?? -1,
    pods: (node) => (node.used ? node.used.pods : -1), domains: domainsOf, taints: (node) => node.taints.join() };
  const made = scroller("nodelist", "Nodes", Object.keys(values), nodeCells, (name) => {
    nodesUpwards = nodeSort === name ? !nodesUpwards : true; nodeSort = name; redraw();
  });
  made.list.classList.add("nodes");
  const domains = el("div", { id: "domains" });
  main().replaceChildren(el("h1", {}, "Nodes"), el("p", {}, input, " ", shown), made.list,
    el("h2", {}, "Topology domains"), domains);
  redraw = () => {
    const found = selected([...state.nodes.values()], nodeFilter, (node) =>
      `${node.name} ${nodeState(node)} ${marksOf(node).map((one) => one.job).join(" ")} ${domainsOf(node)} ${node.taints.join(" ")}`, values[nodeSort], nodesUpwards);
    shown.textContent = state.nodes.size ? `${found.length} of ${state.nodes.size}` : "You may not see nodes, or there are none.";
    made.show(found);
    domains.replaceChildren(domainTable());
  };
  redraw();
}
