// Retained messages, and for operators their removal.

import { confirmed } from "./actions.js";
import { ask } from "./api.js";
import { el, say, show } from "./dom.js";
import { Table } from "./table.js";
import { bytes, counted, whole } from "./words.js";

const LIMIT = 100; // rows of a page
const LONGEST = 256; // characters of a name in a list: a longer one is cut, and is no topic
const TEXT = new TextDecoder();

const payload = (row) => TEXT.decode(Uint8Array.from(atob(row.payload), (character) => character.charCodeAt(0)));
const address = (query) => `#/retained?${new URLSearchParams(query)}`;

export class Retained {
  path = "/stream";

  constructor(place, query, user) {
    this.query = query;
    this.busy = false;
    const clear = user.role === "operator" && ["Clear …", (row) => this.clear(row), (row) => row.topic.length < LONGEST];
    this.table = new Table([
      ["topic", (row) => row.topic, "words"],
      ["payload", payload, "words wrap id"],
      ["size", (row) => bytes(row.size_bytes)],
      ["QoS", (row) => whole(row.qos)],
      ["publisher", (row) => row.publisher || "–", "words id"],
    ], "No retained message matches.", null, clear || null);
    this.count = el("p", { class: "note", role: "status" });
    this.result = el("p", { class: "note", role: "status" });
    this.next = el("a", { hidden: true }, "Next page");
    const change = (event) => {
      event.preventDefault();
      location.hash = address([...new FormData(this.form)].filter(([, value]) => value));
    };
    this.form = el("form", { class: "filters", onsubmit: change, onchange: change },
      el("input", { type: "search", name: "topic", value: query.get("topic") || "", placeholder: "Part of a topic", "aria-label": "Part of a topic", spellcheck: "false", autocomplete: "off" }));
    show(place, el("p", { class: "back" }, el("a", { href: "#/" }, "Overview")), el("h1", { id: "headline" }, "Retained messages"), this.form, this.count, this.table.element, this.result, el("p", {}, this.next));
  }

  async clear(row) {
    const effect = "The retained message of this topic is removed. Who subscribes later does not get it.";
    if (!(await confirmed("Clear", row.topic, effect))) return;
    try {
      const { count } = await ask(`/retained?${new URLSearchParams({ topic_filter: row.topic })}`, { method: "DELETE" });
      say(this.result, `${counted(count, "message")} removed`);
      await this.take();
    } catch (error) {
      say(this.result, error.message);
    }
  }

  async take() {
    if (this.busy) return;
    this.busy = true;
    try {
      const asked = new URLSearchParams(this.query);
      asked.set("limit", LIMIT);
      asked.set("sys", "false"); // those of the broker itself change all the time
      const page = await ask(`/retained?${asked}`);
      this.table.take(page.items);
      say(this.count, [counted(page.matched, "message"), ...(page.unanswered ?? [])].join("; "));
      this.next.hidden = !page.next;
      if (page.next) this.next.setAttribute("href", address([...[...this.query].filter(([name]) => name !== "after"), ["after", page.next]]));
    } catch (error) {
      say(this.count, error.message);
    } finally {
      this.busy = false;
    }
  }

  close() {}
}
