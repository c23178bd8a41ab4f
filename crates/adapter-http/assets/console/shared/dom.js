// Builds elements. Every value becomes a text node or an attribute, so that none becomes markup.

/** Returns an element. `null`, `undefined` and `false` are no attributes and no children. */
export function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") element.addEventListener(key, value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...present(children));
  return element;
}

/** Replaces the content of an element. */
export function fill(element, ...children) {
  element.replaceChildren(...present(children));
  return element;
}

/**
 * Replaces the content of an element that is shown again. What had the focus keeps it, by its id. If
 * it is gone, the heading of the view gets the focus. `content` may be a function: a form that stays
 * would lose the focus when it moves into a new card.
 */
export function renew(element, content) {
  const focused = document.activeElement;
  const hadFocus = focused !== element && element.contains(focused);
  fill(element, typeof content === "function" ? content() : content);
  if (!hadFocus) return;
  if (focused.id) document.getElementById(focused.id)?.focus({ preventScroll: true });
  if (!element.contains(document.activeElement)) focusHeading();
}

/** Names the view that an element is of, in its heading and in the title of the page, if it is still shown. */
export function retitle(element, ...content) {
  if (!element.isConnected) return;
  const heading = document.querySelector("main h1");
  const before = heading.textContent;
  fill(heading, ...content);
  setTitle(title.text.replace(before, () => heading.textContent));
}

/** The title of the page, and the number before it. */
const title = { text: document.title, number: 0 };

/** Sets the title of the page. `number` stands before it, unless it is 0. */
export function setTitle(text = title.text, number = title.number) {
  Object.assign(title, { text, number });
  document.title = number ? `(${number}) ${text}` : text;
}

/** Moves the focus to the heading of the view. */
export const focusHeading = () => document.querySelector("main h1").focus({ preventScroll: true });

const present = (children) =>
  children.flat(Infinity).filter((it) => it !== undefined && it !== null && it !== false);

/** Returns a text that a user has written. Its direction does not affect what stands around it. */
export const said = (text) => h("bdi", {}, String(text));

/** Returns an instant in the time zone of the browser, which it names. */
export function instant(iso) {
  const options = {
    year: "numeric", month: "short", day: "numeric", hour: "numeric", minute: "2-digit", timeZoneName: "short",
  };
  return h("time", { datetime: iso, title: iso }, new Date(iso).toLocaleString("en-US", options));
}

/** Returns an instant in few characters, for lists; the whole is there on demand. */
export function moment(iso) {
  const date = new Date(iso);
  const year = date.getFullYear() === new Date().getFullYear() ? undefined : "numeric";
  const options = { year, month: "short", day: "numeric", hour: "numeric", minute: "2-digit" };
  return h("time", { datetime: iso, title: instant(iso).textContent }, date.toLocaleString("en-US", options));
}

/** Returns a date without a time, such as 2026-12-01, in words. */
export function day(date) {
  const options = { weekday: "short", year: "numeric", month: "short", day: "numeric" };
  const noon = new Date(`${date}T12:00:00`);
  const text = Number.isNaN(noon.getTime()) ? date : noon.toLocaleDateString("en-US", options);
  return h("time", { datetime: date }, text);
}

/** Returns a number of bytes in words. */
export function size(bytes) {
  const units = ["bytes", "KiB", "MiB", "GiB"];
  let unit = 0;
  for (; bytes >= 1024 && unit < units.length - 1; unit++) bytes /= 1024;
  return `${unit ? bytes.toFixed(1) : bytes} ${units[unit]}`;
}

/** Returns a number with its noun. */
export const count = (number, noun) => `${number.toLocaleString("en-US")} ${noun}${number === 1 ? "" : "s"}`;

/** Returns a status of an order or a webhook. */
export const badge = (status) =>
  h("span", { class: "badge", "data-status": status.toLowerCase() }, said(status));

/** Returns a link that calls a phone number. An extension is dialled after the answer. */
export function phoneLink(text) {
  const [number, extension] = String(text).split(/[ex#](.*)/i);
  const digits = number.replace(/[^\d+]/g, "");
  const dialled = extension?.replace(/\D/g, "") ?? "";
  if (digits.length < 3) return said(text);
  return h("a", { href: `tel:${digits}${dialled && `;ext=${dialled}`}` }, said(text));
}

/** Returns a link that writes to an e-mail address. */
export const emailLink = (text) =>
  h("a", { href: `mailto:${encodeURIComponent(text).replace("%40", "@")}` }, said(text));

/** Lets screen readers say a sentence. A new element lets them repeat the same sentence. */
export const announce = (sentence) => fill(document.getElementById("live"), h("span", {}, sentence));

/** Returns the link that shows a place on a map: another site learns of it only if its user follows the link. */
export const mapLink = (place) =>
  h("a", { href: `${MAP}${encodeURIComponent(place)}`, target: "_blank", rel: "noopener noreferrer" }, "Map");

const MAP = "https://www.google.com/maps/search/?api=1&query=";

/** Returns a table of a caption, the heads of its columns, and rows of cells. */
export function table(caption, heads, rows) {
  // On small screens the elements have another layout. Their roles keep them a table.
  const head = (text) => h("th", { scope: "col", role: "columnheader" }, text);
  const cell = (content, at) =>
    h("td", { role: "cell", "data-head": heads[at] }, h("div", {}, content));
  const row = (cells) => h("tr", { role: "row" }, cells);
  return h(
    "table",
    { role: "table" },
    h("caption", {}, caption),
    h("thead", { role: "rowgroup" }, row(heads.map(head))),
    h("tbody", { role: "rowgroup" }, rows.map((cells) => row(cells.map(cell)))),
  );
}

/** Returns a section with a heading. */
export const card = (title, ...children) =>
  h("section", { class: "card" }, h("h2", {}, title), ...children);

/** Returns a button. */
export const button = (label, click, attributes = {}) =>
  h("button", { type: "button", click, ...attributes }, label);

/**
 * Opens a dialog. Returns the values of its controls by name if the user confirms, else `null`.
 * `controls` are elements; the browser returns the focus when the dialog closes.
 */
export function ask({ title, lines = [], controls = [], confirm, danger = false }) {
  return new Promise((resolve) => {
    const heading = h("h2", { id: "dialog-title" }, title);
    const form = h(
      "form",
      { method: "dialog", autocomplete: "off" },
      heading,
      lines.map((line) => h("p", {}, line)),
      controls,
      h(
        "div",
        { class: "buttons" },
        h("button", { value: "yes", class: danger ? "danger" : "primary" }, confirm),
        h("button", { value: "", formnovalidate: true }, "Back"),
      ),
    );
    const dialog = h("dialog", { "aria-labelledby": "dialog-title" }, form);
    dialog.addEventListener("close", () => {
      const values = Object.fromEntries(new FormData(form));
      dialog.remove();
      resolve(dialog.returnValue === "yes" ? values : null);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Returns a labelled control of a dialog or a small form. Problems of `pointer` are shown at it. */
export function labelled(id, label, control, hint, pointer) {
  control.id = id;
  const described = [hint && `${id}-hint`, pointer && `${id}-error`].filter(Boolean).join(" ");
  if (described) control.setAttribute("aria-describedby", described);
  return h(
    "div",
    { class: "field", "data-pointer": pointer },
    h("label", { for: id }, label),
    control,
    hint && h("p", { class: "hint", id: `${id}-hint` }, hint),
    pointer && h("p", { class: "error", id: `${id}-error` }),
  );
}

/** Saves a file under a name. */
export function save(blob, name) {
  const url = URL.createObjectURL(blob);
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
