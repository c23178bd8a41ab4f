// The control of each kind of field, with its label and the places of hint and error.

import { Digits } from "./api.js";
import { fill, h } from "./dom.js";
import { LAST_DATE } from "./times.js";
import { inTrade } from "./trade.js";
import { zones } from "./zones.js";

/** Returns the identifier of the control of a field. */
export const idOf = (pointer) => `field${pointer.replaceAll("/", "-")}`;

/** Returns the control of a field, and the row with its label, hint and error. */
export function row(field) {
  const id = idOf(field.pointer);
  const notes = [field.hint && `${id}-hint`, field.isAdvised && `${id}-note`, `${id}-error`];
  const described = notes.filter(Boolean).join(" ");
  const control = field.kind === "radio" ? radios(field, id) : single(field, id);
  control.setAttribute("aria-describedby", described);
  const mark = field.required && h("span", { "aria-hidden": "true", class: "mark" }, " *");
  const below = [
    field.choices && h("datalist", { id: `${id}-choices` }, field.choices.map((it) => h("option", { value: it }))),
    field.hint && h("p", { class: "hint", id: `${id}-hint` }, field.hint),
    field.isAdvised && h("p", { class: "advice", id: `${id}-note`, role: "status" }),
    h("p", { class: "error", id: `${id}-error` }),
  ];
  const label = () => h("label", { for: id }, field.label, mark);
  const kinds = {
    radio: () => [control],
    checkbox: () => [control, label()],
    service: () => [label(), control, h("select", { hidden: true, change: ({ target }) => (control.value = target.value) })],
  };
  if (field.kind === "radio") control.prepend(h("legend", {}, field.label, mark));
  const content = kinds[field.kind]?.() ?? [label(), control];
  const classes = ["field", field.wide && "wide", field.isLong && "long", field.kind === "checkbox" && "check"];
  const attributes = { class: classes.filter(Boolean).join(" "), "data-pointer": field.pointer };
  return { control, element: h("div", attributes, content, below) };
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
      return h("input", { ...shared, type: kind, max: LAST_DATE });
    case "time":
      return h("input", { ...shared, type: kind });
    case "tel":
      return h("input", { ...text, type: "tel" });
    case "instant":
      return h("select", shared);
    case "service":
      return h("input", { ...text, inputmode: "numeric", input: ({ target }) => showService(target) });
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

/**
 * Offers signing services by name. Without any, the user enters the number of one. `isBound` means that the key may
 * name this one only.
 */
export function offerServices(control, services, isBound) {
  const select = control.nextElementSibling;
  const hasNames = services.length > 0;
  const id = hasNames ? select.id || control.id : control.id;
  const option = (it) => h("option", { value: it.signing_service_id }, it.name);
  fill(select, !isBound && h("option", { value: "" }, "Choose a signing service"), services.map(option));
  [select.hidden, control.hidden, control.readOnly] = [!hasNames, hasNames, isBound];
  select.classList.toggle("fixed", isBound);
  if (!hasNames) return;
  // The label and the links of errors lead to the control that is shown.
  if (!select.id) {
    control.id = `${id}-number`;
    select.id = id;
    for (const name of ["aria-describedby", "required"]) {
      if (control.hasAttribute(name)) select.setAttribute(name, control.getAttribute(name));
    }
  }
  showService(control);
}

/** Shows the service of a number among those that are offered by name. */
function showService(control) {
  const select = control.nextElementSibling;
  if (!select || select.hidden) return;
  const isKnown = [...select.options].some((it) => it.value === control.value);
  if (!isKnown) select.append(h("option", { value: control.value }, `Number ${control.value}`));
  select.value = control.value;
}

/** Offers the instants of a local time that occurs twice. */
export function offerInstants(control, instants, zone) {
  const chosen = control.value;
  const text = (instant) =>
    instant.toLocaleTimeString("en-US", { timeZone: zone, hour: "numeric", minute: "2-digit", timeZoneName: "short" });
  const option = (instant, at) => {
    const value = instant.toISOString().replace(".000Z", "Z");
    return h("option", { value }, `${text(instant)}, the ${["first", "second"][at]}: ${value}`);
  };
  fill(control, h("option", { value: "" }, "Choose one of the two"), instants.map(option));
  control.value = chosen;
  if (control.selectedIndex < 0) control.value = "";
}

/** What is sent as a number. Everything else is sent as a text, and the service says what is wrong. */
const NUMBERS = { id: /^(0|[1-9]\d*)$/, service: /^(0|[1-9]\d*)$/, amount: /^(0|[1-9]\d*)(\.\d+)?$/ };

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
  if (kind === "service") showService(control);
  // What the control of the browser does not know: a time such as 2:30 PM, or an old time zone.
  const isUnknown = control.value !== undefined && control.value !== text;
  if (isUnknown && ["date", "time"].includes(kind)) Object.assign(control, { type: "text", value: text });
  if (isUnknown && kind === "zone") control.append(h("option", { value: text, selected: true }, text));
}

/** Shows a note at the field of a row; none if the text is empty. */
export function showNote(row, text) {
  const note = row.querySelector(".advice");
  if (note.textContent !== text) note.textContent = text;
}

/** Shows at the field of a row what another user has entered there meanwhile; nothing if the text is empty. */
export function showNow(row, text) {
  let now = row.querySelector(".now");
  if (!now && !text) return;
  if (!now) row.append((now = h("p", { class: "advice now", role: "status" })));
  now.textContent = text;
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
    row.closest("details")?.setAttribute("open", "");
    showError(row, `${row.querySelector("label").textContent} ${inTrade(errors[at].detail)}`);
  });
  rows[0].querySelector("input, select, textarea").focus();
  return true;
}

/** Hides the errors of a form. */
export function forgetErrors(form) {
  for (const row of form.querySelectorAll("[data-pointer]")) showError(row, "");
}
