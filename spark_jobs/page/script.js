// Sorts and filters tables, copies commands, unfolds what a link is about; without it the page is static.
(() => {
  "use strict";

  const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });
  const text = (cell) => cell.textContent.trim();
  const isNumber = (cell) => cell.hasAttribute("data-v");
  // Missing values come last in both sort orders.
  const compare = (a, b, way) => {
    if (isNumber(a) || isNumber(b)) {
      const [x, y] = [a.dataset.v, b.dataset.v];
      if (!x || !y) return x ? -1 : y ? 1 : 0;
      return way * (Number(x) - Number(y));
    }
    return way * collator.compare(text(a), text(b));
  };

  const sort = (table, heads, column) => {
    const body = table.tBodies[0];
    const head = heads[column];
    const first = body.rows.length && isNumber(body.rows[0].cells[column]) ? "descending" : "ascending";
    const other = first === "descending" ? "ascending" : "descending";
    const order = head.getAttribute("aria-sort") === first ? other : first;
    heads.forEach((each) => each.setAttribute("aria-sort", each === head ? order : "none"));
    const way = order === "ascending" ? 1 : -1;
    const rows = [...body.rows];
    rows.sort((a, b) => compare(a.cells[column], b.cells[column], way));
    body.append(...rows);
  };

  const makeSortable = (table) => {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      if (!text(head)) return;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      button.addEventListener("click", () => sort(table, heads, column));
      head.append(button);
      head.setAttribute("aria-sort", "none");
    });
  };

  const makeFilterable = (grid, table) => {
    const rows = [...table.tBodies[0].rows];
    const field = document.createElement("input");
    const shown = document.createElement("output");
    field.type = "search";
    field.placeholder = "filter";
    field.setAttribute("aria-label", `Filter: ${text(grid.querySelector("strong"))}`);
    field.addEventListener("input", () => {
      const wanted = field.value.trim().toLowerCase();
      rows.forEach((row) => { row.hidden = !row.textContent.toLowerCase().includes(wanted); });
      const left = rows.filter((row) => !row.hidden).length;
      shown.textContent = wanted ? `${left} of ${rows.length}` : "";
    });
    grid.querySelector(".tablehead").append(field, shown);
  };

  for (const grid of document.querySelectorAll(".sheet")) {
    const table = grid.querySelector("table");
    if (table.tBodies[0].rows.length > 1) makeSortable(table);
    if (table.tBodies[0].rows.length >= 8) makeFilterable(grid, table);
  }

  const copy = async (element) => {
    if (navigator.clipboard) return navigator.clipboard.writeText(element.textContent);
    getSelection().selectAllChildren(element);  // only a page of https or of a file has a clipboard
    document.execCommand("copy");
  };
  for (const code of document.querySelectorAll("code.copy")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copied";
    const say = (word) => {
      button.textContent = word;
      button.setAttribute("aria-label", `${word}: ${code.textContent}`);
    };
    say("Copy");
    button.addEventListener("click", async () => {
      await copy(code);
      say("Copied");
    });
    code.after(button);
  }

  // A link to folded content unfolds it, also if it is followed again; print shows everything.
  const unfold = () => {
    const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
  };
  addEventListener("hashchange", unfold);
  document.addEventListener("click", (event) => {
    if (event.target.closest("a")?.hash === location.hash) unfold();
  });
  unfold();
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    folded.forEach((each) => { each.open = true; });
  });
  addEventListener("afterprint", () => { folded.forEach((each) => { each.open = false; }); });
})();
