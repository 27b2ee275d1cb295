// Tables whose rows change each second: cells are set anew, rows stay, so that the keyboard's focus does.

import { el, say } from "./dom.js";

export class Table {
  // `columns`: [[head, text of a row, class, tone of a row], ...]; the first is the row's name, and a link if `address` gives one.
  // A tone is the name of a colour: good, watch, bad, or none.
  // `act`: [label, what a button of the row does with it, whether it has one].
  constructor(columns, nothing, address = null, act = null) {
    this.columns = columns;
    this.address = address;
    this.act = act;
    this.rows = [];
    this.body = el("tbody");
    this.nothing = el("p", { class: "nothing" }, nothing);
    const heads = columns.map(([head, , kind]) => el("th", { scope: "col", class: kind }, head));
    if (act) heads.push(el("td"));
    this.sheet = el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, heads)), this.body));
    this.element = el("div", {}, this.sheet, this.nothing);
    this.take([]);
  }

  take(items) {
    this.sheet.hidden = !items.length;
    this.nothing.hidden = items.length > 0;
    while (this.rows.length < items.length) this.rows.push(this.row());
    items.forEach((item, place) => this.fill(this.rows[place], item));
    const shown = this.rows.slice(0, items.length).map((row) => row.element);
    if (this.body.childElementCount !== shown.length) this.body.replaceChildren(...shown);
  }

  row() {
    const name = this.address ? el("a", { class: "id" }) : el("span", { class: "id" });
    const cells = this.columns.slice(1).map(([, , kind]) => el("td", { class: kind }));
    const row = { name, cells, item: null, button: null };
    if (this.act) row.button = el("button", { class: "small", onclick: () => this.act[1](row.item) }, this.act[0]);
    row.element = el("tr", {}, el("th", { scope: "row", class: this.columns[0][2] }, name), cells, row.button && el("td", {}, row.button));
    return row;
  }

  fill(row, item) {
    const name = this.columns[0][1](item);
    row.item = item;
    if (row.button) row.button.hidden = !this.act[2](item);
    say(row.name, name === "" ? "(empty)" : name);
    row.name.title = name;
    const address = this.address && this.address(item);
    if (address) row.name.setAttribute("href", address);
    else row.name.removeAttribute("href");
    this.columns.slice(1).forEach(([, text, , tone], place) => {
      say(row.cells[place], text(item));
      if (tone) row.cells[place].dataset.tone = tone(item);
    });
  }
}
