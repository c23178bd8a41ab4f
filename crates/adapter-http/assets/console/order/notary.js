// The fields of a notary. A name completes itself from the notaries that the signing service knows.

import { Digits, Failure, nextPage, request, session } from "../shared/api.js";
import { fill, h, labelled } from "../shared/dom.js";

/** The texts of a notary: of the person, and the number. */
export const PERSON = ["name", "phone", "email"];
export const TEXTS = [...PERSON, "number"];

/** Notaries that a name completes from, and the age in milliseconds at which they are read again. */
const [MOST, MAX_AGE] = [1_000, 300_000];

let known = { terms: null, at: 0, notaries: Promise.resolve([]) };

/** Returns the notaries that the signing service has assigned, the latest first. */
function knownNotaries() {
  if (known.terms !== session.terms || Date.now() - known.at > MAX_AGE) {
    known = { terms: session.terms, at: Date.now(), notaries: readNotaries() };
  }
  return known.notaries;
}

async function readNotaries() {
  const notaries = [];
  try {
    for (let address = "api/notaries?limit=100"; address && notaries.length < MOST; ) {
      const { body, headers } = await request(address);
      notaries.push(...body.data);
      address = nextPage(headers);
    }
  } catch (failure) {
    // The user can still enter everything.
    if (!(failure instanceof Failure)) throw failure;
  }
  return notaries;
}

/** Reads the notaries again: one was assigned. */
export const forgetNotaries = () => (known.terms = null);

/** Returns the texts of a notary as the API has it, and of its number. */
export const textsOf = (notary, number) => ({
  name: notary?.name ?? "", phone: notary?.phone ?? "", email: notary?.email ?? "", number: String(number ?? ""),
});

export class NotaryFields {
  #controls;
  #choices;
  #nows;
  element;
  /** Is called when the user changes a text. */
  onchange = () => {};

  /** `id` begins the ids of the controls. */
  constructor(id) {
    this.#choices = h("datalist", { id: `${id}-notaries` });
    const list = `${id}-notaries`;
    const control = (name, more) => h("input", { name: `notary_${name}`, dir: "auto", ...more });
    this.#controls = {
      name: control("name", { list, focus: () => this.#offer() }),
      phone: control("phone", { type: "tel" }),
      email: control("email", { inputmode: "email", spellcheck: "false" }),
      number: h("input", { name: "notary_id", inputmode: "numeric" }),
    };
    this.#nows = Object.fromEntries(TEXTS.map((name) => [name, h("p", { class: "advice", role: "status" })]));
    const row = (name, end, label, hint, pointer) => {
      const field = labelled(`${id}-${end}`, label, this.#controls[name], hint, pointer);
      field.append(this.#nows[name]);
      return field;
    };
    this.element = [
      row("name", "name", "Notary: name", "Both sides see it. Empty forgets it", "/notary/name"),
      this.#choices,
      row("phone", "phone", "Notary: phone", null, "/notary/phone"),
      row("email", "email", "Notary: e-mail", null, "/notary/email"),
      row("number", "notary", "Notary: number", "If your notaries have numbers", "/notary_id"),
    ];
    this.#controls.name.addEventListener("input", () => this.#complete());
    for (const it of Object.values(this.#controls)) it.addEventListener("input", () => this.onchange());
    this.#offer();
  }

  /** Offers the names. Two notaries of the same name have their phones beside. */
  async #offer() {
    const notaries = await knownNotaries();
    if (this.#choices.childElementCount === notaries.length) return;
    fill(this.#choices, notaries.map((it) => h("option", { value: choiceOf(it, notaries) }, it.phone ?? it.email ?? "")));
  }

  /** Fills the other texts when the name is that of a known notary. */
  async #complete() {
    const text = this.#controls.name.value.trim();
    const notaries = await knownNotaries();
    const found = notaries.filter((it) => choiceOf(it, notaries) === text);
    if (found.length !== 1 || this.#controls.name.value.trim() !== text) return;
    this.texts = textsOf(found[0], found[0].notary_id);
    this.onchange();
  }

  get texts() {
    return Object.fromEntries(TEXTS.map((name) => [name, this.#controls[name].value.trim()]));
  }

  set texts(texts) {
    for (const [name, text] of Object.entries(texts)) this.#controls[name].value = text;
  }

  /** Calls a function when the user changes the number. */
  set onnumber(run) {
    this.#controls.number.addEventListener("input", run);
  }

  /** Shows what a text is for others now, beside what the user has entered. */
  showNow(name, text) {
    this.#nows[name].textContent = text === null ? "" : `Now: ${text || "empty"}`;
  }
}

const choiceOf = (it, notaries) =>
  notaries.filter(({ name }) => name === it.name).length === 1
    ? it.name
    : [it.name, it.phone ?? it.email ?? it.notary_id].filter(Boolean).join(", ");

/**
 * Returns the members of a request that changes the notary of an order from some texts to others; empty if nothing
 * changes.
 */
export function notaryChange(before, after) {
  const isAs = (texts) => PERSON.every((name) => after[name] === texts[name]);
  const isOther = after.number !== before.number;
  const json = {};
  if (isOther) json.notary_id = numberOf(after.number);
  const isEmpty = PERSON.every((name) => !after[name]);
  const sent = PERSON.filter((name) => name === "name" || after[name]);
  const notary = Object.fromEntries(sent.map((name) => [name, after[name]]));
  // Removing the name forgets the notary.
  const isForgotten = isEmpty || (before.name && !after.name);
  if (!isAs(before) || (isOther && !isEmpty)) json.notary = isForgotten ? null : notary;
  return json;
}

/** Returns the notary as the request has it: what is no number is for the service to reject. */
function numberOf(text) {
  if (!text) return null;
  return /^[1-9]\d*$/.test(text) ? new Digits(text) : text;
}
