// What an operator may do to a session. The broker decides who may, and writes it to its audit log.

import { ask } from "./api.js";
import { el, say } from "./dom.js";

const ACTIONS = [
  ["Disconnect", "/clients/", "Its connection is closed. The session lasts as long as it would without this, and the client may come back."],
  ["End session", "/sessions/", "Its subscriptions and all that waits in it are discarded; a connected client is disconnected."],
];

export function actions(id, where) {
  const result = el("p", { class: "note", role: "status" });
  const buttons = ACTIONS.map(([title, path, effect]) => el("button", {
    onclick: async () => {
      if (!(await confirmed(title, id, effect))) return;
      try {
        say(result, (await ask(`${path}?${new URLSearchParams({ id, ...where })}`, { method: "DELETE" })).result);
      } catch (error) {
        say(result, error.message);
      }
    },
  }, `${title} …`));
  return el("section", { id: "actions" }, el("h2", {}, "Actions"), el("p", { class: "buttons" }, buttons), result);
}

// Asks first; returns whether the answer is yes.
export function confirmed(title, id, effect) {
  return new Promise((done) => {
    const box = el("dialog", { "aria-labelledby": "asked" },
      el("form", { method: "dialog" },
        el("h2", { id: "asked" }, `${title}?`), el("p", { class: "id" }, id), el("p", {}, effect),
        el("p", { class: "buttons" }, el("button", { value: "" , autofocus: true }, "Cancel"), el("button", { value: "yes", class: "danger" }, title))));
    box.addEventListener("close", () => { box.remove(); done(box.returnValue === "yes"); });
    document.body.append(box);
    box.showModal();
  });
}
