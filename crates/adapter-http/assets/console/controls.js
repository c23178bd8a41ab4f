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
