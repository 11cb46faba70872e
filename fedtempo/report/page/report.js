const charts = [...document.querySelectorAll(".chart")];
for (const chart of charts) {
  const figure = JSON.parse(document.getElementById(chart.id + "-data").textContent);
  chart.figure = figure;
  Plotly.newPlot(chart, shaded(chart), themed(figure.layout), {
    responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
    displayModeBar: false,
  });
}

// The traces, hidden ones still hidden, bars in colours that show on the card.
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
