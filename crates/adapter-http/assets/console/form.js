// The form that creates an order.

import { Attempts, Failure, problem, request, session, stringify, upload } from "./api.js";
import { idOf, row, valueOf } from "./controls.js";
import { announce, fill, h, said } from "./dom.js";
import { FIELDS, GROUPS, KEPT, setMember } from "./fields.js";
import { FileChooser, progressBar } from "./files.js";

const DOCUMENTS = idOf("/documents");

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
  return { title: "New order", element: begun.element };
}

class OrderForm {
  /** Stops the upload. */
  stop = () => {};
  #attempts = new Attempts();
  #busy = false;
  #rows = new Map(FIELDS.map((field) => [field.pointer, row(field)]));
  #files = new FileChooser(DOCUMENTS);
  #summary = h("div", { tabindex: "-1" });
  #progress = h("div");
  #submit = h("button", { class: "primary" });
  #groups = h("div", { class: "groups" }, GROUPS.map((group) => this.#group(group)));

  constructor(kept = {}) {
    this.element = h(
      "form",
      { class: "order", novalidate: true, autocomplete: "off", submit: (event) => this.#send(event) },
      h("p", { class: "hint" }, "Fields with a * are required."),
      this.#summary,
      this.#groups,
      h("div", { class: "buttons" }, this.#submit),
      this.#progress,
    );
    this.element.addEventListener("input", ({ target }) => this.#forgetError(target));
    this.element.addEventListener("change", () => this.#showConditional());
    for (const [pointer, value] of Object.entries(kept)) this.#control(pointer).value = value;
    this.#files.takeDropsOn(this.element);
    this.#showConditional();
    this.#setBusy(false);
  }

  /** Sets the signing service to that of a key that is limited to one. */
  bind() {
    const service = this.#control("/signingServiceId");
    const bound = session.terms.signing_service_id;
    service.readOnly = bound !== null;
    if (service.readOnly) service.value = bound;
  }

  #group({ title, fields, hasDocuments }) {
    const rows = fields.map(({ pointer }) => this.#rows.get(pointer).element);
    const grid = h("div", { class: "grid" }, rows);
    const documents = hasDocuments && this.#files.element;
    return h("fieldset", { class: "card" }, h("legend", {}, title), documents, grid);
  }

  #control(pointer) {
    return this.#rows.get(pointer).control;
  }

  #isShown({ if: condition }) {
    if (!condition) return true;
    const [pointer, value] = condition;
    const field = FIELDS.find((it) => it.pointer === pointer);
    return valueOf(field, this.#control(pointer)) === value;
  }

  #showConditional() {
    for (const field of FIELDS) this.#rows.get(field.pointer).element.hidden = !this.#isShown(field);
  }

  /** Returns the order as the operation without documents takes it. */
  #order() {
    const order = { signingContactsFormData: {}, signingDetailsFormData: {}, requestedBy: {} };
    for (const field of FIELDS.filter((it) => this.#isShown(it))) {
      const value = valueOf(field, this.#control(field.pointer));
      if (value !== undefined) setMember(order, field.pointer, value);
    }
    return order;
  }

  async #send(event) {
    event.preventDefault();
    if (this.#busy) return;
    this.#setBusy(true);
    this.#forgetErrors();
    const order = this.#order();
    const headers = this.#attempts.header(stringify([order, this.#files.content]));
    try {
      const sent = this.#files.files.length
        ? this.#sendForm(order, headers)
        : request("api/order/create", { method: "POST", json: order, headers });
      const { body, headers: received } = await sent;
      // Another user may have the page now.
      if (begun !== this) return;
      const kept = KEPT.map((pointer) => [pointer, this.#control(pointer).value]);
      begun = new OrderForm(Object.fromEntries(kept));
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
    this.#groups.inert = busy;
    // A disabled button would lose the focus.
    this.#submit.setAttribute("aria-disabled", busy);
    this.#submit.textContent = busy ? "Creating the order…" : "Create the order";
    if (!busy) fill(this.#progress);
  }

  /** Shows a failure: each error at its field, and a summary whose links lead there. */
  #showFailure(failure) {
    if (!(failure instanceof Failure)) throw failure;
    const { errors, code, detail } = failure;
    const items = errors.toSorted(byPlace).map((error) => this.#showError(error));
    if (OF_DOCUMENTS.includes(code) && this.#files.files.length) {
      items.push(this.#showError({ pointer: "/documents", detail }));
    } else if (code === "payload_too_large") {
      const pointer = "/signingDetailsFormData/specialInstructions";
      items.push(this.#showError({ pointer, detail: "may be too long: shorten them" }));
    }
    if (code === "duplicate_order") {
      const pointer = "/signingDetailsFormData/fileNumber";
      items.push(this.#showError({ pointer, detail: "was used just now" }));
    }
    const number = errors.length === 1 ? "1 entry" : `${errors.length} entries`;
    const content = errors.length
      ? h("div", { class: "problem" }, h("h2", {}, `Correct ${number}`))
      : problem(failure);
    content.append(h("ul", {}, items.map(summaryItem)));
    fill(this.#summary, content);
    this.#summary.focus();
  }

  /** Shows an error at its field. Returns the identifier of the control, the label and the detail. */
  #showError({ parameter = "", pointer = parameter, detail }) {
    const [, part, at] = pointer.split("/");
    if (part === "documents") return this.#showFileError(Number(at ?? NaN), detail);
    const field = FIELDS[placeOf(pointer)];
    if (!field) return [null, pointer, detail];
    const { element } = this.#rows.get(field.pointer);
    element.hidden = false;
    element.querySelector(".error").textContent = `${field.label} ${detail}`;
    for (const control of element.querySelectorAll("input, select, textarea")) {
      control.setAttribute("aria-invalid", "true");
    }
    return [idOf(field.pointer), field.label, detail];
  }

  #showFileError(at, detail) {
    const id = this.#files.setFileProblem(at, detail);
    if (id) return [id, said(this.#files.files[at].name), detail];
    this.#files.setProblem(detail);
    return [DOCUMENTS, "Documents", detail];
  }

  #forgetErrors() {
    fill(this.#summary);
    for (const error of this.element.querySelectorAll(".error")) error.textContent = "";
    for (const control of this.element.querySelectorAll("[aria-invalid]")) {
      control.removeAttribute("aria-invalid");
    }
  }

  /** Forgets the error of a field that the user changes. */
  #forgetError(changed) {
    const row = changed.closest("[data-pointer]");
    for (const control of row?.querySelectorAll("[aria-invalid]") ?? []) {
      control.removeAttribute("aria-invalid");
      row.querySelector(".error").textContent = "";
    }
  }
}

/**
 * Returns the index of the field of an error. An error of a whole object is shown at its first
 * field. What has no field comes last.
 */
function placeOf(pointer) {
  const isIn = (it) => pointer && `${it.pointer}/`.startsWith(`${pointer}/`);
  const index = FIELDS.findIndex(isIn);
  return index < 0 ? FIELDS.length : index;
}

/** Compares errors by the places of their fields in the form. */
const byPlace = (one, other) => placeOf(one.pointer) - placeOf(other.pointer);

/** Returns an item of the summary, which leads to its field. */
function summaryItem([id, label, detail]) {
  const text = [label, " ", said(detail)];
  // The address has the view, so the link only moves the focus.
  const click = (event) => {
    event.preventDefault();
    document.getElementById(id).focus();
  };
  return h("li", {}, id ? h("a", { href: `#${id}`, click }, text) : text);
}
