// The list of sessions: filtered, sorted, page by page.

import { ask } from "./api.js";
import { el, say, show } from "./dom.js";
import { Table } from "./table.js";
import { bytes, counted, short, whole } from "./words.js";

export const WAITS = [
  ["nothing", "nothing", "--good"],
  ["send path", "send path congested", "--bad"],
  ["window", "window full", "--watch"],
  ["byte window", "window full (bytes)", "--watch"],
  ["rate", "rate used up", "--watch"],
  ["turn", "its next pass", "--line"],
  ["disk", "room on the disk", "--bad"],
  ["client", "client is away", "--line"],
];
const SORTS = [["mqueue", "mqueue"], ["bytes", "payload in the mqueue"], ["drops", "dropped"], ["sent", "sent"], ["window", "window"], ["window_full", "time with a full window"], ["patience", "time publishers were paced"], ["name", "name"]];
const LIMIT = 100; // rows of a page
const LONGEST = 256; // characters of a name in a list: a longer one is cut, and names no session
const label = Object.fromEntries(WAITS);

// Links have one name in several cells; other sessions are found without.
const cellOf = (row) => (row.cell && row.client_id.startsWith("$") ? `?cell=${row.cell}` : "");
export const sessionAddress = (row) => (row.client_id.length < LONGEST ? `#/session/${encodeURIComponent(row.client_id)}${cellOf(row)}` : null);
export const listAddress = (query) => `#/sessions?${new URLSearchParams(query)}`;

export class Sessions {
  path = "/stream";

  constructor(place, query) {
    this.query = query;
    this.busy = false;
    this.table = new Table([
      ["session", (row) => row.client_id, "words"],
      ["waits for", (row) => label[row.waits_for], "words"],
      ["mqueue", (row) => whole(row.mqueue_len)],
      ["payload", (row) => bytes(row.mqueue_bytes)],
      ["window", (row) => `${row.window_len} of ${row.window_limit}`],
      ["sent", (row) => short(row.sent)],
      ["dropped", (row) => short(row.dropped)],
      ["client", (row) => (row.connected ? "connected" : "away"), "words"],
    ], "No session matches.", sessionAddress);
    this.count = el("p", { class: "note", role: "status" });
    this.next = el("a", { hidden: true }, "Next page");
    const choice = (name, entries) => el("select", { name, "aria-label": name === "sort" ? "Sort by" : "What they wait for" },
      entries.map(([value, text]) => el("option", { value, selected: query.get(name) === value }, text)));
    const change = (event) => {
      event.preventDefault();
      const given = [...new FormData(this.form)].filter(([, value]) => value);
      location.hash = listAddress(given);
    };
    this.form = el("form", { class: "filters", onsubmit: change, onchange: change },
      el("input", { type: "search", name: "client_id", value: query.get("client_id") || "", placeholder: "Part of a client id", "aria-label": "Part of a client id", spellcheck: "false", autocomplete: "off" }),
      choice("waits_for", [["", "whatever they wait for"], ...WAITS]), choice("sort", SORTS.map(([value, text]) => [value, `by ${text}`])));
    show(place, el("p", { class: "back" }, el("a", { href: "#/" }, "Overview")), el("h1", { id: "headline" }, "Sessions"), this.form, this.count, this.table.element, el("p", {}, this.next));
  }

  async take() {
    if (this.busy) return;
    this.busy = true;
    try {
      const asked = new URLSearchParams(this.query);
      asked.set("limit", LIMIT);
      const page = await ask(`/sessions?${asked}`);
      this.table.take(page.items);
      say(this.count, [`${counted(page.matched, "session")} of ${whole(page.total)}`, ...(page.unanswered ?? [])].join("; "));
      this.next.hidden = !page.next;
      if (page.next) this.next.setAttribute("href", listAddress([...[...this.query].filter(([name]) => name !== "after"), ["after", page.next]]));
    } catch (error) {
      say(this.count, error.message);
    } finally {
      this.busy = false;
    }
  }

  close() {}
}
