// Zoom: draws a plot's values again by uPlot, on demand. Without scripts, and in print, there are only the plots.
(() => {
  "use strict";

  const HEIGHT = 170;
  const GRID = "#80808040";
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const rounded = (value) => Number(value.toPrecision(3)).toLocaleString("en");
  const duration = (us) => us >= 1e6 ? `${rounded(us / 1e6)} s` : us >= 1e3 ? `${rounded(us / 1e3)} ms` : `${rounded(us)} µs`;
  const UNITS = {
    us: duration,
    share: (value) => `${rounded(value * 100)} %`,
    index: (value) => String(Number(value.toPrecision(4))),
    per_second: (value) => `${rounded(value)}/s`,
  };
  const two = (number) => String(number).padStart(2, "0");
  const elapsed = (seconds) => `${Math.floor(seconds / 3600)}:${two(Math.floor(seconds / 60) % 60)}:${two(Math.floor(seconds) % 60)}`;
  const clock = (seconds) => new Date(seconds * 1000).toISOString().replace("T", " ").slice(0, 19);

  // The date at midnight, else the time of day.
  const brief = (seconds) => seconds % 86400 ? clock(seconds).slice(11, seconds % 60 ? 19 : 16) : clock(seconds).slice(5, 10);

  // One list of times for all lines of a chart.
  const joined = (lines) => uPlot.join(lines.map((line) => [line.at, line.values]));

  const chart = (place, plot, values, all) => {
    const show = UNITS[plot.unit];
    const style = getComputedStyle(place);
    const axis = { stroke: style.color, grid: { stroke: GRID }, ticks: { stroke: GRID }, font: `12px ${style.fontFamily}` };
    const moment = values.elapsed ? elapsed : clock;
    const colour = (name) => {
      const swatch = place.appendChild(document.createElement("i"));
      swatch.className = name;
      const found = getComputedStyle(swatch).getPropertyValue("--c").trim();
      swatch.remove();
      return found;
    };
    // All charts of a figure show the same time.
    const follow = (one, key) => {
      if (key !== "x") return;
      const { min, max } = one.scales.x;
      place.dataset.shown = `${min} ${max}`;
      for (const other of all) {
        const x = other.scales.x;
        if (other !== one && (x.min !== min || x.max !== max)) other.setScale("x", { min, max });
      }
    };
    const made = new uPlot({
      title: plot.title,
      width: place.clientWidth,
      height: HEIGHT,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      scales: {
        x: { time: !values.elapsed, range: (_, min, max) => [min ?? values.from, max ?? values.to] },
        y: plot.unit === "us" ? { distr: 3 } : {},
      },
      cursor: { sync: { key: place.dataset.number } },
      hooks: { setScale: [follow] },
      series: [
        { label: "time", value: (_, at) => at === null ? "–" : moment(at) },
        ...plot.lines.map((line) => ({
          label: line.name,
          stroke: colour(line.class),
          width: 1.5,
          value: (_, value) => value === null ? "–" : show(value),
        })),
      ],
      axes: [
        { ...axis, values: (_, ticks) => ticks.map(values.elapsed ? elapsed : brief) },
        { ...axis, size: 74, values: (_, ticks) => ticks.map((tick) => tick === null ? "" : show(tick)) },
      ],
    }, joined(plot.lines), place);
    all.push(made);
  };

  let number = 0;
  for (const place of document.querySelectorAll(".zoom")) {
    const values = JSON.parse(place.dataset.values);
    place.dataset.number = String(++number);
    let open = [];
    const close = () => {
      open.forEach((each) => each.destroy());
      open = [];
    };
    const draw = () => {
      close();
      const all = [];
      for (const plot of values.charts) chart(place, plot, values, all);
      open = all;
    };
    const button = document.createElement("button");
    button.type = "button";
    const label = () => { button.textContent = open.length ? "Back to the plot" : "Zoom"; };
    button.addEventListener("click", () => {
      // A chart is as wide as its place, which has to be visible then.
      if (place.parentElement.classList.toggle("zoomed", !open.length)) draw(); else close();
      label();
    });
    label();
    place.before(button);
    const hint = document.createElement("p");
    hint.textContent = "Drag over a range to zoom in; a double click shows all of it again.";
    place.append(hint);
    addEventListener("resize", () => open.forEach((each) => each.setSize({ width: place.clientWidth, height: HEIGHT })));
    dark.addEventListener("change", () => { if (open.length) draw(); });
  }
})();
