"use strict";
// One run's calendar: which clients are busy now, and when some of them were busy.

const LOST = new Set([2, 4, 5]);
const CUT = new Set([1, 3]);
const ENDINGS = ["done", "cut by the run's end", "its client left or failed", "given up by the strategy", "late", "rejected"];
const MOST_VISITS = 10000;
const still = matchMedia("(prefers-reduced-motion: reduce)");

class RunCalendar {
  constructor(template) {
    this.element = template.content.firstElementChild.cloneNode(true);
    const find = (name) => this.element.querySelector(name);
    [this.cells, this.days] = [find(".cells"), find(".days")];
    [this.slider, this.select, this.key] = [find("input"), find("select"), find(".key")];
    [this.playButton, this.followButton] = [find(".play"), find(".follow")];
    this.forget();
    this.slider.addEventListener("input", () => this.move(this.slider.value / 1000 * this.latestBegin(), false));
    this.select.addEventListener("change", () => { this.window = Number(this.select.value); this.draw(); });
    this.followButton.addEventListener("click", () => this.move(this.latestBegin(), true));
    this.playButton.addEventListener("click", () => this.play(!this.playing));
    this.days.addEventListener("mousemove", (event) => this.explain(event));
    this.days.addEventListener("mouseleave", () => this.explain(null));
    this.days.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -0.25, ArrowRight: 0.25, PageUp: -1, PageDown: 1 }[event.key];
      if (event.key === "Home") this.move(0, false);
      else if (event.key === "End") this.move(this.latestBegin(), true);
      else if (step) this.move(this.begin + step * this.window, false);
      else return;
      event.preventDefault();
    });
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  forget() {
    Object.assign(this, {
      visits: [], going: [], clients: [], numbers: [], who: "", row: null, now: 0, shownNow: 0, begin: 0,
      following: true, playing: false, window: 0, boxes: [], named: "",
    });
  }

  // Takes in what is new of the run, as the server sends it.
  update(row, detail, colourOfRun) {
    const before = this.now;
    this.row = row;
    this.colourOfRun = colourOfRun;
    this.visits.push(...detail.visits);
    if (this.visits.length > MOST_VISITS) this.visits.splice(0, this.visits.length - MOST_VISITS);
    Object.assign(this, { going: detail.in_progress, clients: detail.clients, numbers: detail.numbers, who: detail.who });
    this.now = row.now_s;
    if (!this.window && this.visits.length + this.going.length) this.chooseWindow();
    const leap = !before || this.now - before > 0.1 * this.window || row.state !== "running" || still.matches;
    if (leap || this.shownNow > this.now) this.shownNow = this.now;
    this.tell();
    this.draw();
  }

  chooseWindow() {
    const lengths = this.visits.slice(0, 500).map((visit) => visit[5] - visit[2]).filter((seconds) => seconds > 0);
    const mean = lengths.reduce((sum, seconds) => sum + seconds, 0) / lengths.length || this.now || 1;
    const steps = [];
    for (let exponent = Math.floor(Math.log10(mean)); steps.length < 8; exponent += 1) {
      for (const digit of [1, 2, 5]) {
        const seconds = digit * 10 ** exponent;
        if (seconds >= 3 * mean && steps.length < 8) steps.push(seconds);
      }
    }
    this.window = steps.find((seconds) => seconds >= 10 * mean) ?? steps[0];
    this.select.replaceChildren(...steps.map((seconds) => new Option(`${tidy(seconds)} s`, seconds, false, seconds === this.window)));
  }

  // The earliest time (s) with visits on the page, and the latest possible beginning of the window.
  first() { return this.visits.length ? Math.min(this.visits[0][2], this.now) : 0; }
  latestBegin() { return Math.max(0, this.shownNow - 0.92 * this.window); }

  move(begin, follow) {
    this.following = follow;
    this.begin = Math.max(0, Math.min(begin, this.latestBegin()));
    if (follow) this.play(false);
    this.followButton.setAttribute("aria-pressed", String(follow));
    this.draw();
  }

  play(on) {
    if (on && this.begin >= this.latestBegin() - 1e-9) this.begin = Math.min(this.first(), this.latestBegin());
    if (on) this.following = false;
    this.playing = on;
    this.playButton.textContent = on ? "Pause" : "Play";
    this.playButton.setAttribute("aria-pressed", String(on));
    this.followButton.setAttribute("aria-pressed", String(this.following));
  }

  // Draws a frame; seconds: since the last frame.
  tick(seconds) {
    if (!this.row || !this.window) return;
    if (this.shownNow < this.now) {
      const step = (this.now - this.shownNow) * Math.min(1, 2.5 * seconds);
      this.shownNow = this.now - this.shownNow < 1e-3 * this.window ? this.now : this.shownNow + step;
      this.draw();
    }
    if (this.playing) {
      this.begin += seconds * this.window / 8;
      if (this.begin >= this.latestBegin()) this.move(this.latestBegin(), true);
      else this.draw();
    }
  }

  // Describes the drawing for screen readers.
  tell() {
    const { row } = this;
    const busy = row.busy === null ? "" : `${row.busy.toLocaleString("en")} of ${row.clients.toLocaleString("en")} clients busy`;
    const text = [busy, `t = ${tidy(row.now_s)} s`].filter(Boolean).join(" · ");
    const status = this.element.querySelector(".now");
    if (status.textContent !== text) status.textContent = text;
    const names = this.going.map((visit) => this.clients[visit[0]]);
    const some = names.length > 12 ? [...names.slice(0, 12), `${names.length - 12} others`] : names;
    this.days.setAttribute("aria-label",
      `Calendar of ${this.clients.length} of ${row.clients} clients. ${some.length ? `Busy now: ${some.join(", ")}.` : "No client is busy now."} ` +
      "Arrow keys move through time.");
    this.cells.setAttribute("aria-label", `Busy clients: ${busy || "unknown"}. Each square is a client.`);
  }

  draw() {
    if (!this.row || !this.element.isConnected) return;
    this.drawCells();
    this.drawDays();
    const latest = this.latestBegin();
    if (document.activeElement !== this.slider || this.following) this.slider.value = latest ? 1000 * this.begin / latest : 1000;
    this.slider.setAttribute("aria-valuetext", `${tidy(this.begin)} s`);
    this.element.querySelector("output").textContent = `${tidy(this.begin)} s`;
    this.slider.disabled = !latest;
    if (!this.key.dataset.held) this.key.textContent = this.legend();
  }

  legend() {
    if (!this.row.rows) return "The run records totals but no rows of visits, so only visits in progress are shown.";
    const few = this.clients.length < this.row.clients ? `${this.clients.length} of ${this.row.clients.toLocaleString("en")} clients, evenly spread. ` : "";
    const cells = this.who ? "Squares: every client, filled while it is busy. " : "";
    return `${cells}${few}Bars are visits: pale while receiving and sending, full while computing; colours are groups. Striped: lost. Dashed: in progress.`;
  }

  drawCells() {
    const shown = this.who !== "" && this.row.state === "running";
    this.cells.parentElement.hidden = !shown;
    if (!shown) return;
    const bits = Uint8Array.from(atob(this.who), (letter) => letter.charCodeAt(0));
    const width = this.cells.parentElement.clientWidth, count = this.row.clients;
    const side = Math.max(3, Math.min(16, Math.floor(Math.sqrt(width * 130 / count))));
    const gap = side > 5 ? 2 : 1, across = Math.max(1, Math.floor(width / side));
    const pen = sized(this.cells, width, side * Math.ceil(count / across));
    for (const busy of [0, 1]) {
      pen.fillStyle = busy ? this.colourOfRun : colour("--line");
      for (let i = 0; i < count; i += 1) {
        if ((bits[i >> 3] >> (7 - (i & 7)) & 1) === busy) {
          pen.fillRect((i % across) * side, Math.floor(i / across) * side, side - gap, side - gap);
        }
      }
    }
  }

  drawDays() {
    const width = this.days.parentElement.clientWidth - 2 * parseFloat(getComputedStyle(this.element).paddingLeft);
    const rows = this.clients.length, each = rows > 24 ? 13 : 18, left = Math.min(150, Math.max(80, width * 0.2)), top = 8;
    const pen = sized(this.days, width, top + rows * each + 26);
    if (this.following) this.begin = this.latestBegin();
    const span = this.window || Math.max(1, this.now), scale = (width - left - 6) / span;
    const x = (seconds) => left + (seconds - this.begin) * scale;
    const bottom = top + rows * each;
    pen.font = `${each > 15 ? 12 : 10.5}px ${getComputedStyle(document.body).fontFamily}`;
    pen.textBaseline = "middle";
    this.drawAxis(pen, { x, left, top, bottom, width, span });
    pen.textAlign = "right";
    pen.fillStyle = colour("--soft");
    this.clients.forEach((name, i) => pen.fillText(fitted(pen, name, left - 10), left - 8, top + (i + 0.5) * each));
    pen.save();
    pen.beginPath();
    pen.rect(left, 0, width - left, bottom + 1);
    pen.clip();
    this.boxes = [];
    const end = this.begin + span;
    for (const visit of this.visits) {
      if (visit[5] >= this.begin && visit[2] <= end) this.drawVisit(pen, visit, x, top, each);
    }
    for (const [row, group, started, received, computed] of this.going) {
      this.drawVisit(pen, [row, group, started, received, computed, this.shownNow, null], x, top, each);
    }
    pen.strokeStyle = colour("--now");
    pen.lineWidth = 1.5;
    pen.beginPath();
    pen.moveTo(x(this.shownNow), 0);
    pen.lineTo(x(this.shownNow), bottom);
    pen.stroke();
    pen.restore();
  }

  drawAxis(pen, { x, left, top, bottom, width, span }) {
    const step = [1, 2, 5, 10].map((digit) => digit * 10 ** Math.floor(Math.log10(span / 5))).find((seconds) => span / seconds <= 8);
    pen.strokeStyle = colour("--grid");
    pen.fillStyle = colour("--soft");
    pen.textAlign = "center";
    pen.lineWidth = 1;
    for (let i = Math.ceil(this.begin / step); i * step <= this.begin + span; i += 1) {
      const at = Math.round(x(i * step)) + 0.5;
      pen.beginPath();
      pen.moveTo(at, top - 4);
      pen.lineTo(at, bottom);
      pen.stroke();
      if (at < width - 14) pen.fillText(`${tidy(i * step)} s`, Math.max(at, left + 10), bottom + 14);
    }
  }

  drawVisit(pen, visit, x, top, each) {
    const [row, group, started, received, computed, finished, outcome] = visit;
    if (finished < started) return;
    const y = top + row * each + 1.5, height = each - 3;
    const tone = group < 0 ? "#999999" : readable(SHARED.categories[group % SHARED.categories.length]);
    const part = (from, to, opacity) => {
      if (to <= from) return;
      pen.globalAlpha = opacity;
      pen.fillStyle = tone;
      pen.fillRect(x(from), y, Math.max(1, x(to) - x(from)), height);
    };
    const computing = Math.min(received ?? finished, finished), sending = Math.min(computed ?? finished, finished);
    const lost = LOST.has(outcome), faint = lost || CUT.has(outcome) ? 0.35 : 1;
    part(started, computing, 0.45 * faint);
    part(computing, sending, faint);
    part(sending, finished, 0.45 * faint);
    pen.globalAlpha = 1;
    const [from, to] = [x(started), Math.max(x(finished), x(started) + 1)];
    if (lost) stripes(pen, from, y, to - from, height);
    pen.strokeStyle = outcome === null ? colour("--ink") : colour("--card");
    pen.lineWidth = outcome === null ? 1 : 0.7;
    pen.setLineDash(outcome === null ? [3, 2] : []);
    pen.strokeRect(from + 0.5, y + 0.5, Math.max(0.5, to - from - 1), height - 1);
    pen.setLineDash([]);
    this.boxes.push([from, to, y, y + height, visit]);
  }

  // Shows what is under the pointer.
  explain(event) {
    delete this.key.dataset.held;
    if (event) {
      const found = this.boxes.findLast(([left, right, top, bottom]) =>
        event.offsetX >= left && event.offsetX <= right && event.offsetY >= top && event.offsetY <= bottom);
      if (found) {
        const [row, group, started, received, computed, finished, outcome] = found[4];
        const phases = [["receives", started, received], ["computes", received, computed], ["sends", computed, finished]]
          .filter(([, from, to]) => from !== null && to !== null && to <= finished && from <= to)
          .map(([name, from, to]) => `${name} ${tidy(to - from)} s`);
        this.key.textContent = [
          this.clients[row] + (group < 0 ? "" : `, group ${group}`),
          `from ${tidy(started)} s${outcome === null ? "" : ` to ${tidy(finished)} s`}`,
          phases.join(", "), outcome === null ? "in progress" : ENDINGS[outcome],
        ].filter(Boolean).join(" · ");
        this.key.dataset.held = "1";
        return;
      }
    }
    if (this.row) this.key.textContent = this.legend();
  }
}

// Fits a canvas to the screen's resolution; its pen draws in the page's units.
function sized(canvas, width, height) {
  const dots = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * dots) || canvas.height !== Math.round(height * dots)) {
    canvas.width = Math.round(width * dots);
    canvas.height = Math.round(height * dots);
    canvas.style.height = `${height}px`;
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(dots, 0, 0, dots, 0, 0);
  pen.clearRect(0, 0, width, height);
  return pen;
}

function stripes(pen, left, top, width, height) {
  pen.save();
  pen.beginPath();
  pen.rect(left, top, width, height);
  pen.clip();
  pen.strokeStyle = colour("--now");
  pen.lineWidth = 1.5;
  pen.beginPath();
  for (let i = -height; i < width; i += 6) {
    pen.moveTo(left + i, top + height);
    pen.lineTo(left + i + height, top);
  }
  pen.stroke();
  pen.restore();
}

function fitted(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  let most = text.length;
  while (most > 1 && pen.measureText(`${text.slice(0, most)}…`).width > width) most -= 1;
  return `${text.slice(0, most)}…`;
}

// "4.25", "35.2", "1,254".
function tidy(value) {
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return value.toLocaleString("en", { maximumFractionDigits: digits });
}
