// The forms of a signing service: notary and status of an order. They send what the user changes, and keep it until
// it is sent.

import { NotaryFields, TEXTS, forgetNotaries, notaryChange, textsOf } from "./notary.js";
import { forgetErrors, showErrors } from "../shared/controls.js";
import { ask, h, labelled } from "../shared/dom.js";
import { entriesAt, keepEntry } from "../shared/draft.js";
import { CANCELLED, DID_NOT_SIGN, STATUSES, plain, statusWord } from "../shared/words.js";

const OTHER = "";
const [NEW, ASSIGNED] = ["NEW", "ASSIGNED"];

/** Why a signing ends without signatures, as dispatchers say it. */
const REASONS = [
  "The signer did not come", "The signer refused to sign", "The documents were wrong or missing",
  "The signer had no valid identification", "The notary could not come",
];

/** What a form says that its user has left as it was. */
const SAME = "Nothing is changed.";
const NO_NOTARY = { pointer: "/notary/name", detail: "or number is missing" };

export class Assignment {
  #id;
  #version;
  #run;
  #of = null;
  #forms = null;

  /** `run` does something, and shows the order as it is then. */
  constructor(id, version, run) {
    [this.#id, this.#version, this.#run] = [id, version, run];
  }

  /** Returns the forms. What the user has entered stays, also when another user changes status or notary. */
  forms(order) {
    const { order_status: status, notary_id: number, notary } = order;
    const of = JSON.stringify([status, number, notary]);
    if (of !== this.#of) [this.#of, this.#forms] = [of, [this.#notaryForm(order), this.#statusForm(order)]];
    return this.#forms;
  }

  /** Marks the order as not signed, with the reason that the user gives. */
  async didNotSign(form) {
    const reason = h("input", { name: "reason", maxlength: 500, dir: "auto", list: "unsigned-reasons" });
    const values = await ask({
      title: "Did the signing end without signatures?",
      lines: ["The client gets a mail with the reason, and can no longer change the order."],
      controls: [
        labelled("unsigned-reason", "Reason", reason, "Both sides read it", "/reason"),
        h("datalist", { id: "unsigned-reasons" }, REASONS.map((it) => h("option", { value: it }))),
      ],
      confirm: "Did not sign",
      danger: true,
    });
    if (!values) return;
    const text = values.reason.trim();
    const json = { order_status: DID_NOT_SIGN, ...(text && { reason: text }) };
    await this.#save(json, "The order is marked as not signed.", form, "status");
  }

  #save(json, done, form, part) {
    const save = async () => {
      await this.#version.save("PATCH", json);
      keepEntry(this.#id, part, null);
      if ("notary" in json || "notary_id" in json) forgetNotaries();
    };
    return this.#run(save, done, form);
  }

  #notaryForm(order) {
    const fields = new NotaryFields("change");
    const before = textsOf(order.notary, order.notary_id);
    const kept = entriesAt(this.#id).notary ?? { entered: {}, of: before };
    fields.texts = { ...before, ...kept.entered };
    const keep = () => {
      const texts = fields.texts;
      const entered = TEXTS.filter((name) => texts[name] !== before[name]).map((name) => [name, texts[name]]);
      keepEntry(this.#id, "notary", entered.length ? { entered: Object.fromEntries(entered), of: before } : null);
    };
    // Another user has changed what this one is changing.
    for (const name of Object.keys(kept.entered)) {
      if (before[name] !== kept.of[name] && before[name] !== kept.entered[name]) fields.showNow(name, before[name]);
    }
    // The name of the notary before does not stay beside the number of another.
    const isNone = (texts) => !texts.name && !texts.phone && !texts.email;
    fields.onnumber = () => {
      const { number, ...person } = fields.texts;
      const { number: _, ...personBefore } = before;
      if (number !== before.number && JSON.stringify(person) === JSON.stringify(personBefore)) {
        fields.texts = { name: "", phone: "", email: "" };
      } else if (number === before.number && isNone(person)) {
        fields.texts = personBefore;
      }
      keep();
    };
    fields.onchange = keep;
    const isNew = order.order_status === NEW;
    const hasNotary = order.notary || order.notary_id !== null;
    const label = hasNotary ? "Change the notary" : "Assign a notary";
    const submit = (event) => {
      event.preventDefault();
      forgetErrors(event.target);
      const json = notaryChange(before, fields.texts);
      // A new order that has a notary is assigned.
      if (isNew && (json.notary || json.notary_id)) json.order_status = ASSIGNED;
      const isSame = !Object.keys(json).length;
      if (isSame && !hasNotary) return showErrors(event.target, [NO_NOTARY]);
      const done = isSame ? SAME : hasNotary ? "The notary is changed." : "The notary is assigned.";
      this.#save(json, done, event.target, "notary");
    };
    return h(
      "details",
      { class: "form", open: !hasNotary || Object.keys(kept.entered).length > 0 },
      h("summary", { id: "assign" }, label),
      h(
        "form",
        { class: "grid", "aria-label": label, novalidate: true, autocomplete: "off", submit },
        fields.element,
        h(
          "div",
          { class: "buttons" },
          h("button", { class: isNew && "primary", id: "save" }, isNew ? "Assign" : "Save the notary"),
        ),
      ),
    );
  }

  #statusForm(order) {
    const kept = entriesAt(this.#id).status;
    const isKept = kept && kept.of !== undefined && kept.entered !== order.order_status;
    const status = statusControl(isKept ? kept.entered : order.order_status, () => {
      const { value } = status;
      const isChanged = value && value !== order.order_status;
      keepEntry(this.#id, "status", isChanged ? { entered: value, of: order.order_status } : null);
    });
    if (isKept && kept.of !== order.order_status) status.showNow(order.order_status);
    const submit = (event) => {
      event.preventDefault();
      forgetErrors(event.target);
      const { value } = status;
      const isSame = value === order.order_status;
      if (!isSame && plain(value) === plain(DID_NOT_SIGN)) return this.didNotSign(event.target);
      this.#save({ order_status: value }, isSame ? SAME : "The status is saved.", event.target, "status");
    };
    return h(
      "form",
      { class: "grid", "aria-label": "Status", novalidate: true, autocomplete: "off", submit },
      status.fields,
      h("div", { class: "buttons" }, h("button", { id: "save-status" }, "Save the status")),
    );
  }
}

/** Returns the choice of a status: its fields, the `value`, and what shows the status that the order has now. */
function statusControl(status, changed) {
  const usual = STATUSES.filter((it) => it !== CANCELLED);
  const known = usual.includes(status) ? usual : [status, ...usual];
  const option = (value) => h("option", { value, title: value, selected: value === status }, statusWord(value));
  const input = () => {
    other.hidden = select.value !== OTHER;
    changed();
  };
  const select = h("select", { name: "order_status", input }, known.map(option), h("option", { value: OTHER }, "Other…"));
  const text = h("input", { name: "other_status", maxlength: 50, dir: "auto", input: () => changed() });
  const other = labelled("change-other", "Other status", text, null, "/order_status");
  const now = h("p", { class: "advice", role: "status" });
  const row = labelled("change-status", "Status", select);
  row.append(now);
  other.hidden = true;
  return {
    fields: [row, other],
    showNow: (it) => (now.textContent = `Now: ${statusWord(it)}`),
    get value() {
      return select.value === OTHER ? text.value.trim() : select.value;
    },
  };
}
