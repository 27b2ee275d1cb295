// The page: who looks, at what, and whether the broker still answers.

import { ask, Refused, stream, token } from "./api.js";
import { Docs } from "./docs.js";
import { el, say, show } from "./dom.js";
import { Overview } from "./overview.js";
import { Retained } from "./retained.js";
import { SessionView } from "./session.js";
import { Sessions } from "./sessions.js";
import { duration } from "./words.js";

const AGAIN = 2000; // milliseconds until the next attempt when the stream has ended
const SESSION = "#/session/";
const SESSIONS = "#/sessions";
const RETAINED = "#/retained";
const DOCS = "#/docs";
const main = document.getElementById("main");
const state = document.getElementById("state");
const user = { name: "", role: "viewer" };
let view = null;
let following = null;

function tell(kind, text) {
  state.className = kind;
  say(state, text);
}

function head(moment) {
  say(document.getElementById("broker"), moment.broker);
  const reasons = moment.not_ready_because;
  tell(reasons.length ? "bad" : "good", reasons.length ? `not ready: ${reasons.join(", ")}` : `up for ${duration(moment.uptime_seconds * 1e6)}`);
}

async function follow(signal) {
  const shown = view;
  while (!signal.aborted) {
    let any = false;
    try {
      await stream(shown.path, (data) => {
        if (signal.aborted) return;
        any = true;
        head(data);
        shown.take(data);
      }, signal);
      if (any) continue; // it ends from time to time, so that the token is looked at again
      tell("bad", "the broker has ended the stream; trying again");
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refused && error.status === 401) return login("");
      if (error instanceof Refused && error.status === 404 && shown.gone) return shown.gone(error.message);
      tell("bad", error instanceof Refused ? error.message : "the broker does not answer; trying again");
    }
    await new Promise((done) => setTimeout(done, AGAIN));
  }
}

function stop() {
  if (following) following.abort();
  following = null;
}

function start() {
  stop();
  following = new AbortController();
  follow(following.signal);
}

function decoded(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

// Shows what the address names, from its beginning.
function open() {
  stop();
  if (view) view.close();
  const wanted = location.hash;
  const rest = (start) => (wanted.startsWith(start) ? wanted.slice(start.length) : null);
  const [id, query] = rest(SESSION) === null ? [null] : rest(SESSION).split("?").map(decoded);
  if (id !== null) view = new SessionView(main, id, user, new URLSearchParams(query).get("cell"));
  else if (rest(SESSIONS) !== null) view = new Sessions(main, new URLSearchParams(rest(SESSIONS).slice(1)));
  else if (rest(RETAINED) !== null) view = new Retained(main, new URLSearchParams(rest(RETAINED).slice(1)), user);
  else if (wanted === DOCS) view = new Docs(main);
  else view = new Overview(main);
  document.title = id === null ? "Sluice" : `${id.slice(0, 60)} · Sluice`;
  scrollTo(0, 0);
  if (!document.hidden) start();
}

async function enter() {
  try {
    Object.assign(user, await ask("/who"));
  } catch (error) {
    if (error instanceof Refused) return login(token.get() ? error.message : "");
    tell("bad", "the broker does not answer; trying again");
    return setTimeout(enter, AGAIN);
  }
  document.getElementById("find").hidden = false;
  say(document.getElementById("user"), user.role);
  document.getElementById("user").title = user.name;
  open();
}

function login(problem) {
  stop();
  if (view) view.close();
  view = null;
  token.forget();
  tell("", "");
  document.getElementById("find").hidden = true;
  const field = el("input", { type: "password", id: "token", autocomplete: "off", required: true });
  const submit = (event) => {
    event.preventDefault();
    token.set(field.value.trim());
    enter();
  };
  show(
    main,
    el("h1", {}, "Who looks?"),
    el("p", {}, "On the broker’s machine, ", el("code", {}, "sluice dashboard"), " prints a link that lets one browser in. Or enter a token of ", el("code", {}, "admin.tokens"), "."),
    problem && el("p", { class: "bad", role: "alert" }, problem),
    el("form", { class: "login", onsubmit: submit }, el("label", { for: "token" }, "Token"), field, el("button", {}, "Look")),
  );
  field.focus();
}

// The code of a link counts once; the address is to forget it at once.
async function begin() {
  const code = location.hash.match(/^#code=([\w-]+)$/);
  if (!code) return enter();
  history.replaceState(null, "", location.pathname);
  try {
    token.set((await ask("/login", { method: "POST", body: { code: code[1] } })).token);
  } catch (error) {
    return login(error.message);
  }
  return enter();
}

addEventListener("hashchange", () => {
  if (/^#code=/.test(location.hash)) begin();
  else if (view) open();
});

// Nobody sees a hidden page: the broker need not make moments for it.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) stop();
  else if (view) start();
});

document.getElementById("find").addEventListener("submit", (event) => {
  event.preventDefault();
  const id = new FormData(event.target).get("id");
  event.target.reset(); // the next search begins with an empty field
  document.querySelector("#find input").blur();
  if (id) location.hash = SESSION + encodeURIComponent(id);
});

addEventListener("keydown", (event) => {
  const writing = event.target.closest("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey;
  if (event.key === "/" && !writing && view) {
    event.preventDefault();
    document.querySelector("#find input").focus();
  } else if (event.key === "Escape" && view && !event.target.closest("dialog")) {
    if (event.target.closest("#find")) event.target.blur();
    else if (/^#\/[dsr]/.test(location.hash)) location.hash = "#/";
  }
});

begin();
