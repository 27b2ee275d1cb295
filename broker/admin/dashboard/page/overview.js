// The broker as a whole.

import { Bars } from "./bars.js";
import { Chart } from "./charts.js";
import { el, say, show } from "./dom.js";
import { listAddress, sessionAddress, WAITS } from "./sessions.js";
import { Table } from "./table.js";
import { bytes, counted, cut, dropped, duration, short, whole } from "./words.js";

const earlier = { rates: null, held: null }; // what the charts had when the page of a session was opened
const total = (rates) => Object.values(rates).reduce((sum, rate) => sum + rate, 0);

const TILES = [
  ["received", "messages received a second", (moment) => short(moment.rates?.received)],
  ["sent", "messages sent a second", (moment) => short(moment.rates?.sent)],
  ["dropped", "deliveries dropped a second", (moment) => short(moment.rates && total(moment.rates.dropped))],
  ["connected", "clients connected", (moment) => whole(moment.connected)],
  ["waiting", "deliveries in mqueues", (moment) => short(moment.mqueue_len)],
  ["bytes", "sent a second", (moment) => bytes(moment.rates?.bytes_sent)],
];

const GATED = [
  ["congested", "send path congested", "--bad"],
  ["window_full", "window full", "--watch"],
  ["mailbox_busy", "mailbox busy", "--line"],
  ["backlog", "backlog in the mqueue", "--line"],
  ["rate", "rate used up", "--watch"],
];

const TONES = { connected: "good", connecting: "watch", starting: "watch", waiting: "bad", idle: "", ended: "" };

function why(bridge) {
  if (bridge.failure) return bridge.failure;
  return bridge.filters_refused.length ? `the remote broker refuses ${bridge.filters_refused.join(", ")}` : "–";
}

// What the broker says, as a sentence: the name of a session, if it is about one, and the rest.
class Sentence {
  constructor(element) {
    this.name = el("bdi"); // a name that is written from right to left must not turn the sentence round
    this.rest = el("span", {}, "…");
    this.element = element;
    element.append(this.name, this.rest);
  }

  take(finding) {
    say(this.name, finding.client_id && cut(finding.client_id));
    say(this.rest, `${finding.text}${finding.drops ? `: ${dropped(finding.drops)}` : ""}.`);
    this.element.className = finding.kind;
  }
}

export class Overview {
  path = "/stream";

  constructor(place) {
    this.tiles = Object.fromEntries(TILES.map(([name]) => [name, el("b", { id: `tile-${name}` }, "–")]));
    this.headline = new Sentence(el("h1", { id: "headline", "aria-live": "polite" }));
    this.others = [0, 1, 2, 3].map(() => new Sentence(el("li", { hidden: true })));
    this.advice = el("p", { id: "advice", class: "lead" });
    this.waits = new Bars(WAITS, whole, (reason) => listAddress({ waits_for: reason }));
    this.gated = new Bars(GATED, short);
    this.pressure = el("p", { class: "note" });
    this.drops = el("p", { class: "note bad" });
    this.slow = new Table([
      ["session", (row) => row.client_id, "words"],
      ["why", (row) => row.because, "words wrap"],
      ["for", (row) => duration(row.for_us)],
      ["mqueue", (row) => (row.max_mqueue_len ? `${whole(row.mqueue_len)} of ${whole(row.max_mqueue_len)}` : whole(row.mqueue_len))],
      ["window", (row) => `${row.window_len} of ${row.window_limit}`],
      ["sent a second", (row) => short(row.sent)],
      ["dropped", (row) => whole(row.dropped)],
      ["publishers", (row) => (row.paced ? "paced" : "–")],
    ], "No connected session has a backlog.", sessionAddress);
    this.dropping = new Table([
      ["session", (row) => row.client_id, "words"],
      ["why", (row) => (row.reason ? dropped(row.reason) : "–"), "words wrap"],
      ["dropped a second", (row) => short(row.dropped)],
      ["mqueue", (row) => (row.max_mqueue_len ? `${whole(row.mqueue_len)} of ${whole(row.max_mqueue_len)}` : whole(row.mqueue_len))],
      ["client", (row) => (row.connected ? "connected" : "away"), "words"],
    ], "…", sessionAddress);
    this.talkers = new Table([
      ["session", (row) => row.client_id, "words"],
      ["received a second", (row) => short(row.received)],
      ["sent a second", (row) => short(row.sent)],
    ], "No messages in the last second.", sessionAddress);
    this.addresses = new Table([
      ["address", (row) => row.address, "words"],
      ["size", (row) => `${bytes(row.size_bytes)} of ${bytes(row.max_size_bytes)}`],
      ["waiting", (row) => whole(row.waiting)],
      ["if full", (row) => row.full_policy],
      ["refused", (row) => whole(row.refused)],
      ["dropped", (row) => whole(row.dropped)],
    ], "No topic with a limit in bytes is in use (addresses).");
    this.groups = new Table([
      ["group", (row) => row.group, "words"],
      ["members", (row) => whole(row.members)],
      ["mqueue", (row) => whole(row.mqueue_len)],
      ["sent", (row) => short(row.sent)],
      ["dropped", (row) => whole(row.dropped)],
    ], "No shared subscriptions.");
    this.bridged = null; // deliveries a second, by bridge
    this.bridges = new Table([
      ["bridge", (row) => row.bridge, "words"],
      ["state", (row) => (row.state === "waiting" ? `waiting: again in ${duration(1e6 * row.next_attempt_seconds)}` : row.state), "words", (row) => TONES[row.state]],
      ["remote broker", (row) => row.remote ?? "–", "words"],
      ["queue", (row) => whole(row.queue)],
      ["oldest", (row) => (row.queue ? duration(1e6 * row.oldest_seconds) : "–")],
      ["sent a second", (row) => short(this.bridged && (this.bridged[row.bridge] ?? 0))],
      ["refused", (row) => whole(row.refused_out + row.refused_in)],
      ["why", why, "words wrap"],
    ], "", (row) => `#/session/${encodeURIComponent(`$bridge/${row.bridge}`)}`);
    this.cells = new Table([
      ["cell", (row) => whole(row.cell), "words"],
      ["state", (row) => row.why || "ready", "words wrap", (row) => (row.why ? "bad" : "good")],
      ["restarts", (row) => whole(row.restarts)],
      ["clients", (row) => (row.connected === null ? "–" : whole(row.connected))],
      ["received a second", (row) => short(row.received)],
      ["sent a second", (row) => short(row.sent)],
    ], "");
    this.lay(place);
  }

  lay(place) {
    const rates = el("div", { class: "chart", id: "chart-rates" });
    const held = el("div", { class: "chart", id: "chart-held" });
    const section = (title, ...content) => el("section", {}, el("h2", {}, title), content);
    this.over = section("Bridges", this.bridges.element);
    this.over.hidden = true;
    this.host = section("Cells", this.cells.element);
    this.host.hidden = true;
    show(
      place,
      this.headline.element,
      this.advice,
      el("ul", { id: "findings" }, this.others.map((each) => each.element)),
      el("dl", { class: "tiles" }, TILES.map(([name, label]) => el("div", { class: `tile ${name}` }, el("dt", {}, label), el("dd", {}, this.tiles[name])))),
      el("div", { class: "two" }, section("Messages a second", rates), section("Sessions held back", held)),
      this.host,
      this.over,
      section("Deliveries dropped", this.dropping.element),
      section("Slow consumers", this.slow.element, el("p", { class: "note" }, el("a", { href: "#/sessions" }, "All sessions"), " · ", el("a", { href: "#/retained" }, "Retained messages"), " · ", el("a", { href: "#/docs" }, "API"))),
      el("div", { class: "two" },
        section("Sessions by what they wait for", this.waits.element),
        section("QoS 0 queued by the gate, a second", this.gated.element, this.drops, this.pressure)),
      el("div", { class: "two" }, section("Top talkers", this.talkers.element), section("Addresses", this.addresses.element)),
      section("Groups", this.groups.element),
    );
    this.rates = new Chart(rates, [["received", "--received"], ["sent", "--sent"], ["dropped", "--bad"]], { data: earlier.rates });
    this.held = new Chart(held, [["send path congested", "--bad"], ["window full", "--watch"], ["publishers paced for it", "--sent"]], { data: earlier.held, steps: true });
    earlier.rates = this.rates.data;
    earlier.held = this.held.data;
  }

  take(moment) {
    const [first, ...others] = moment.findings;
    this.headline.take(first);
    say(this.advice, first.advice);
    this.others.forEach((each, place) => {
      each.element.hidden = place >= others.length;
      if (place < others.length) each.take(others[place]);
    });
    for (const [name, , value] of TILES) say(this.tiles[name], value(moment));
    const seconds = moment.time_us / 1e6;
    const { rates } = moment;
    if (rates) this.rates.add(seconds, [rates.received, rates.sent, total(rates.dropped)]);
    this.held.add(seconds, [moment.congested, moment.window_full, moment.paced_for]);
    this.waits.take(moment.waits_for);
    this.gated.take(rates ? rates.gated : {});
    const drops = Object.entries(rates ? rates.dropped : {}).map(([name, rate]) => `${short(rate)} a second (${dropped(name)})`);
    say(this.drops, drops.length ? `Dropped: ${drops.join("; ")}.` : "");
    say(this.pressure, `${counted(moment.congested, "send path is", "send paths are")} congested, ${counted(moment.window_full, "window is", "windows are")} full, with ${counted(moment.window_len, "delivery", "deliveries")} unacknowledged in all; publishers are paced for ${counted(moment.paced_for, "session")}; ${counted(moment.addresses_full, "address is", "addresses are")} full.`);
    this.dropping.take(moment.dropping);
    say(this.dropping.nothing, rates ? "Of no session something was dropped in the last second." : "…");
    this.slow.take(moment.slow);
    this.talkers.take(moment.talkers);
    this.addresses.take(moment.addresses);
    this.groups.take(moment.groups);
    this.host.hidden = !moment.cells;
    this.cells.take(moment.cells ?? []);
    this.bridged = rates && rates.bridges;
    this.over.hidden = !moment.bridges.length;
    this.bridges.take(moment.bridges);
  }

  close() {
    this.rates.close();
    this.held.close();
  }
}
