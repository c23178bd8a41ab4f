// The form that changes an order: that of a new one, filled in. It shows what changes before it is sent.

import { Advice } from "./advice.js";
import { Digits, Failure, problem, session } from "../shared/api.js";
import { offerServices } from "../shared/controls.js";
import { ask, button, fill, focusHeading, h, retitle, said } from "../shared/dom.js";
import { Entries } from "./entries.js";
import { FIELDS, FILE_NUMBER, INSTANTS, OF_PLACE, OF_PROPERTY, TIMES, member, setMember } from "../shared/fields.js";
import { askBeforeLeaving } from "../shared/leave.js";
import { allServices } from "../shared/services.js";
import { toast } from "../shared/toast.js";
import { Version } from "../order/version.js";
import { inWords } from "../shared/words.js";

const SERVICE = "/signingServiceId";
const FIXED = [FILE_NUMBER, SERVICE];

/** The form that the user has begun. Its entries stay while the user looks at other views. */
let begun = null;

askBeforeLeaving(() => begun?.isUnsaved);

/** Forgets the form that the user has begun. */
export function forgetChange() {
  begun = null;
}

/** Returns the view. `changed` is called when the order is changed. */
export function changeOrder(id, changed) {
  if (begun?.id !== id || !begun.isUnsaved) begun = new ChangeForm(id, changed);
  begun.open();
  return { title: `Change order ${id}`, element: begun.element, isForm: true };
}

class ChangeForm {
  #version;
  #changed;
  #isBusy = false;
  /** The order as it was read, in the names of the request, and the text of each field. */
  #order = null;
  #texts = new Map();
  #status = null;
  #isSaved = false;
  #entries = new Entries();
  #advice = new Advice(this.#entries);
  #problem = h("div", { tabindex: "-1" });
  #discard = button("Discard what I have entered", () => this.#forgetEntries());
  #submit = h("button", { class: "primary" }, "Review and save");
  #form = h(
    "form",
    { class: "order", novalidate: true, autocomplete: "off", submit: (event) => this.#send(event), hidden: true },
    h(
      "div",
      { class: "draft" },
      h("p", { class: "hint" }, "File number and signing service stay. Fields with a * are required."),
      this.#discard,
    ),
    this.#entries.summary,
    this.#entries.element,
    h("div", { class: "buttons" }, this.#submit),
  );

  constructor(id, changed) {
    this.id = id;
    this.#changed = changed;
    const back = h("p", {}, h("a", { href: `#/order/${id}` }, "Back to the order"));
    this.element = h("div", {}, back, this.#problem, this.#form);
    for (const field of FIELDS) this.#entries.control(field).readOnly = FIXED.includes(field.pointer);
  }

  /** Shows the order as it is now, with what the user has entered before. */
  open() {
    this.#version = new Version(`api/order/${this.id}`);
    fill(this.#problem);
    this.#discard.hidden = !this.isUnsaved;
    this.#load();
  }

  #forgetEntries() {
    this.#texts.clear();
    this.#entries.forgetErrors();
    this.#discard.hidden = true;
    this.#load();
    focusHeading();
  }

  async #load() {
    try {
      this.#take(await this.#version.read());
    } catch (failure) {
      this.#show(failure);
    }
  }

  /** Fills the form. What the user has entered stays. */
  #take({ details, signing_service_id: service, order_status: status, file_number: fileNumber }) {
    this.#status = status;
    this.#order = { ...details, signingServiceId: service };
    for (const field of FIELDS) {
      const before = this.#texts.get(field.pointer);
      const own = this.#isChanged(field) ? [this.#entries.value(field)] : [];
      // The service computes an instant from the other fields, unless the user enters one.
      const value = INSTANTS.includes(field.pointer) ? undefined : member(this.#order, field.pointer);
      this.#entries.set(field, value);
      this.#texts.set(field.pointer, this.#entries.text(field));
      const isOther = own.length && before !== this.#texts.get(field.pointer);
      if (isOther) this.#entries.showNow(field, `Now: ${h("span", {}, inText(field, value)).textContent}`);
      if (!own.length) this.#entries.showNow(field, "");
      for (const value of own) this.#entries.set(field, value);
    }
    this.#entries.showConditional();
    this.#advice.refresh();
    this.#form.hidden = false;
    retitle(this.element, "Change ", said(fileNumber), ` (order ${this.id})`);
    this.#nameService(service);
  }

  /** Shows the name of the signing service, which stays. */
  async #nameService(id) {
    const named = (await allServices()).filter((it) => it.signing_service_id === id);
    offerServices(this.#entries.control({ pointer: SERVICE }), named, true);
  }

  /** Returns whether leaving would lose changes. */
  get isUnsaved() {
    return this.#order !== null && !this.#isSaved && this.#changes().length > 0;
  }

  #isChanged(field) {
    return this.#texts.has(field.pointer) && this.#entries.text(field) !== this.#texts.get(field.pointer);
  }

  /** Returns what the user has changed: fields, and their values before and after. */
  #changes() {
    const isLost = ({ pointer, if: [condition] = [] }) =>
      !INSTANTS.includes(pointer) && FIELDS.some((it) => it.pointer === condition && this.#isChanged(it));
    return FIELDS.flatMap((field) => {
      const before = member(this.#order, field.pointer);
      if (this.#entries.isShown(field)) {
        return this.#isChanged(field) ? [[field, before, this.#entries.value(field)]] : [];
      }
      return before !== undefined && isLost(field) ? [[field, before, undefined]] : [];
    });
  }

  async #send(event) {
    event.preventDefault();
    if (this.#isBusy) return;
    this.#entries.forgetErrors();
    fill(this.#problem);
    const changes = this.#changes();
    const { missing } = this.#entries;
    if (missing.length) {
      this.#show(new Failure({ status: 0, code: "incomplete", errors: missing }));
      return;
    }
    if (!changes.length) {
      toast("You have not changed anything yet.");
      return;
    }
    this.#setBusy(true);
    try {
      const confirmed = await ask({
        title: "Change the order?",
        lines: this.#consequences(changes),
        controls: [h("ul", { class: "changes" }, changes.map(line))],
        confirm: "Change the order",
      });
      if (!confirmed) return;
      await this.#version.save("PUT", changed(this.#order, changes));
      this.#isSaved = true;
      this.#changed();
    } catch (failure) {
      if (!(failure instanceof Failure)) throw failure;
      if (failure.status === 412) await this.#load();
      this.#show(failure);
    } finally {
      this.#setBusy(false);
    }
  }

  /** Returns what follows from changes, in sentences. */
  #consequences(changes) {
    const mail = session.terms.is_test ? "." : ", and gets a mail if its address is known here.";
    const isMoved = this.#status === "CONFIRMED" && changes.some(([{ pointer }]) => moves(pointer, this.#order));
    return [
      `The signing service sees the new values${mail}`,
      isMoved && "The appointment is no longer confirmed: the signing service confirms the new one.",
    ].filter(Boolean);
  }

  #show(failure) {
    if (failure.errors?.length) {
      this.#entries.showFailure(failure);
      return;
    }
    fill(this.#problem, problem(failure));
    this.#problem.focus();
  }

  #setBusy(isBusy) {
    this.#isBusy = isBusy;
    this.#submit.setAttribute("aria-disabled", isBusy);
  }
}

/** Returns whether a field says when or where the signing is. */
function moves(pointer, { signingDetailsFormData: { isPropertyAddressSame: isSame } }) {
  const ofPlace = isSame === false ? OF_PLACE : [...OF_PLACE, ...OF_PROPERTY];
  return [...TIMES, ...INSTANTS, ...ofPlace].includes(pointer);
}

/** Returns an item for the change of a field. */
function line([field, before, after]) {
  return h("li", {}, h("strong", {}, `${field.label}: `), inText(field, before), " → ", inText(field, after));
}

/** Returns the value of a field without links. */
function inText(field, value) {
  const shown = { ...field, kind: ["tel", "email"].includes(field.kind) ? "text" : field.kind };
  return value === undefined || value === "" ? "empty" : inWords(shown, value);
}

/** Returns an order with changes. */
function changed(order, changes) {
  const result = structuredClone(order);
  for (const field of FIELDS.filter(({ kind }) => ["id", "service", "amount"].includes(kind))) {
    const value = member(result, field.pointer);
    // An identifier of 19 digits was read as a text.
    if (typeof value === "string") setMember(result, field.pointer, new Digits(value));
  }
  if (changes.some(([{ pointer }]) => TIMES.includes(pointer))) {
    for (const pointer of INSTANTS) setMember(result, pointer, undefined);
  }
  for (const [{ pointer }, , after] of changes) setMember(result, pointer, after);
  Object.values(result).forEach(prune);
  return result;
}

/** Removes the objects that have lost all members, such as a contact. */
function prune(object) {
  if (object === null || typeof object !== "object" || object instanceof Digits) return;
  for (const [name, inner] of Object.entries(object)) {
    prune(inner);
    if (inner?.constructor === Object && !Object.keys(inner).length) delete object[name];
  }
}
