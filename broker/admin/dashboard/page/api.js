// Requests and streams. The token is in this tab only, and goes in a header: no cookie, nothing in an address.

const KEY = "sluice-token";

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const token = {
  get: () => sessionStorage.getItem(KEY),
  set: (value) => sessionStorage.setItem(KEY, value),
  forget: () => sessionStorage.removeItem(KEY),
};

function headers() {
  const held = token.get();
  return held ? { Authorization: `Bearer ${held}` } : {};
}

async function refusal(answer) {
  let detail = `status ${answer.status}`;
  try { detail = (await answer.json()).detail || detail; } catch { /* not ours */ }
  return new Refused(answer.status, String(detail));
}

export async function ask(path, { method = "GET", body } = {}) {
  const sent = body === undefined ? undefined : JSON.stringify(body);
  const type = sent === undefined ? {} : { "Content-Type": "application/json" };
  const answer = await fetch(`api/v1${path}`, { method, body: sent, headers: { ...headers(), ...type } });
  if (!answer.ok) throw await refusal(answer);
  return answer.json();
}

export async function text(path) {
  const answer = await fetch(`api/v1${path}`, { headers: headers() });
  if (!answer.ok) throw await refusal(answer);
  return answer.text();
}

// Calls `take` with the data of each event until `signal` is aborted. EventSource cannot send a header.
export async function stream(path, take, signal) {
  const answer = await fetch(`api/v1${path}`, { headers: headers(), signal });
  if (!answer.ok) throw await refusal(answer);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      if (event.startsWith("data: ")) take(JSON.parse(event.slice(6)));
    }
  }
}
