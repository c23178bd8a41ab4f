// The fields of an order as its client enters them, with the problems at their fields.

import { Failure, problem } from "./api.js";
import { forgetErrors, idOf, row, setValue, showError, textIn, valueOf } from "./controls.js";
import { fill, h, said } from "./dom.js";
import { FIELDS, GROUPS } from "./fields.js";

const DOCUMENTS = "/documents";
export const DOCUMENTS_ID = idOf(DOCUMENTS);

export class Entries {
  #rows = new Map(FIELDS.map((field) => [field.pointer, row(field)]));
  #files;
  /** The summary of the problems: its links lead to the fields. */
  summary = h("div", { tabindex: "-1" });

  /** `files` chooses the documents, if there are any. */
  constructor(files = null) {
    this.#files = files;
    this.element = h("div", { class: "groups" }, GROUPS.map((group) => this.#group(group)));
    this.element.addEventListener("input", ({ target }) => {
      const row = target.closest("[data-pointer]");
      if (row) showError(row, "");
    });
    this.element.addEventListener("change", () => this.showConditional());
    this.showConditional();
  }

  #group({ title, fields, hasDocuments }) {
    const rows = fields.map(({ pointer }) => this.#rows.get(pointer).element);
    const documents = hasDocuments && this.#files?.element;
    return h("fieldset", { class: "card" }, h("legend", {}, title), documents, h("div", { class: "grid" }, rows));
  }

  control({ pointer }) {
    return this.#rows.get(pointer).control;
  }

  /** Returns the value of a field as the request has it. */
  value(field) {
    return valueOf(field, this.control(field));
  }

  /** Returns what the user sees in a field. */
  text(field) {
    return textIn(field, this.control(field));
  }

  set(field, value) {
    setValue(field, this.control(field), value);
  }

  /** Returns whether the other entries have a use for a field. */
  isShown({ if: condition }) {
    if (!condition) return true;
    const [pointer, value] = condition;
    return this.value(FIELDS.find((it) => it.pointer === pointer)) === value;
  }

  showConditional() {
    for (const field of FIELDS) this.#rows.get(field.pointer).element.hidden = !this.isShown(field);
  }

  /** Shows a failure: each error at its field, and a summary. `more` are errors that the answer does not name. */
  showFailure(failure, more = []) {
    if (!(failure instanceof Failure)) throw failure;
    const { errors } = failure;
    const items = [...errors.toSorted(byPlace), ...more].map((error) => this.#showError(error));
    const number = errors.length === 1 ? "1 entry" : `${errors.length} entries`;
    const content = errors.length
      ? h("div", { class: "problem" }, h("h2", {}, `Correct ${number}`))
      : problem(failure);
    content.append(h("ul", {}, items.map(summaryItem)));
    fill(this.summary, content);
    this.summary.focus();
  }

  /** Shows an error at its field. Returns the identifier of the control, the label and the detail. */
  #showError({ parameter = "", pointer = parameter, detail }) {
    const [, part, at] = pointer.split("/");
    if (part === "documents" && this.#files) return this.#showFileError(Number(at ?? NaN), detail);
    const field = FIELDS[placeOf(pointer)];
    if (!field) return [null, pointer, detail];
    const { element } = this.#rows.get(field.pointer);
    element.hidden = false;
    showError(element, `${field.label} ${detail}`);
    return [idOf(field.pointer), field.label, detail];
  }

  #showFileError(at, detail) {
    const id = this.#files.setFileProblem(at, detail);
    if (id) return [id, said(this.#files.files[at].name), detail];
    this.#files.setProblem(detail);
    return [DOCUMENTS_ID, "Documents", detail];
  }

  forgetErrors() {
    fill(this.summary);
    forgetErrors(this.element);
    this.#files?.forgetProblems();
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
