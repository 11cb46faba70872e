"""Style and behaviour of pages. THEME_SCRIPT: what Plotly needs to look like the page around it."""

from __future__ import annotations

STYLE = """
:root {
  color-scheme: light dark;
  --ink: #1b1f24; --soft: #5b6570; --line: #e2e5e9; --grid: #eceef1; --paper: #f6f7f9; --card: #ffffff; --mark: #0a7d4f;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e6e9ed; --soft: #9aa4af; --line: #30363d;
    --grid: #2a3037; --paper: #111418; --card: #1a1e24; --mark: #4cc38a;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--paper); color: var(--ink); line-height: 1.5;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Liberation Sans", Arial, sans-serif;
}
main { max-width: 1280px; margin: 0 auto; padding: 40px 24px 64px; }
.about { color: var(--soft); font-size: 14px; margin: 0 0 8px; }
h1 { font-size: clamp(24px, 3.2vw, 36px); line-height: 1.2; letter-spacing: -0.015em; margin: 0 0 12px;
  text-wrap: balance; overflow-wrap: anywhere; }
.details { color: var(--soft); margin: 0 0 24px; max-width: 75ch; overflow-wrap: anywhere; }
h2 { font-size: 20px; letter-spacing: -0.01em; margin: 44px 0 4px; }
h2 + p { color: var(--soft); margin: 0 0 14px; max-width: 75ch; }
.grid { display: flex; flex-wrap: wrap; gap: 16px; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 16px 18px 10px; min-width: 0; flex: 1 1 370px; }
.grid .half { flex-basis: 520px; }
.grid .main { flex: 2 1 640px; }
.grid .wide { flex-basis: 100%; }
.card h3 { font-size: 16px; margin: 0; }
.card p { color: var(--soft); font-size: 14px; margin: 2px 0 8px; }
.chart { width: 100%; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 14px; margin: 0 0 4px; }
.legend button { display: inline-flex; align-items: center; gap: 7px; border: 0; background: none; padding: 3px 0;
  color: inherit; font: inherit; font-size: 14px; cursor: pointer; overflow-wrap: anywhere; text-align: left; }
.legend button i { width: 14px; height: 4px; border-radius: 2px; background: var(--colour); flex: none; }
.legend small { color: var(--soft); font-size: 13px; white-space: nowrap; }
.legend button[aria-pressed="false"] { opacity: 0.4; text-decoration: line-through; }
.scroll { overflow-x: auto; background:
  linear-gradient(90deg, var(--card) 20px, transparent 40px) left / 40px 100% no-repeat local,
  linear-gradient(-90deg, var(--card) 20px, transparent 40px) right / 40px 100% no-repeat local,
  linear-gradient(90deg, var(--line), transparent) left / 14px 100% no-repeat scroll,
  linear-gradient(-90deg, var(--line), transparent) right / 14px 100% no-repeat scroll; }
table { border-collapse: collapse; width: 100%; font-size: 14px; font-variant-numeric: tabular-nums; }
th, td { padding: 7px 9px; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { color: var(--soft); font-weight: 500; font-size: 13px; line-height: 1.25;
  vertical-align: bottom; white-space: normal; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
td:first-child { font-weight: 600; white-space: normal; overflow-wrap: break-word; max-width: 260px; }
td:first-child span { display: inline-flex; align-items: center; gap: 8px; }
td:first-child i { width: 14px; height: 4px; border-radius: 2px; flex: none; }
tr:last-child td { border-bottom: 0; }
th.text, td.text { text-align: left; white-space: normal; color: var(--soft); }
td.best { font-weight: 700; color: var(--mark); }
details { border-top: 1px solid var(--line); padding: 8px 0; }
summary { cursor: pointer; overflow-wrap: anywhere; }
pre { overflow-x: auto; font: 13px/1.5 ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace;
  background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 12px 14px; margin: 8px 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 4px 20px; font-size: 14px; margin: 8px 0 0; }
dt { font-weight: 600; } dd { margin: 0; color: var(--soft); overflow-wrap: anywhere; }
footer { color: var(--soft); font-size: 13px; margin-top: 40px; }
@media (max-width: 900px) {
  main { padding: 24px 14px 48px; }
  .card { padding: 14px 12px 8px; flex-basis: 100%; }
  dl { grid-template-columns: 1fr; } dd { margin-bottom: 8px; }
}
@media print { .legend button { cursor: default; } .card { break-inside: avoid; } }
"""

THEME_SCRIPT = """
"use strict";
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function themed(layout) {
  const look = structuredClone(layout);
  look.paper_bgcolor = look.plot_bgcolor = "rgba(0,0,0,0)";
  look.font = { family: getComputedStyle(document.body).fontFamily, size: 13, color: colour("--ink") };
  look.hoverlabel = { bgcolor: colour("--card"), bordercolor: colour("--line"), font: { color: colour("--ink") } };
  look.showlegend = look.showlegend ?? false;
  for (const name of Object.keys(look).filter((key) => /^[xy]axis/.test(key))) {
    Object.assign(look[name], {
      gridcolor: colour("--grid"), linecolor: colour("--line"), zerolinecolor: colour("--line"), automargin: true,
      title: { ...look[name].title, font: { size: 13, color: colour("--soft") } },
    });
  }
  return look;
}

// Dark colours of bars do not show on a dark card.
const dark = matchMedia("(prefers-color-scheme: dark)");
function readable(tone) {
  if (!dark.matches || !/^#[0-9a-f]{6}$/i.test(tone)) return tone;
  const parts = [1, 3, 5].map((i) => Math.round(0.7 * parseInt(tone.slice(i, i + 2), 16) + 0.3 * 255));
  return `rgb(${parts.join(" ")})`;
}
"""

SCRIPT = (
    THEME_SCRIPT
    + """
const charts = [...document.querySelectorAll(".chart")];
for (const chart of charts) {
  const figure = JSON.parse(document.getElementById(chart.id + "-data").textContent);
  chart.figure = figure;
  Plotly.newPlot(chart, shaded(chart), themed(figure.layout), {
    responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
    displayModeBar: false,
  });
}

// The traces, those hidden that are, bars in colours that show.
function shaded(chart) {
  return chart.figure.data.map((trace, i) => {
    const visible = chart.data?.[i]?.visible ?? trace.visible ?? true;
    if (trace.type !== "bar") return { ...trace, visible };
    const given = trace.marker.color;
    const color = Array.isArray(given) ? given.map(readable) : readable(given);
    return { ...trace, visible, marker: { ...trace.marker, color } };
  });
}

dark.addEventListener("change", () => {
  for (const chart of charts) Plotly.react(chart, shaded(chart), themed(chart.figure.layout));
});

document.addEventListener("click", (event) => {
  const button = event.target.closest(".legend button");
  if (!button) return;
  const shown = button.getAttribute("aria-pressed") === "false";
  for (const other of document.querySelectorAll(".legend button")) {
    if (other.dataset.strategy === button.dataset.strategy) other.setAttribute("aria-pressed", String(shown));
  }
  for (const chart of charts) {
    const traces = chart.data.flatMap((trace, i) => (trace.legendgroup === button.dataset.strategy ? [i] : []));
    if (traces.length) Plotly.restyle(chart, { visible: shown }, traces);
  }
});
"""
)
