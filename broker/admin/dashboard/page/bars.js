// Bars with a name, a length and a number: how much there is of each reason.

import { el, say } from "./dom.js";

export class Bars {
  // `names`: [[key, label, name of a colour], ...], in their order. `address`: where a key's label leads, if anywhere.
  constructor(names, text, address = null) {
    this.text = text;
    this.rows = names.map(([key, label, colour]) => {
      const bar = el("i", {});
      bar.style.background = `var(${colour})`;
      const value = el("td", {}, "–");
      return { key, bar, value, element: el("tr", {}, el("th", { scope: "row" }, address ? el("a", { href: address(key) }, label) : label), el("td", { class: "track" }, bar), value) };
    });
    this.element = el("table", { class: "bars" }, el("tbody", {}, this.rows.map((row) => row.element)));
  }

  take(values) {
    const whole = Math.max(1e-9, ...this.rows.map((row) => values[row.key] || 0));
    for (const row of this.rows) {
      const value = values[row.key] || 0;
      row.bar.style.width = `${(100 * value) / whole}%`;
      row.element.classList.toggle("zero", !value);
      say(row.value, this.text(value));
    }
  }
}
