// The forms of a signing service: notary and status of an order. They send what the user changes.

import { Digits } from "../shared/api.js";
import { h, labelled } from "../shared/dom.js";
import { forgetErrors, showErrors } from "../shared/controls.js";
import { CANCELLED, STATUSES } from "../shared/words.js";

const OTHER = "";
const [NEW, ASSIGNED] = ["NEW", "ASSIGNED"];
const PERSON = ["name", "phone", "email"];

/** What a form says that its user has left as it was. */
const SAME = "Nothing is changed.";
const NO_NOTARY = { pointer: "/notary/name", detail: "or number is missing" };

export class Assignment {
  #version;
  #run;
  #of = null;
  #forms = null;

  /** `run` does something, and shows the order as it is then. */
  constructor(version, run) {
    [this.#version, this.#run] = [version, run];
  }

  /** Returns the forms. What the user has entered stays until another user changes status or notary. */
  forms(order) {
    const { order_status: status, notary_id: number, notary } = order;
    const of = JSON.stringify([status, number, notary]);
    if (of !== this.#of) [this.#of, this.#forms] = [of, [this.#notaryForm(order), this.#statusForm(order)]];
    return this.#forms;
  }

  #notaryForm(order) {
    const number = h("input", { name: "notary_id", inputmode: "numeric", value: order.notary_id ?? "" });
    const types = { phone: { type: "tel" }, email: { inputmode: "email", spellcheck: "false" } };
    const person = Object.fromEntries(
      PERSON.map((name) => [name, h("input", { name: `notary_${name}`, dir: "auto", ...types[name] })]),
    );
    const enter = (notary) => PERSON.forEach((name) => (person[name].value = notary?.[name] ?? ""));
    const entered = () => PERSON.map((name) => person[name].value.trim());
    const isAs = (notary) => PERSON.every((name, at) => entered()[at] === (notary?.[name] ?? ""));
    const isOther = () => number.value.trim() !== String(order.notary_id ?? "");
    enter(order.notary);
    // The name of the notary before does not stay beside the number of another.
    number.addEventListener("input", () => {
      if (isOther() && isAs(order.notary)) enter(null);
      else if (!isOther() && isAs(null)) enter(order.notary);
    });
    const isNew = order.order_status === NEW;
    const hasNotary = order.notary || order.notary_id !== null;
    const label = hasNotary ? "Change the notary" : "Assign a notary";
    const change = () => {
      const json = {};
      if (isOther()) json.notary_id = numberOf(number.value.trim());
      const notary = isAs(null) ? null : Object.fromEntries(PERSON.map((name, at) => [name, entered()[at]]));
      for (const name of ["phone", "email"]) if (notary?.[name] === "") delete notary[name];
      // Removing the name forgets the notary.
      const isForgotten = notary === null || (order.notary && !notary.name);
      if (!isAs(order.notary) || (isOther() && notary)) json.notary = isForgotten ? null : notary;
      const isAssigned = json.notary || json.notary_id;
      // A new order that has a notary is assigned.
      if (isNew && isAssigned) json.order_status = ASSIGNED;
      return json;
    };
    const submit = (event) => {
      event.preventDefault();
      forgetErrors(event.target);
      const json = change();
      const isSame = !Object.keys(json).length;
      if (isSame && !hasNotary) return showErrors(event.target, [NO_NOTARY]);
      const done = isSame ? SAME : hasNotary ? "The notary is changed." : "The notary is assigned.";
      this.#run(() => this.#version.save("PATCH", json), done, event.target);
    };
    return h(
      "details",
      { class: "form", open: !hasNotary },
      h("summary", { id: "assign" }, label),
      h(
        "form",
        { class: "grid", "aria-label": label, novalidate: true, autocomplete: "off", submit },
        labelled("change-name", "Notary: name", person.name, "Both sides see it. Empty forgets it", "/notary/name"),
        labelled("change-phone", "Notary: phone", person.phone, null, "/notary/phone"),
        labelled("change-email", "Notary: e-mail", person.email, null, "/notary/email"),
        labelled("change-notary", "Notary: number", number, "If your notaries have numbers", "/notary_id"),
        h("div", { class: "buttons" }, h("button", { class: isNew && "primary", id: "save" }, isNew ? "Assign" : "Save the notary")),
      ),
    );
  }

  #statusForm(order) {
    const status = statusControl(order.order_status);
    const submit = (event) => {
      event.preventDefault();
      forgetErrors(event.target);
      const { value } = status;
      const save = () => this.#version.save("PATCH", { order_status: value });
      this.#run(save, value === order.order_status ? SAME : "The status is saved.", event.target);
    };
    return h(
      "form",
      { class: "grid", "aria-label": "Status", novalidate: true, autocomplete: "off", submit },
      status.fields,
      h("div", { class: "buttons" }, h("button", { id: "save-status" }, "Save the status")),
    );
  }
}

/** Returns the choice of a status: its fields, and the `value`. */
function statusControl(status) {
  const usual = STATUSES.filter((it) => it !== CANCELLED);
  const known = usual.includes(status) ? usual : [status, ...usual];
  const option = (value) => h("option", { value, selected: value === status }, value);
  const select = h(
    "select",
    { name: "order_status", input: () => (other.hidden = select.value !== OTHER) },
    known.map(option),
    h("option", { value: OTHER }, "Other…"),
  );
  const text = h("input", { name: "other_status", maxlength: 50, dir: "auto" });
  const other = labelled("change-other", "Other status", text, null, "/order_status");
  other.hidden = true;
  return {
    fields: [labelled("change-status", "Status", select), other],
    get value() {
      return select.value === OTHER ? text.value.trim() : select.value;
    },
  };
}

/** Returns the notary as the request has it: what is no number is for the service to reject. */
function numberOf(text) {
  if (!text) return null;
  return /^[1-9]\d*$/.test(text) ? new Digits(text) : text;
}
