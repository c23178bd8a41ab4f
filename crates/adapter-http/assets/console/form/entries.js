// The fields of an order as its client enters them, with the problems at their fields.

import { Failure, problem } from "../shared/api.js";
import { instantsOf } from "./calendar.js";
import {
  forgetErrors, idOf, offerInstants, row, setValue, showError, showNote, showNow, textIn, valueOf,
} from "../shared/controls.js";
import { fill, h, said } from "../shared/dom.js";
import { FIELDS, GROUPS, ORDERED_BY, SIGNING_DATE, TIME_ZONE, fieldOf } from "../shared/fields.js";
import { inTrade } from "../shared/trade.js";

const DOCUMENTS = "/documents";
export const DOCUMENTS_ID = idOf(DOCUMENTS);

export class Entries {
  #rows = new Map(FIELDS.map((field) => [field.pointer, row(field)]));
  #files;
  /** The summary of the problems: its links lead to the fields. */
  summary = h("div", { tabindex: "-1" });
  #heading = h("h2");

  /** `files` chooses the documents, if there are any. */
  constructor(files = null) {
    this.#files = files;
    const documents = files && h("fieldset", { class: "card" }, h("legend", {}, "Documents"), files.element);
    const [open, closed] = [true, false].map((isOpen) => GROUPS.filter((it) => Boolean(it.isOpen) === isOpen));
    const groups = [open.map((it) => this.#openGroup(it)), documents, closed.map((it) => this.#closedGroup(it))];
    this.element = h("div", { class: "groups" }, groups);
    this.element.addEventListener("input", ({ target }) => {
      const row = target.closest("[data-pointer]");
      if (row) this.#mend(row);
    });
    this.element.addEventListener("change", ({ target }) => {
      this.showConditional();
      const field = fieldOf(target.closest("[data-pointer]")?.dataset.pointer);
      if (field && this.#isFilled(field)) this.#open(field);
    });
    this.showConditional();
  }

  #fields(fields) {
    return h("div", { class: "grid" }, fields.map(({ pointer }) => this.#rows.get(pointer).element));
  }

  #openGroup({ title, fields }) {
    return h("fieldset", { class: "card" }, h("legend", {}, title), this.#fields(fields));
  }

  #closedGroup({ title, holds, fields }) {
    const summary = h("summary", {}, title, " ", h("span", { class: "hint" }, holds));
    return h("details", { class: "card" }, summary, h("div", { role: "group", "aria-label": title }, this.#fields(fields)));
  }

  /** Opens the group of a field. */
  #open({ pointer }) {
    this.#rows.get(pointer).element.closest("details")?.setAttribute("open", "");
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
    this.#mend(this.#rows.get(field.pointer).element);
    // Who orders is filled for every user.
    if (this.#isFilled(field) && field.pointer !== ORDERED_BY) this.#open(field);
  }

  /** Forgets the error of a row, there and in the summary. */
  #mend(row) {
    showError(row, "");
    const id = idOf(row.dataset.pointer);
    const item = this.summary.querySelector(`a[href="#${id}"]`)?.closest("li");
    if (!item) return;
    item.remove();
    const left = this.summary.querySelectorAll("li").length;
    if (left) this.#heading.textContent = toCorrect(left);
    else fill(this.summary);
  }

  #isFilled(field) {
    return ![undefined, false].includes(this.value(field));
  }

  /** Returns what the user sees in the fields, by their pointers. */
  get texts() {
    return Object.fromEntries(FIELDS.map((field) => [field.pointer, this.text(field)]));
  }

  set texts(texts) {
    for (const [pointer, text] of Object.entries(texts)) {
      const field = fieldOf(pointer);
      if (field?.kind === "checkbox") this.set(field, text === "true");
      else if (field && field.kind !== "instant") this.set(field, text);
    }
    this.showConditional();
    const instants = FIELDS.filter(({ kind, pointer }) => kind === "instant" && texts[pointer]);
    for (const field of instants) this.set(field, texts[field.pointer]);
  }

  /** Shows a note at a field; none if the text is empty. */
  note({ pointer }, text) {
    showNote(this.#rows.get(pointer).element, text);
  }

  /** Shows at a field what another user has entered there meanwhile; nothing if the text is empty. */
  showNow({ pointer }, text) {
    showNow(this.#rows.get(pointer).element, text);
  }

  /** Returns errors for the fields that are required and empty. */
  get missing() {
    const isMissing = (it) => it.required && this.isShown(it) && this.value(it) === undefined;
    return FIELDS.filter(isMissing).map(({ pointer }) => ({ pointer, detail: "is required" }));
  }

  /** Returns whether the other entries have a use for a field. */
  isShown({ if: condition, twice }) {
    if (!condition) return true;
    const [pointer, value] = condition;
    if (this.value(fieldOf(pointer)) !== value) return false;
    return !twice || this.#instants(twice).length === 2;
  }

  /** Returns the instants of the local time that a field has. */
  #instants(time) {
    return instantsOf(...[SIGNING_DATE, time, TIME_ZONE].map((pointer) => this.value(fieldOf(pointer))));
  }

  showConditional() {
    for (const field of FIELDS) {
      const isShown = this.isShown(field);
      this.#rows.get(field.pointer).element.hidden = !isShown;
      if (isShown && field.twice) {
        offerInstants(this.control(field), this.#instants(field.twice), this.value(fieldOf(TIME_ZONE)));
      }
    }
  }

  /** Shows a failure: each error at its field, and a summary. `more` are errors that the answer does not name. */
  showFailure(failure, more = []) {
    if (!(failure instanceof Failure)) throw failure;
    const { errors } = failure;
    const items = [...errors.toSorted(byPlace), ...more].map((error) => this.#showError(error));
    this.#heading.textContent = toCorrect(errors.length);
    const content = errors.length ? h("div", { class: "problem" }, this.#heading) : problem(failure);
    content.append(h("ul", {}, items.map(summaryItem)));
    fill(this.summary, content);
    this.summary.focus();
  }

  /** Shows an error at its field. Returns the identifier of the control, the label and the detail. */
  #showError({ parameter = "", pointer = parameter, detail: ofService }) {
    const field = FIELDS[placeOf(pointer)];
    const isPart = field && this.control(field).validity.badInput;
    const detail = isPart ? `is no complete ${field.kind}` : inTrade(ofService);
    const [, part, at] = pointer.split("/");
    if (part === "documents" && this.#files) return this.#showFileError(Number(at ?? NaN), detail);
    if (!field) return [null, pointer, detail];
    const { element } = this.#rows.get(field.pointer);
    element.hidden = false;
    this.#open(field);
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

const toCorrect = (number) => `Correct ${number === 1 ? "1 entry" : `${number} entries`}`;

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
