// The page of the API. The broker makes it; here it only gets a place, since it is for those who have a token.

import { text } from "./api.js";
import { el, show } from "./dom.js";

export class Docs {
  path = "/stream";

  constructor(place) {
    this.content = el("div", { class: "api" });
    show(place, el("p", { class: "back" }, el("a", { href: "#/" }, "Overview")), this.content);
    this.fill();
  }

  async fill() {
    try {
      const made = new DOMParser().parseFromString(await text("/docs"), "text/html");
      show(this.content, ...made.querySelector("main").children);
    } catch (error) {
      show(this.content, el("p", { class: "bad", role: "alert" }, error.message));
    }
  }

  take() {}

  close() {}
}
