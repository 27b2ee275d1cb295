// Charts of the last minutes, by uPlot.

import { short } from "./words.js";

const HEIGHT = 170; // pixels
const KEPT = 300; // points of a chart
const GAP = 15; // seconds without a point that interrupt the line
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600]; // seconds between two labels
const WHOLE = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].flatMap((power) => [1, 2, 5].map((first) => first * 10 ** power));
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const dark = matchMedia("(prefers-color-scheme: dark)");

export class Chart {
  // `series`: [[label, name of a colour], ...]; each `add` has a value for each. `data`: that of an earlier chart.
  // `steps`: values stay until the next one, as counts do.
  constructor(place, series, { data = null, steps = false } = {}) {
    this.place = place;
    this.series = series;
    this.height = HEIGHT;
    this.paths = steps ? uPlot.paths.stepped({ align: 1 }) : uPlot.paths.linear();
    this.data = data || [[], ...series.map(() => [])];
    this.observer = new ResizeObserver(() => this.fit());
    this.observer.observe(place);
    this.redraw = () => this.draw();
    dark.addEventListener("change", this.redraw);
    this.draw();
  }

  add(seconds, values) {
    const last = this.data[0].at(-1);
    if (last !== undefined && seconds - last > GAP) this.push(seconds - 1, values.map(() => null));
    this.push(seconds, values);
    this.plot.setData(this.data);
    if (this.plot.cursor.left < 0) this.tellLast();
  }

  push(seconds, values) {
    this.data[0].push(seconds);
    values.forEach((value, place) => this.data[place + 1].push(value));
    if (this.data[0].length > KEPT) this.data.forEach((column) => column.shift());
  }

  // Without a mouse over it the legend has the last values.
  tellLast() {
    const last = this.data[0].length - 1;
    if (last >= 0) this.plot.setLegend({ idx: last }, false);
  }

  close() {
    this.observer.disconnect();
    dark.removeEventListener("change", this.redraw);
    this.plot.destroy();
  }

  fit() {
    const width = Math.floor(this.place.clientWidth);
    if (width > 0 && width !== this.plot.width) this.plot.setSize({ width, height: this.height });
  }

  draw() {
    if (this.plot) this.plot.destroy();
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--grid"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const lines = this.series.map(([label, name]) => ({ label, stroke: colour(name), width: 1.75, paths: this.paths, points: { show: false }, value: (_, value) => short(value) }));
    this.plot = new uPlot({
      width: Math.max(Math.floor(this.place.clientWidth), 100),
      height: this.height,
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
      scales: { y: { range: (_, low, high) => [0, Math.max(high || 0, 1) * 1.08] } },
      series: [{ label: "time", value: (_, seconds) => (seconds === null ? "" : CLOCK.format(seconds * 1000)) }, ...lines],
      axes: [
        { ...axis, space: 84, size: 28, incrs: STEPS, values: (_, ticks) => ticks.map((seconds) => CLOCK.format(seconds * 1000)) },
        { ...axis, size: 48, space: 34, incrs: WHOLE, values: (_, ticks) => ticks.map(short) },
      ],
    }, this.data, this.place);
    this.plot.over.addEventListener("mouseleave", () => this.tellLast());
    this.tellLast();
  }
}
