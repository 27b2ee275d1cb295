// One session: its way, its counters, its subscriptions, and which key of the configuration holds it back.

import { actions } from "./actions.js";
import { Bars } from "./bars.js";
import { Chart } from "./charts.js";
import { el, say, show } from "./dom.js";
import { Flow } from "./flow.js";
import { Table } from "./table.js";
import { bytes, counted, dropped, duration, whole } from "./words.js";

const GATED = [["congested", "send path congested", "--bad"], ["window_full", "window full", "--watch"], ["mailbox_busy", "mailbox busy", "--line"], ["backlog", "backlog in the mqueue", "--line"], ["rate", "rate used up", "--watch"]];

const FACTS = [
  ["offered", (s) => whole(s.offered)],
  ["sent", (s) => whole(s.sent)],
  ["acknowledged", (s) => whole(s.acknowledged)],
  ["dropped", (s) => whole(s.dropped)],
  ["payload in the mqueue", (s) => bytes(s.mqueue_bytes)],
  ["window full for", (s) => duration(s.window_full_us)],
  ["publishers paced for", (s) => duration(s.paced_for_us)],
  ["user", (s) => s.user ?? "anonymous"],
  ["address", (s) => s.peer || "–"],
  ["listener", (s) => s.listener || "–"],
  ["session began", (s) => `${duration(Math.max(0, s.age_us))} ago`],
];

export class SessionView {
  constructor(place, id, user) {
    this.place = place;
    this.id = id;
    this.path = `/stream?client_id=${encodeURIComponent(id)}`;
    this.before = null;
    this.why = el("p", { id: "why", class: "because", "aria-live": "polite" }, "…");
    this.advice = el("p", { id: "advice", class: "lead" });
    this.facts = FACTS.map(([label]) => ({ label, value: el("b", {}, "–") }));
    this.gated = new Bars(GATED, whole);
    this.drops = el("p", { class: "note" });
    this.subscriptions = new Table([
      ["topic filter", (row) => row.topic_filter, "words"],
      ["QoS", (row) => whole(row.qos)],
      ["shared", (row) => (row.shared ? "yes" : "no")],
      ["own messages", (row) => (row.no_local ? "no" : "yes")],
    ], "It has no subscriptions.");
    this.more = el("p", { class: "note" });
    this.lay(place, id, user);
  }

  lay(place, id, user) {
    const way = el("div", { class: "way" });
    const rates = el("div", { class: "chart", id: "chart-rates" });
    const held = el("div", { class: "chart", id: "chart-held" });
    const section = (title, ...content) => el("section", {}, el("h2", {}, title), content);
    show(
      place,
      el("p", { class: "back" }, el("a", { href: "#/" }, "Overview")),
      el("h1", { id: "headline", class: "id" }, id),
      this.why,
      this.advice,
      section("Its way", way),
      el("div", { class: "two" }, section("Deliveries a second", rates), section("Waiting", held)),
      el("div", { class: "two" },
        section("Since the session began", el("dl", { class: "facts" }, this.facts.map(({ label, value }) => el("div", {}, el("dt", {}, label), el("dd", {}, value))))),
        section("QoS 0 queued by the gate, in this interval", this.gated.element, this.drops)),
      section("Subscriptions", this.subscriptions.element, this.more),
      user.role === "operator" && actions(id),
    );
    this.flow = new Flow(way);
    this.rates = new Chart(rates, [["offered", "--received"], ["sent", "--sent"], ["acknowledged", "--good"]]);
    this.held = new Chart(held, [["mqueue", "--bad"], ["window", "--watch"]]);
  }

  take(moment) {
    const { session } = moment;
    say(this.why, session.waits_for === "nothing" ? "Nothing waits." : `Why it waits: ${session.because}.`);
    this.why.classList.toggle("holds", session.waits_for !== "nothing");
    say(this.advice, session.advice);
    const rates = this.difference(moment);
    this.flow.take(session, rates);
    const seconds = moment.time_us / 1e6;
    if (rates) this.rates.add(seconds, [rates.offered, rates.sent, rates.acknowledged]);
    this.held.add(seconds, [session.mqueue_len, session.window_len]);
    FACTS.forEach(([, text], place) => say(this.facts[place].value, text(session)));
    this.gated.take(session.gated);
    const drops = Object.entries(session.drops).map(([name, count]) => `${whole(count)} (${dropped(name)})`);
    say(this.drops, drops.length ? `Dropped in this interval: ${drops.join("; ")}.` : "Nothing was dropped in this interval.");
    this.subscriptions.take(moment.subscriptions);
    const hidden = session.subscriptions - moment.subscriptions.length;
    say(this.more, hidden > 0 ? `and ${counted(hidden, "other")}` : "");
  }

  // What has happened since the moment before, a second; null in the first one and when the session is another.
  difference(moment) {
    const { before } = this;
    this.before = moment;
    if (!before || before.session.started_us !== moment.session.started_us) return null;
    const seconds = Math.max((moment.time_us - before.time_us) / 1e6, 0.001);
    const rate = (name) => Math.max(moment.session[name] - before.session[name], 0) / seconds;
    return { offered: rate("offered"), sent: rate("sent"), acknowledged: rate("acknowledged") };
  }

  gone(message) {
    this.close();
    show(this.place, el("p", { class: "back" }, el("a", { href: "#/" }, "Overview")), el("h1", { id: "headline", class: "id" }, this.id), el("p", { role: "alert" }, `${message}.`));
  }

  close() {
    this.flow.close();
    this.rates.close();
    this.held.close();
  }
}
