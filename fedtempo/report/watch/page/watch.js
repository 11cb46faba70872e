// Fetches what is new and shows it.

const SYMBOLS = { starting: "◌", running: "●", finished: "✓", interrupted: "‖", silent: "?", unreadable: "✕" };
const UNITS = ["B", "kB", "MB", "GB", "TB"];
const byId = (id) => document.getElementById(id);
const runs = new Map(); // number: what the page knows of a run
let chosen = null; // numbers of the runs shown; the first few until the user chooses
let answered = null;

function known(number) {
  if (!runs.has(number)) {
    const calendar = new RunCalendar(byId("calendar-card"));
    const log = byId("log-card").content.firstElementChild.cloneNode(true);
    runs.set(number, { seen: [0, 0, 0, 0], curve: [], measures: {}, calendar, log, detail: null, paces: [] });
  }
  return runs.get(number);
}

function shown(count) {
  return chosen ?? [...Array(Math.min(count, SHARED.mostShown)).keys()];
}

async function ask() {
  const wanted = Object.fromEntries(shown(answered?.runs.length ?? SHARED.mostShown).map((number) => [number, known(number).seen]));
  const response = await fetch("state", { method: "POST", body: JSON.stringify(wanted) });
  if (!response.ok) throw new Error(await response.text());
  return response.json();
}

function take(answer) {
  answered = answer;
  const several = new Set(answer.runs.map((row) => row.label)).size < answer.runs.length;
  answer.runs.forEach((row, number) => {
    row.number = number;
    row.title = row.label === undefined ? row.name : several ? `${row.label}, seed ${row.seed}` : row.label;
    row.colour = SHARED.colours[number];
    row.dash = SHARED.dashes[number];
  });
  const titles = answer.runs.map((row) => row.title);
  for (const row of answer.runs) {
    if (titles.filter((title) => title === row.title).length > 1) row.title = `${row.title} (${row.name})`;
  }
  for (const [number, detail] of Object.entries(answer.details)) {
    if (detail) absorb(known(Number(number)), answer.runs[number], detail);
  }
  showTable(answer);
  showCards(answer);
  showCharts(answer);
  showTitle(answer);
}

function absorb(run, row, detail) {
  if (run.seen[0] !== detail.generation) {
    run.curve = [];
    run.measures = {};
    run.calendar.forget();
    run.log.querySelector("ol").replaceChildren();
  }
  if (detail.curve) run.curve = detail.curve;
  if (detail.measures) run.measures = detail.measures;
  run.seen = [detail.generation, detail.seen.curve, detail.seen.calendar, detail.seen.log];
  run.detail = detail;
  run.calendar.update(row, detail, row.colour);
  const list = run.log.querySelector("ol");
  list.prepend(...detail.log.map(line).reverse());
  while (list.childElementCount > 300) list.lastElementChild.remove();
}

function line([time, kind, text]) {
  const item = node("li", "", kind);
  item.append(node("time", time === null ? "" : `${tidy(time)} s`), node("span", text));
  return item;
}

function node(tag, text, name) {
  const made = document.createElement(tag);
  made.textContent = text;
  if (name) made.className = name;
  return made;
}

// The table -----------------------------------------------------------------------------------------------------------

function showTable({ runs: rows, left_out: leftOut }) {
  const body = byId("runs").tBodies[0];
  while (body.rows.length < rows.length) body.append(newRow(body.rows.length));
  rows.forEach((row, number) => fillRow(body.rows[number], row));
  const heading = document.querySelector("#runs .measure"), { name } = measureOf(rows);
  if (heading.textContent !== name) heading.textContent = name;
  const hints = [];
  if (rows.length > SHARED.mostShown) hints.push(`Choose up to ${SHARED.mostShown} runs to show.`);
  if (leftOut) hints.push(`${leftOut} more runs are not listed: start fedtempo watch with their folders to see them.`);
  byId("hint").textContent = hints.join(" ");
}

// What the runs measure; runs on different data may have no common name for it.
function measureOf(rows) {
  const measures = rows.filter((row) => row.label !== undefined).map((row) => row.measure);
  const names = new Set(measures.map((measure) => measure.name));
  if (!names.size) return { name: "accuracy", as_share: true };
  return names.size === 1 ? measures[0] : { name: [...names].join(" or "), as_share: measures.every((measure) => measure.as_share) };
}

function newRow(number) {
  const made = document.createElement("tr");
  const label = document.createElement("label");
  const box = Object.assign(document.createElement("input"), { type: "checkbox" });
  box.addEventListener("change", () => choose(number, box.checked));
  label.append(box, node("i", ""), node("span", ""));
  const first = document.createElement("td");
  first.append(label);
  made.append(first, node("td", "", "state"), document.createElement("td"));
  for (let i = 0; i < 9; i += 1) made.append(document.createElement("td"));
  return made;
}

function choose(number, on) {
  const now = shown(answered.runs.length).filter((other) => other !== number);
  chosen = on ? [...now, number].slice(-SHARED.mostShown).sort((a, b) => a - b) : now;
  soon();
}

function fillRow(made, row) {
  const [name, state, time, ...cells] = made.cells;
  const box = name.querySelector("input");
  box.checked = shown(answered.runs.length).includes(row.number);
  name.querySelector("i").style.setProperty("--colour", row.colour);
  name.querySelector("span").textContent = row.title;
  name.title = row.name;
  state.textContent = `${SYMBOLS[row.state]} ${row.more ? "reading" : row.state}${left(row)}`;
  state.className = `state ${row.state}`;
  state.title = row.why;
  if (row.label === undefined) return;
  const far = row.horizon_s ? ` of ${tidy(row.horizon_s)}` : "";
  if (!time.firstChild) {
    time.append(node("span", ""), node("span", "", "far"));
    time.lastChild.append(document.createElement("i"));
  }
  time.firstChild.textContent = `${tidy(row.now_s)}${far} s`;
  time.lastChild.hidden = !row.horizon_s;
  time.lastChild.firstChild.style.width = row.horizon_s ? `${Math.min(100, 100 * row.now_s / row.horizon_s)}%` : 0;
  const texts = [
    row.diverged ? "diverged" : score(row.accuracy, row.measure), row.loss === null ? "–" : row.loss.toFixed(3),
    row.busy === null ? "–" : `${count(row.busy)} of ${count(row.clients)}`, share(row.busy_ratio), count(row.visits),
    count(row.lost), count(row.commits), row.staleness === null ? "–" : tidy(row.staleness), size(row.bytes),
  ];
  texts.forEach((text, i) => { if (cells[i].textContent !== text) cells[i].textContent = text; });
}

// ", 40 s left", estimated from the last half minute.
function left(row) {
  const run = known(row.number);
  if (row.state !== "running" || !row.horizon_s) {
    run.paces = [];
    return "";
  }
  run.paces.push([performance.now() / 1000, row.now_s]);
  if (run.paces.length > 30) run.paces.shift();
  const [[from, at], [to, now]] = [run.paces[0], run.paces.at(-1)];
  if (to - from < 4 || now <= at) return "";
  const seconds = (row.horizon_s - now) * (to - from) / (now - at);
  return seconds > 5400 ? `, ${tidy(seconds / 3600)} h left` : seconds > 90 ? `, ${Math.round(seconds / 60)} min left` : `, ${Math.round(seconds)} s left`;
}

const score = (value, measure) => (value === null || measure.as_share ? share(value) : value.toFixed(3));
const share = (value) => (value === null ? "–" : `${(100 * value).toFixed(1)}%`);
const count = (value) => (value === null ? "–" : value.toLocaleString("en"));

function size(bytes) {
  let unit = 0;
  for (; bytes >= 1000 && unit < UNITS.length - 1; unit += 1) bytes /= 1000;
  return `${bytes.toPrecision(3).replace(/\.?0+$/, "").replace(/e.*/, "")} ${UNITS[unit]}`;
}

// Cards of runs -------------------------------------------------------------------------------------------------------

function showCards({ runs: rows }) {
  for (const [place, part] of [["calendars", "calendar"], ["logs", "log"]]) {
    const wanted = visible(rows).map((row) => {
      const run = known(row.number);
      const card = part === "log" ? run.log : run.calendar.element;
      const title = card.querySelector("h3");
      if (title.textContent !== row.title) title.replaceChildren(node("i", ""), row.title);
      title.firstChild.style.setProperty("--colour", row.colour);
      card.querySelector("[role=log]")?.setAttribute("aria-label", `log of ${row.title}, newest first`);
      return card;
    });
    const parent = byId(place);
    if (wanted.length !== parent.childElementCount || wanted.some((card, i) => parent.children[i] !== card)) {
      parent.replaceChildren(...wanted);
      wanted.forEach((_, i) => known(visible(rows)[i].number).calendar.draw());
    }
  }
}

const visible = (rows) => shown(rows.length).map((number) => rows[number]).filter((row) => row && runs.get(row.number)?.detail);

// Charts --------------------------------------------------------------------------------------------------------------

const plain = (text) => text.replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`);

function showCharts({ runs: rows }) {
  const seen = visible(rows);
  const lines = (points) => seen.flatMap((row) => {
    const [x, y] = points(runs.get(row.number), row);
    if (!x.length) return [];
    return [{ x, y, name: plain(row.title), mode: "lines", line: { color: row.colour, dash: row.dash, width: 2 } }];
  });
  const curve = (column) => lines((run) => {
    const points = run.curve.filter((point) => point[column] !== null);
    return [points.map((point) => point[0]), points.map((point) => point[column])];
  });
  const levels = (name) => lines((run, row) => {
    const { every_s: every, counts } = row.rows ? run.detail[name] : { every_s: 1, counts: [] };
    return counts.length > 1 ? [counts.map((_, i) => i * every), counts] : [[], []];
  });
  const latest = (traces, words) => traces.map((trace) => `${trace.name}: ${words(trace.y.at(-1))} at ${tidy(trace.x.at(-1))} s`).join("; ");
  const target = (name) => (seen[0]?.target?.of === name ? seen[0].target : null);
  const measure = measureOf(seen.length ? seen : rows);
  const format = measure.as_share ? ".0%" : ".2~f";
  const title = `${measure.name[0].toUpperCase()}${measure.name.slice(1)} over time`;
  if (byId("accuracy-title").textContent !== title) byId("accuracy-title").textContent = title;
  const accuracy = curve(1), loss = curve(2), busy = levels("busy"), alive = levels("alive");
  draw("accuracy", accuracy, { height: 360, y: `test ${measure.name}`, format, target: target("accuracy") },
    `Test ${measure.name} over time. ${latest(accuracy, (value) => score(value, measure))}`);
  draw("loss", loss, { height: 360, y: "test loss", target: target("loss") }, `Test loss over time. ${latest(loss, tidy)}`);
  const further = chosenMeasure(seen);
  if (further) {
    const traces = lines((run) => {
      const points = (run.measures[further.name] ?? []).filter((point) => point[1] !== null);
      return [points.map((point) => point[0]), points.map((point) => point[1])];
    });
    draw("measure", traces, { y: plain(further.name), format: further.as_share ? ".0%" : "~g", target: target(further.name) },
      `${further.name} over time. ${latest(traces, (value) => (further.as_share ? share(value) : tidy(value)))}`);
  }
  draw("busy", busy, { y: "clients busy" }, `Clients busy over time. ${latest(busy, count)}`);
  draw("alive", alive, { y: "groups alive" }, `Groups alive over time. ${latest(alive, count)}`);
  const stale = seen.flatMap((row) => {
    const { width, counts } = runs.get(row.number).detail.staleness;
    const total = counts.reduce((sum, value) => sum + value, 0);
    if (!total) return [];
    return [{
      type: "bar", name: plain(row.title), x: counts.map((_, i) => i * width + (width - 1) / 2), y: counts.map((value) => value / total),
      width, marker: { color: row.colour, opacity: 0.65 },
    }];
  });
  const means = seen.filter((row) => row.staleness !== null).map((row) => `${row.title}: ${tidy(row.staleness)} on average`);
  draw("staleness", stale, { x: "staleness (commits)", y: "share of commits", format: ".0%", bars: true },
    `Staleness of commits. ${means.join("; ")}`);
}

// The further measure to draw: the one that is selected, at first the target's; null if the runs have none.
function chosenMeasure(seen) {
  const measures = new Map(seen.flatMap((row) => (row.measures ?? []).map((each) => [each.name, each])));
  const select = byId("measure-name"), names = [...measures.keys()];
  if ([...select.options].map((option) => option.value).join("\n") !== names.join("\n")) {
    const wanted = [select.value, seen[0]?.target?.of, names[0]].find((name) => measures.has(name));
    select.replaceChildren(...names.map((name) => new Option(name, name)));
    if (wanted) select.value = wanted;
  }
  byId("measure-card").hidden = !names.length;
  return measures.get(select.value) ?? null;
}

byId("measure-name").addEventListener("change", () => showCharts(answered));

function draw(id, traces, { height = 280, x = "time (s)", y, format, target = null, bars = false }, words) {
  const chart = byId(id);
  const state = JSON.stringify([traces, target, y]);
  if (chart.dataset.state === state) return;
  chart.dataset.state = state;
  chart.setAttribute("aria-label", words);
  const room = chart.closest(".main") || traces.length < 2 ? 0 : 19 * traces.length; // for the legend of a narrow card
  chart.style.height = `${height + room}px`;
  chart.classList.toggle("empty", !traces.length);
  if (!traces.length) {
    if (chart.figure) Plotly.purge(chart);
    chart.figure = null;
    chart.textContent = "Nothing yet";
    return;
  }
  if (!chart.figure) chart.textContent = "";
  chart.figure = {
    xaxis: { title: { text: x }, zeroline: false, rangemode: "tozero" },
    yaxis: { title: { text: y }, tickformat: format, rangemode: "tozero" },
    height: height + room, margin: { l: 56, r: 16, t: 12, b: 46 }, hovermode: bars ? "closest" : "x unified", barmode: "overlay", bargap: 0, uirevision: "same",
    showlegend: traces.length > 1, legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
    shapes: target === null ? [] : [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: target.value, y1: target.value, line: { dash: "dash", width: 1.2, color: "#888888" } }],
    annotations: target === null ? [] : [{ text: `target ${plain(target.text)}`, xref: "paper", x: 0.006, xanchor: "left", y: target.value, yanchor: "bottom", showarrow: false }],
  };
  Plotly.react(chart, traces, themed(chart.figure), { responsive: true, displaylogo: false, displayModeBar: false });
}

dark.addEventListener("change", () => {
  for (const chart of document.querySelectorAll(".chart")) {
    if (chart.figure) Plotly.react(chart, chart.data, themed(chart.figure));
  }
  for (const run of runs.values()) run.calendar.draw();
});

// The header ----------------------------------------------------------------------------------------------------------

function showTitle({ runs: rows }) {
  const running = rows.filter((row) => row.state === "running" || row.state === "starting");
  const begun = rows.filter((row) => row.label !== undefined);
  let title = "No runs yet";
  if (rows.length === 1) title = `${rows[0].title}: ${rows[0].state}`;
  else if (rows.length) title = running.length ? `${running.length} of ${rows.length} runs are running` : `${rows.length} runs, none running`;
  if (byId("title").textContent !== title) document.title = byId("title").textContent = title;
  // Facts that all runs share.
  const about = [
    (row) => row.source, (row) => `${count(row.clients)} clients`, (row) => (row.horizon_s ? `${tidy(row.horizon_s)} s` : ""),
    (row) => (row.deployment ? "real clients" : "virtual clock"),
  ].map((word) => new Set(begun.map(word))).filter((words) => words.size === 1).map((words) => [...words][0]);
  byId("about").textContent = about.filter(Boolean).join(" · ") || "fedtempo watch";
  const reasons = rows.filter((row) => row.why && row.state !== "finished").map((row) => `${row.title}: ${row.why}.`);
  say(reasons.join(" "));
}

function say(text) {
  if (byId("connection").textContent !== text) byId("connection").textContent = text;
}

// Update loop ---------------------------------------------------------------------------------------------------------

let timer = 0;
let asking = false;

function pause(answer) {
  if (answer.runs.some((row) => row.more) || Object.values(answer.details).some((detail) => detail?.more)) return 50;
  const lives = !answer.runs.length || answer.runs.some((row) => ["running", "starting", "silent"].includes(row.state));
  return document.hidden || !lives ? 5000 : 1000;
}

async function round() {
  if (asking) return;
  asking = true;
  let next = 2000;
  try {
    const answer = await ask().catch((error) => {
      say(error instanceof TypeError ? "fedtempo watch does not answer; trying again." : error.message);
    });
    if (answer) {
      take(answer);
      next = pause(answer);
    }
  } finally {
    asking = false;
    clearTimeout(timer);
    timer = setTimeout(round, next);
  }
}

function soon() {
  clearTimeout(timer);
  timer = setTimeout(round, 0);
}

document.addEventListener("visibilitychange", () => { if (!document.hidden) soon(); });

let last = performance.now();
function frame(now) {
  const seconds = Math.min(0.1, (now - last) / 1000);
  last = now;
  if (answered) for (const row of visible(answered.runs)) known(row.number).calendar.tick(seconds);
  requestAnimationFrame(frame);
}

round();
requestAnimationFrame(frame);
