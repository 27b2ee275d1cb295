// Numbers and times as text.

const WHOLE = new Intl.NumberFormat("en");
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const SMALL = new Intl.NumberFormat("en", { maximumSignificantDigits: 2 });

export const whole = (number) => WHOLE.format(number);

export function short(number) {
  if (number === null || number === undefined) return "–";
  if (number === 0) return "0";
  return Math.abs(number) < 10 ? SMALL.format(number) : Math.abs(number) < 10000 ? WHOLE.format(Math.round(number)) : SHORT.format(number);
}

export function bytes(number) {
  if (number === null || number === undefined) return "–";
  let unit = 0;
  while (number >= 1024 && unit < 4) { number /= 1024; unit += 1; }
  return `${number < 10 && unit ? number.toFixed(1) : whole(Math.round(number))} ${["B", "KiB", "MiB", "GiB", "TiB"][unit]}`;
}

export function duration(us) {
  const seconds = us / 1e6;
  if (seconds < 0.9995) return `${whole(Math.round(seconds * 1000))} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} days`;
}

const MOST = 60; // characters of a name in a sentence

export const cut = (name) => (name.length <= MOST ? name : `${name.slice(0, MOST - 1)}…`);

const REASONS = {
  queue_full: "mqueue full", group_queue_full: "queue of a group full", expired: "message expired", too_large: "larger than Maximum Packet Size",
  offline_qos0: "offline, QoS 0 not stored", aged: "waited too long (session.max_mqueue_age)", not_permitted: "no longer permitted by rules", session_ended: "session ended",
};

// The name of a counter of drops, such as queue_full_qos1, in the words of the report.
export function dropped(name) {
  const [, reason, qos] = name.match(/^(.*?)(?:_qos(\d))?$/);
  const known = REASONS[name] || REASONS[reason] || reason.replaceAll("_", " ");
  return qos === undefined || name in REASONS ? known : `${known}, QoS ${qos}`;
}

export const counted = (number, one, many = `${one}s`) => `${whole(number)} ${number === 1 ? one : many}`;
