// The form that creates an order.

import { Attempts, Failure, nextPage, request, session, stringify, upload } from "./api.js";
import { announce, fill, h } from "./dom.js";
import { DOCUMENTS_ID, Entries } from "./entries.js";
import { FIELDS, KEPT, setMember } from "./fields.js";
import { FileChooser, progressBar } from "./files.js";

/** Problems of documents that name no field. */
const OF_DOCUMENTS = ["document_too_large", "payload_too_large", "too_many_documents", "no_documents"];

/** The form that the user has begun. It stays while the user looks at other views. */
let begun = null;

/** Forgets the form that the user has begun, and stops its upload. */
export function forgetForm() {
  begun?.stop();
  begun = null;
}

/** Returns the view. `created` gets the record of the new order, and whether it is a repeat. */
export function newOrder(created) {
  begun ??= new OrderForm();
  begun.created = created;
  begun.bind();
  return { title: "New order", element: begun.element, isForm: true };
}

class OrderForm {
  /** Stops the upload. */
  stop = () => {};
  #attempts = new Attempts();
  #busy = false;
  #files = new FileChooser(DOCUMENTS_ID);
  #entries = new Entries(this.#files);
  #progress = h("div");
  #submit = h("button", { class: "primary" });

  constructor(kept = []) {
    this.element = h(
      "form",
      { class: "order", novalidate: true, autocomplete: "off", submit: (event) => this.#send(event) },
      h("p", { class: "hint" }, "Fields with a * are required."),
      this.#entries.summary,
      this.#entries.element,
      h("div", { class: "buttons" }, this.#submit),
      this.#progress,
    );
    for (const [field, value] of kept) this.#entries.set(field, value);
    this.#files.takeDropsOn(this.element);
    this.#setBusy(false);
  }

  /** Offers the signing services that the key may name, and sets the only one of a key that is limited to one. */
  bind() {
    const service = this.#entries.control({ pointer: "/signingServiceId" });
    const bound = session.terms.signing_service_id;
    service.readOnly = bound !== null;
    if (service.readOnly) service.value = bound;
    else this.#offerServices(service.id);
  }

  async #offerServices(id) {
    const options = [];
    try {
      for (let address = "api/services?limit=100"; address; ) {
        const { body, headers } = await request(address);
        const option = (it) => h("option", { value: it.signing_service_id, label: it.name });
        options.push(...body.data.map(option));
        address = nextPage(headers);
      }
    } catch (failure) {
      // The user can still enter the number.
      if (!(failure instanceof Failure)) throw failure;
    }
    fill(this.element.querySelector(`#${id}-choices`), options);
  }

  /** Returns the order as the operation without documents takes it. */
  #order() {
    const order = { signingContactsFormData: {}, signingDetailsFormData: {}, requestedBy: {} };
    for (const field of FIELDS.filter((it) => this.#entries.isShown(it))) {
      const value = this.#entries.value(field);
      if (value !== undefined) setMember(order, field.pointer, value);
    }
    return order;
  }

  async #send(event) {
    event.preventDefault();
    if (this.#busy) return;
    this.#setBusy(true);
    this.#entries.forgetErrors();
    const order = this.#order();
    const headers = this.#attempts.header(stringify([order, this.#files.content]));
    try {
      const sent = this.#files.files.length
        ? this.#sendForm(order, headers)
        : request("api/order/create", { method: "POST", json: order, headers });
      const { body, headers: received } = await sent;
      // Another user may have the page now.
      if (begun !== this) return;
      begun = new OrderForm(KEPT.map((field) => [field, this.#entries.value(field)]));
      this.created(body, received.has("idempotency-replayed"));
    } catch (failure) {
      this.#attempts.learn(failure);
      this.#setBusy(false);
      this.#showFailure(failure);
    }
  }

  async #sendForm(order, headers) {
    await this.#files.check();
    const form = new FormData();
    for (const [name, value] of Object.entries(order)) {
      form.set(name, typeof value === "string" ? value : stringify(value));
    }
    for (const file of this.#files.files) form.append("documents", file, file.name);
    const path = "api/order/create-with-documents";
    const { answer, stop } = upload(path, form, headers, (part) => bar.set(part));
    const bar = progressBar(stop);
    this.stop = stop;
    fill(this.#progress, bar.element);
    announce("The documents are being sent.");
    return answer;
  }

  #setBusy(busy) {
    this.#busy = busy;
    this.#entries.element.inert = busy;
    // A disabled button would lose the focus.
    this.#submit.setAttribute("aria-disabled", busy);
    this.#submit.textContent = busy ? "Creating the order…" : "Create the order";
    if (!busy) fill(this.#progress);
  }

  /** Shows a failure, with what follows from its code. */
  #showFailure(failure) {
    const { code, detail } = failure;
    const more = [];
    if (OF_DOCUMENTS.includes(code) && this.#files.files.length) {
      more.push({ pointer: "/documents", detail });
    } else if (code === "payload_too_large") {
      const pointer = "/signingDetailsFormData/specialInstructions";
      more.push({ pointer, detail: "may be too long: shorten them" });
    }
    if (code === "duplicate_order") {
      more.push({ pointer: "/signingDetailsFormData/fileNumber", detail: "was used just now" });
    }
    this.#entries.showFailure(failure, more);
  }
}
