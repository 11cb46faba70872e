// Animate the calendars. They are complete without this script, and play when they first become visible.
"use strict";
const REAL_SECONDS = 14; // duration of a whole calendar

for (const figure of document.querySelectorAll("figure.calendar")) {
  const { left, scale, seconds } = Object.fromEntries(Object.entries(figure.dataset).map(([k, v]) => [k, Number(v)]));
  const [seen, now] = [figure.querySelector(".seen"), figure.querySelector(".now")];
  const [button, slider, output] = ["button", "input", "output"].map((name) => figure.querySelector(name));
  let playing = false;
  let last = 0;

  const show = (time) => {
    const x = left + time * scale;
    seen.setAttribute("width", time < seconds ? x : 10_000);
    now.setAttribute("x1", x);
    now.setAttribute("x2", x);
    now.setAttribute("visibility", time < seconds ? "visible" : "hidden");
    slider.value = time;
    output.textContent = `${time.toFixed(1)} s`;
  };
  const play = (on) => {
    playing = on;
    button.textContent = on ? "❚❚" : "▶";
    button.setAttribute("aria-label", on ? "Hold time" : "Let time pass");
    if (on) {
      if (Number(slider.value) >= seconds) show(0);
      last = performance.now();
      requestAnimationFrame(step);
    }
  };
  const step = (at) => {
    if (!playing) return;
    const time = Math.min(seconds, Number(slider.value) + ((at - last) * seconds) / (1000 * REAL_SECONDS));
    last = at;
    show(time);
    if (time < seconds) requestAnimationFrame(step);
    else play(false);
  };

  slider.step = "any";
  button.addEventListener("click", () => play(!playing));
  slider.addEventListener("input", () => {
    play(false);
    show(Number(slider.value));
  });
  figure.querySelector(".controls").hidden = false;
  if (!matchMedia("(prefers-reduced-motion: reduce)").matches) {
    new IntersectionObserver(([entry], observer) => {
      if (!entry.isIntersecting) return;
      observer.disconnect();
      play(true);
    }, { threshold: 0.6 }).observe(figure);
  }
}
