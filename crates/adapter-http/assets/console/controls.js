// The control of each kind of field, with its label and the places of hint and error.

import { Digits } from "./api.js";
import { h } from "./dom.js";
import { zones } from "./zones.js";

/** Returns the identifier of the control of a field. */
export const idOf = (pointer) => `field${pointer.replaceAll("/", "-")}`;

/** Returns the control of a field, and the row with its label, hint and error. */
export function row(field) {
  const id = idOf(field.pointer);
  const described = `${field.hint ? `${id}-hint ` : ""}${id}-error`;
  const control = field.kind === "radio" ? radios(field, id) : single(field, id);
  control.setAttribute("aria-describedby", described);
  const mark = field.required && h("span", { "aria-hidden": "true", class: "mark" }, " *");
  const notes = [
    field.choices && h("datalist", { id: `${id}-choices` }, field.choices.map((it) => h("option", { value: it }))),
    field.hint && h("p", { class: "hint", id: `${id}-hint` }, field.hint),
    h("p", { class: "error", id: `${id}-error` }),
  ];
  const label = () => h("label", { for: id }, field.label, mark);
  const kinds = {
    radio: () => [control],
    checkbox: () => [control, label()],
  };
  if (field.kind === "radio") control.prepend(h("legend", {}, field.label, mark));
  const content = kinds[field.kind]?.() ?? [label(), control];
  const classes = ["field", field.wide && "wide", field.kind === "checkbox" && "check"];
  const attributes = { class: classes.filter(Boolean).join(" "), "data-pointer": field.pointer };
  return { control, element: h("div", attributes, content, notes) };
}

function single({ pointer, kind, required, initial, choices }, id) {
  const shared = { id, name: pointer, required };
  const text = { ...shared, dir: "auto", list: choices && `${id}-choices` };
  switch (kind) {
    case "lines":
      return h("textarea", { ...text, rows: 4 });
    case "zone":
      return h("select", shared, h("option", { value: "" }, "Choose a time zone"), zoneOptions());
    case "checkbox":
      return h("input", { ...shared, type: "checkbox", checked: initial });
    case "date":
    case "time":
      return h("input", { ...shared, type: kind });
    case "tel":
      return h("input", { ...text, type: "tel" });
    case "id":
      return h("input", { ...text, inputmode: "numeric" });
    case "amount":
      return h("input", { ...text, inputmode: "decimal" });
    case "email":
      return h("input", { ...text, inputmode: "email", spellcheck: "false" });
  }
  return h("input", text);
}

function radios({ pointer, options, initial }, id) {
  const radio = ([value, label], at) => {
    const own = at ? `${id}-${value}` : id;
    const checked = value === initial;
    const input = h("input", { type: "radio", id: own, name: pointer, value, checked });
    return h("span", { class: "radio" }, input, h("label", { for: own }, label));
  };
  return h("fieldset", { class: "radios" }, options.map(radio));
}

const zoneOptions = () =>
  zones().map(([title, entries]) =>
    h("optgroup", { label: title }, entries.map(([id, name]) => h("option", { value: id }, name))),
  );

/** What is sent as a number. Everything else is sent as a text, and the service says what is wrong. */
const NUMBERS = { id: /^(0|[1-9]\d*)$/, amount: /^(0|[1-9]\d*)(\.\d+)?$/ };

/** Returns the value of a control as the request has it; `undefined` if it is absent. */
export function valueOf({ kind }, control) {
  if (kind === "radio") return control.querySelector("input:checked")?.value;
  if (kind === "checkbox") return control.checked;
  const text = control.value.trim();
  if (!text) return undefined;
  return NUMBERS[kind]?.test(text) ? new Digits(text) : text;
}

/** Returns a value as its control shows it. */
const textOf = (value) => (value instanceof Digits ? value.text : String(value ?? ""));

/** Returns what the user sees in a control. */
export const textIn = (field, control) => textOf(valueOf(field, control));

/** Shows a value in a control; `undefined` empties it. */
export function setValue({ kind }, control, value) {
  const text = textOf(value);
  if (kind === "checkbox") control.checked = value === true;
  else if (kind === "radio") control.querySelectorAll("input").forEach((it) => (it.checked = it.value === text));
  else control.value = text;
  // What the control of the browser does not know: a time such as 2:30 PM, or an old time zone.
  const isUnknown = control.value !== undefined && control.value !== text;
  if (isUnknown && ["date", "time"].includes(kind)) Object.assign(control, { type: "text", value: text });
  if (isUnknown && kind === "zone") control.append(h("option", { value: text, selected: true }, text));
}

/** Shows an error at the field of a row, or hides that of an empty text. */
export function showError(row, text) {
  row.querySelector(".error").textContent = text;
  for (const control of row.querySelectorAll("input, select, textarea")) {
    if (text) control.setAttribute("aria-invalid", "true");
    else control.removeAttribute("aria-invalid");
  }
}

/** Shows the errors of a small form at its fields. Returns whether each has one, and moves the focus there. */
export function showErrors(form, errors) {
  const rowOf = ({ pointer, parameter }) =>
    [...form.querySelectorAll("[data-pointer]")].find((it) => it.dataset.pointer === (pointer ?? parameter));
  const rows = errors.map(rowOf);
  if (!rows.length || !rows.every(Boolean)) return false;
  rows.forEach((row, at) => {
    row.hidden = false;
    showError(row, `${row.querySelector("label").textContent} ${errors[at].detail}`);
  });
  rows[0].querySelector("input, select, textarea").focus();
  return true;
}

/** Hides the errors of a form. */
export function forgetErrors(form) {
  for (const row of form.querySelectorAll("[data-pointer]")) showError(row, "");
}
