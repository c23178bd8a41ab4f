// The form that adds a note to an order.

import { Attempts, request } from "../shared/api.js";
import { forgetErrors } from "../shared/controls.js";
import { h, labelled } from "../shared/dom.js";
import { entriesAt, keepEntry } from "../shared/draft.js";

const MAX_LENGTH = 5_000;

export class Notes {
  #id;
  #path;
  #attempts = new Attempts();
  #isBusy = false;
  #text = h("textarea", { name: "text", rows: 2, maxlength: MAX_LENGTH, dir: "auto" });
  #send = h("button", { id: "note-send" }, "Add the note");
  #form;

  /** `run` does something, and shows the order as it is then. */
  constructor(id, path, run) {
    [this.#id, this.#path] = [id, `${path}/notes`];
    this.#text.value = entriesAt(id).note ?? "";
    // The note that the user has begun stays until it is added.
    this.#text.addEventListener("input", () => keepEntry(id, "note", this.#text.value || null));
    const submit = async (event) => {
      event.preventDefault();
      if (this.#isBusy) return;
      this.#setBusy(true);
      forgetErrors(this.#form);
      await run(() => this.#add(), "The note is added.", this.#form);
      this.#setBusy(false);
    };
    const hint = "Both sides and the administrator read it. It cannot be changed.";
    this.#form = h(
      "form",
      { class: "note-form", novalidate: true, autocomplete: "off", submit },
      labelled("note-text", "New note", this.#text, hint, "/text"),
      h("div", { class: "buttons" }, this.#send),
    );
  }

  get form() {
    return this.#form;
  }

  async #add() {
    const text = this.#text.value;
    try {
      const headers = this.#attempts.header(text);
      await request(this.#path, { method: "POST", json: { text }, headers });
    } catch (failure) {
      this.#attempts.learn(failure);
      throw failure;
    }
    // The same text again is another note.
    this.#attempts = new Attempts();
    this.#text.value = "";
    keepEntry(this.#id, "note", null);
  }

  #setBusy(isBusy) {
    this.#isBusy = isBusy;
    this.#text.readOnly = isBusy;
    this.#send.setAttribute("aria-disabled", isBusy);
  }
}
