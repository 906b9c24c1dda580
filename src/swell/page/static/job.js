// The view of one job: its timeline, sizes, pods, events, logs, and why it waits.
"use strict";

function job([kind, namespace, name]) {
  const path = `/api/jobs/${[kind, namespace, name].map(encodeURIComponent).join("/")}`;
  const title = el("h1", {}, `${namespace}/${name}`);
  const buttons = el("p", { id: "actions" });
  const body = el("div", {}, "…");
  const logs = el("div", {});
  const why = whySection(path);
  const reasons = el("div", {});
  main().replaceChildren(title, buttons, reasons, body, logs);
  let seen = "", timer = 0, asking = false, shownPods = "", waits = null;
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
  // A job that begins to wait is explained by itself; any other one when it is asked for.
  const explainIfWaiting = (row) => {
    const now = row && !row.isOver ? ["New", "Pending", "Creating"].includes(row.phase) : null;
    if (now === waits) return;
    waits = now;
    reasons.replaceChildren(...(now === null ? [] : why.parts));
    if (now) why.load();
  };
  redraw = () => {
    const row = (state[kind] || new Map()).get(`${namespace}/${name}`);
    const now = JSON.stringify(row || null);
    if (now === seen && seen) return;
    seen = now;
    buttons.replaceChildren(...(row && !row.isOver ? actions(path, row) : []));
    title.replaceChildren(`${namespace}/${name} `, ...(row ? [phase(row)] : []));
    explainIfWaiting(row);
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

