// The way of a session's deliveries as a picture: mailbox, gate, mqueue, window, send path, client.

import { say, svg } from "./dom.js";
import { short, whole } from "./words.js";

const NARROW = 700; // below it the way goes from top to bottom
const HOLDS = { "send path": "path", window: "window", "byte window": "window", rate: "window", client: "client", turn: "mailbox", disk: "mailbox" };
const BUSY = 10; // deliveries in the mailbox that close the gate (FC-3)

// Why the gate is closed to QoS 0: the first reason of FC-3 that holds; empty = it is open.
export function gateClosed(session) {
  if (session.congested) return "send path congested";
  if (session.window_limit && session.window_len >= session.window_limit) return "window full";
  if (session.mailbox_len > BUSY) return "mailbox busy";
  if (session.mqueue_len) return "backlog";
  return session.waits_for === "rate" ? "rate used up" : "";
}

const STAGES = [
  ["mailbox", "mailbox", (s) => [whole(s.mailbox_len), "offered, not decided"], null],
  ["gate", "gate", (s) => [gateClosed(s) ? "closed" : "open", gateClosed(s) || "QoS 0 passes"], null],
  ["mqueue", "mqueue", (s) => [whole(s.mqueue_len), s.max_mqueue_len ? `of ${whole(s.max_mqueue_len)}` : "no limit"], (s) => s.mqueue_len / (s.max_mqueue_len || Math.max(s.mqueue_len, 1))],
  ["window", "window", (s) => [whole(s.window_len), `of ${whole(s.window_limit)} slots`], (s) => s.window_len / Math.max(s.window_limit, 1)],
  ["path", "send path", (s) => [s.connected ? (s.congested ? "congested" : "free") : "none", s.congested ? "read too slowly" : ""], null],
  ["client", "client", (s) => [s.connected ? "connected" : "away", s.connected ? `MQTT ${s.protocol_version === 5 ? "5" : "3.1.1"}` : ""], null],
];

export class Flow {
  constructor(place) {
    this.place = place;
    this.last = null;
    this.observer = new ResizeObserver(() => this.lay());
    this.observer.observe(place);
    this.lay();
  }

  close() {
    this.observer.disconnect();
  }

  lay() {
    const down = this.place.clientWidth < NARROW;
    if (this.down === down && this.stages) return;
    this.down = down;
    const [width, height, gap] = down ? [300, 58, 22] : [148, 92, 28];
    const step = down ? height + gap : width + gap;
    const whole = step * STAGES.length - gap;
    this.stages = STAGES.map(([name, title, texts, share], place) => {
      const x = down ? 0 : place * step;
      const y = down ? place * step : 0;
      const rate = svg("text", { class: "rate", x: down ? width / 2 + 10 : x - gap / 2, y: down ? y - 7 : height + 18, "text-anchor": down ? "start" : "middle" });
      const value = svg("text", { class: "value", x: x + 12, y: y + (down ? 42 : 50) });
      const note = svg("text", { class: "aside", x: down ? x + width - 12 : x + 12, y: y + (down ? 41 : 72), "text-anchor": down ? "end" : "start" });
      const fill = svg("rect", { class: "fill", x: x + 12, y: y + height - 9, height: 4, width: 0, rx: 2 });
      const arrow = place && (down ? `M${width / 2} ${y - gap + 4}V${y - 6}m-4 -5l4 5l4 -5` : `M${x - gap + 5} ${height / 2}H${x - 6}m-5 -4l5 4l-5 4`);
      const group = svg("g", { class: `stage ${name}` },
        svg("rect", { class: "box", x: x + 0.5, y: y + 0.5, width: width - 1, height: height - 1, rx: 9 }),
        share && fill, svg("text", { class: "title", x: x + 12, y: y + 22 }), value, note,
        arrow && svg("path", { class: "arrow", d: arrow }), rate);
      group.querySelector(".title").append(title);
      return { name, group, texts, share, value, note, fill, rate, width: width - 24 };
    });
    this.picture = svg("svg", { class: "flow", viewBox: down ? `-1 -1 ${width + 2} ${whole + 2}` : `-1 -1 ${whole + 2} ${height + 27}`, role: "img", "aria-labelledby": "why" }, this.stages.map((stage) => stage.group));
    this.place.replaceChildren(this.picture);
    if (this.last) this.take(...this.last);
  }

  // `rates`: deliveries offered, sent and acknowledged a second, or null.
  take(session, rates) {
    this.last = [session, rates];
    const holds = session.waits_for === "nothing" ? "" : HOLDS[session.waits_for];
    for (const { name, group, texts, share, value, note, fill, rate, width } of this.stages) {
      const [first, second] = texts(session);
      say(value, first);
      say(note, second);
      if (share) fill.setAttribute("width", Math.max(0, Math.min(1, share(session))) * width);
      const shut = (name === "gate" && gateClosed(session)) || (name === "path" && session.congested) || (name === "client" && !session.connected);
      group.setAttribute("class", `stage ${name}${name === holds ? " holds" : ""}${shut ? " shut" : ""}`);
      const passing = rates && { gate: rates.offered, path: rates.sent }[name];
      say(rate, passing === undefined || passing === null || passing === false ? "" : `${short(passing)}/s`);
    }
  }
}
