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

// Bars in dark colours do not show on a dark card.
const dark = matchMedia("(prefers-color-scheme: dark)");
function readable(tone) {
  if (!dark.matches || !/^#[0-9a-f]{6}$/i.test(tone)) return tone;
  const parts = [1, 3, 5].map((i) => Math.round(0.7 * parseInt(tone.slice(i, i + 2), 16) + 0.3 * 255));
  return `rgb(${parts.join(" ")})`;
}
