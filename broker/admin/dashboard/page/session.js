// One session: its way, its counters, its subscriptions, and which key of the configuration holds it back.

import { actions } from "./actions.js";
import { Bars } from "./bars.js";
import { Chart } from "./charts.js";
import { el, say, show } from "./dom.js";
import { Flow } from "./flow.js";
import { Table } from "./table.js";
import { bytes, counted, dropped, duration, short, whole } from "./words.js";

const GATED = [["congested", "send path congested", "--bad"], ["window_full", "window full", "--watch"], ["mailbox_busy", "mailbox busy", "--line"], ["backlog", "backlog in the mqueue", "--line"], ["rate", "rate used up", "--watch"]];

const PUBLISHED = [
  ["published", (s) => whole(s.received)],
  ["payload", (s) => bytes(s.received_bytes)],
  ["a second", (_, rates) => short(rates?.received)],
  ["held in this interval", (s) => Object.entries(s.publish_held).map(([what, count]) => `${whole(count)} ${what}`).join(", ") || "none"],
];

const FACTS = [
  ["offered", (s) => whole(s.offered)],
  ["sent", (s) => whole(s.sent)],
  ["acknowledged", (s) => whole(s.acknowledged)],
  ["dropped", (s) => whole(s.dropped)],
  ["something waits for", (s) => (s.backlog_us ? duration(s.backlog_us) : "–")],
  ["payload in the mqueue", (s) => bytes(s.mqueue_bytes)],
  ["window full for", (s) => duration(s.window_full_us)],
  ["publishers paced for", (s) => duration(s.paced_for_us)],
  ["user", (s) => s.user ?? "anonymous"],
  ["address", (s) => s.peer || "–"],
  ["listener", (s) => s.listener || "–"],
  ["last disconnect", (s) => (s.last_disconnect ? `${s.last_disconnect.reason}, ${duration(Math.max(0, s.last_disconnect.ago_us))} ago` : "–")],
  ["session began", (s) => `${duration(Math.max(0, s.age_us))} ago`],
];

// Labels and values: `facts` has [label, text of a session and its rates].
class Facts {
  constructor(facts) {
    this.facts = facts;
    this.values = facts.map(() => el("b", {}, "–"));
    this.element = el("dl", { class: "facts" }, facts.map(([label], place) => el("div", {}, el("dt", {}, label), el("dd", {}, this.values[place]))));
  }

  take(session, rates) {
    this.facts.forEach(([, text], place) => say(this.values[place], text(session, rates)));
  }
}

export class SessionView {
  constructor(place, id, user, cell) { // `cell`: in which one it is, if that does not follow from its name
    this.place = place;
    this.id = id;
    this.where = cell ? { cell } : {};
    this.path = `/stream?${new URLSearchParams({ client_id: id, ...this.where })}`;
    this.before = null;
    this.why = el("p", { id: "why", class: "because", "aria-live": "polite" }, "…");
    this.advice = el("p", { id: "advice", class: "lead" });
    this.published = new Facts(PUBLISHED);
    this.paused = el("p", { class: "note" });
    this.facts = new Facts(FACTS);
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
    this.publishing = section("What it publishes", this.published.element, this.paused);
    this.receiving = section("The way of what is sent to it", way);
    show(
      place,
      el("p", { class: "back" }, el("a", { href: "#/" }, "Overview")),
      el("h1", { id: "headline", class: "id" }, id),
      this.why,
      this.advice,
      this.publishing,
      this.receiving,
      el("div", { class: "two" }, section("Messages a second", rates), section("Waiting", held)),
      el("div", { class: "two" },
        section("Since the session began", this.facts.element),
        section("QoS 0 queued by the gate, in this interval", this.gated.element, this.drops)),
      section("Subscriptions", this.subscriptions.element, this.more),
      user.role === "operator" && actions(id, this.where),
    );
    this.flow = new Flow(way);
    this.rates = new Chart(rates, [["published", "--watch"], ["offered", "--received"], ["sent", "--sent"], ["acknowledged", "--good"]]);
    this.held = new Chart(held, [["mqueue", "--bad"], ["window", "--watch"]]);
  }

  take(moment) {
    const { session } = moment;
    const rates = this.difference(moment);
    this.say(session);
    this.published.take(session, rates);
    this.flow.take(session, rates);
    const seconds = moment.time_us / 1e6;
    if (rates) this.rates.add(seconds, [rates.received, rates.offered, rates.sent, rates.acknowledged]);
    this.held.add(seconds, [session.mqueue_len, session.window_len]);
    this.facts.take(session, rates);
    this.gated.take(session.gated);
    const drops = Object.entries(session.drops).map(([name, count]) => `${whole(count)} (${dropped(name)})`);
    say(this.drops, drops.length ? `Dropped in this interval: ${drops.join("; ")}.` : "Nothing was dropped in this interval.");
    this.subscriptions.take(moment.subscriptions);
    const hidden = session.subscriptions - moment.subscriptions.length;
    say(this.more, hidden > 0 ? `and ${counted(hidden, "other")}` : "");
  }

  // Why it waits, in either direction. What is published goes past its own way.
  say(session) {
    const paused = session.reading_paused;
    const nothing = paused.length ? "Nothing waits for it." : "Nothing waits.";
    say(this.why, session.waits_for === "nothing" ? nothing : `Why it waits: ${session.because}.`);
    this.why.classList.toggle("holds", session.waits_for !== "nothing");
    say(this.advice, session.waits_for === "nothing" && !session.offered ? "Nothing has been sent to it." : session.advice);
    say(this.paused, paused.length ? `The broker does not read it now: ${paused.join("; ")}.` : "");
    this.paused.classList.toggle("bad", paused.length > 0);
    this.publishing.hidden = !session.received && !paused.length;
    this.receiving.hidden = !session.offered && !session.subscriptions && !this.publishing.hidden; // a publisher: all zeros
  }

  // What has happened since the moment before, a second; null in the first one and when the session is another.
  difference(moment) {
    const { before } = this;
    this.before = moment;
    if (!before || before.session.started_us !== moment.session.started_us) return null;
    const seconds = Math.max((moment.time_us - before.time_us) / 1e6, 0.001);
    const rate = (name) => Math.max(moment.session[name] - before.session[name], 0) / seconds;
    return { received: rate("received"), offered: rate("offered"), sent: rate("sent"), acknowledged: rate("acknowledged") };
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
