// Orders as rows: the whole row opens the order, the arrow keys go up and down, and the space bar chooses.

import { session } from "../shared/api.js";
import { button, count, h, moment, phoneLink, said } from "../shared/dom.js";
import { isUnopened, openedAt } from "../shared/opened.js";
import { signingTime } from "../shared/times.js";
import { lateOf, statusBadge, statusWord } from "../shared/words.js";
import { changedAt, lastChange } from "../order/history.js";

const LINKS = "tbody a.order";

const cityOf = (order) => [order.signing_city, order.signing_state].filter(Boolean).join(", ");
const notaryNameOf = (order) => order.notary?.name ?? (order.notary_id === null ? "" : `Number ${order.notary_id}`);
const sideOf = (order) =>
  session.isService
    ? (order.client_name ?? "no name")
    : (order.signing_service_name ?? `Number ${order.signing_service_id}`);
const startOf = ({ appointment, signing_date: date }) => appointment.starts_at ?? `${date}T08`;

/** The columns: name, head, the text by which they sort, and what a cell shows. */
const COLUMNS = {
  changed: ["Changed", changedAt, (order) => moment(changedAt(order))],
  time: [({ withDay }) => (withDay ? "Date and time" : "Time"), startOf, (order, options) => signingTime(order, options)],
  file: [
    "File number",
    (order) => order.file_number,
    (order) => [
      h(
        "a",
        { href: `#/order/${order.order_id}`, id: `order-${order.order_id}`, class: "order", tabindex: "-1" },
        said(order.file_number),
      ),
      isUnopened(order) && h("span", { class: "unseen" }, " changed since you opened it"),
    ],
  ],
  signer: ["Signer", (order) => order.signer_name, (order) => said(order.signer_name)],
  what: ["What changed", null, lastChange],
  city: ["City", cityOf, (order) => said(cityOf(order))],
  status: ["Status", (order) => statusWord(order.order_status), (order) => statusBadge(order.order_status)],
  notary: [
    "Notary",
    notaryNameOf,
    (order, { withPhone }) => [
      said(notaryNameOf(order)),
      withPhone && order.notary?.phone && [" ", h("span", { class: "call" }, phoneLink(order.notary.phone))],
    ],
  ],
  side: [() => (session.isService ? "Client" : "Signing service"), sideOf, (order) => said(sideOf(order))],
  marks: ["Marks", null, marks],
};

/** The columns of every list, and of the list of changes. */
const USUAL = ["time", "file", "signer", "city", "status", "notary", "side", "marks"];
const OF_CHANGES = ["changed", "file", "signer", "what", "status", "time", "marks"];

/** Columns that are left out if no row has something there. */
const OPTIONAL = ["notary", "marks", "city"];

const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

/** Returns the comparison of a sort, such as `signer` or, downwards, `-signer`. Empty texts come last. */
export function comparison(sort) {
  const [, textOf] = COLUMNS[sort.replace("-", "")] ?? COLUMNS.time;
  const way = sort.startsWith("-") ? -1 : 1;
  return (one, other) => {
    const [a, b] = [textOf(one), textOf(other)];
    if (!a !== !b) return a ? -1 : 1;
    return way * collator.compare(a, b);
  };
}

/**
 * Returns the table of orders. `withDay` shows the day beside the time, `withPhone` the phone of the notary.
 * `choice` lets the user choose rows, and `sort` has the `key` of the order and a function `set`, if it can change.
 * One of several tables has the `heading` of its `group` of orders, those `among` which it is, and the heads of the
 * columns only if it `isFirst`.
 */
export function ordersTable(
  caption,
  records,
  { ofChanges = false, choice = null, sort = null, heading = null, among = records, isFirst = true, ...options } = {},
) {
  const isIn = (name) => among.some((it) => cellText(COLUMNS[name][2](it, options)));
  const isEmpty = (name) => OPTIONAL.includes(name) && !isIn(name);
  const names = (ofChanges ? OF_CHANGES : USUAL).filter((name) => !isEmpty(name));
  const titleOf = (name) => (typeof COLUMNS[name][0] === "function" ? COLUMNS[name][0](options) : COLUMNS[name][0]);
  const head = (name) => {
    const isSorted = sort?.key.replace("-", "") === name;
    const isDown = isSorted && sort.key.startsWith("-");
    const label = [titleOf(name), isSorted && h("span", { "aria-hidden": "true" }, isDown ? " ↓" : " ↑")];
    const turn = () => sort.set(isSorted ? (isDown ? "" : `-${name}`) : name);
    return h(
      "th",
      { scope: "col", role: "columnheader", class: name, "aria-sort": isSorted && (isDown ? "descending" : "ascending") },
      sort && COLUMNS[name][1] ? button(label, turn, { id: `sort-${name}` }) : label,
    );
  };
  const cell = (name, order) =>
    h("td", { role: "cell", class: name, "data-head": titleOf(name) }, h("div", {}, COLUMNS[name][2](order, options)));
  const row = (order) =>
    h(
      "tr",
      { role: "row", class: isUnopened(order) && "unopened", "data-status": order.order_status.toLowerCase() },
      choice && h("td", { role: "cell", class: "choose" }, choice.box(order)),
      names.map((name) => cell(name, order)),
    );
  const whole = choice && h("th", { scope: "col", role: "columnheader", class: "choose" }, choice.boxOfAll(caption, records));
  const empty = choice && h("td", { role: "cell", class: "choose" });
  const title = heading && h("th", { scope: "colgroup", role: "columnheader", colspan: names.length }, heading);
  return h(
    "table",
    { role: "table", class: ["orders", heading && "grouped", options.withDay && "dated"].filter(Boolean).join(" ") },
    h("caption", { class: "unseen" }, caption),
    heading && h("colgroup", {}, [choice && "choose", ...names].filter(Boolean).map((name) => h("col", { class: name }))),
    h(
      "thead",
      { role: "rowgroup" },
      title && h("tr", { role: "row", class: "heading" }, whole, title),
      h("tr", { role: "row", class: !isFirst && "later" }, title ? empty : whole, names.map(head)),
    ),
    h("tbody", { role: "rowgroup" }, records.map(row)),
  );
}

/** Returns the text of what a cell shows. */
const cellText = (content) => h("div", {}, content).textContent;

/**
 * Returns what is in, and what is missing, in few characters; the whole sentence is there on demand. What all orders of
 * a `group` lack stands in its heading.
 */
function marks(order, { group } = {}) {
  const { documents_fetched: fetched, documents_to_fetch: toFetch, signed_documents_uploaded: signed } = order;
  const isFetched = toFetch === 0;
  const late = lateOf(order).filter(([code]) => code !== group);
  const note = order.newest_note;
  const inWords = isFetched
    ? "The documents are in, and the signing service has them"
    : "The documents are in; the signing service has not fetched all";
  const isNewNote = note && note.author !== session.terms.party && note.at > openedAt(order.order_id);
  return h("div", { class: "row" }, [
    late.map(([, sentence, text]) => mark(text, sentence, "late")),
    fetched + toFetch > 0 && mark(isFetched ? "Docs ✓" : "Docs", inWords),
    order.scanbacks_required && mark("Scanbacks", "Scanbacks are required"),
    signed > 0 && mark("Signed ✓", count(signed, "signed document")),
    isNewNote && mark("Note", "A new note of the other side", "new"),
  ]);
}

const mark = (text, sentence, kind) =>
  h("span", { class: "mark-of", role: "img", "aria-label": sentence, title: sentence, "data-kind": kind }, text);

/** Makes the rows in an element reachable: one stop for Tab, then arrow keys; a click anywhere opens the order. */
export class Rows {
  #element;
  /** The box that was used last: with Shift, the boxes up to the next one follow it. */
  #lastBox = null;

  constructor(element) {
    this.#element = element;
    element.addEventListener("focusin", ({ target }) => {
      if (target.matches(LINKS)) this.#setStop(target);
    });
    element.addEventListener("keydown", (event) => this.move(event));
    element.addEventListener("click", (event) => this.#open(event));
  }

  get links() {
    return [...this.#element.querySelectorAll(LINKS)];
  }

  /** Gives the rows their stop for Tab again. */
  renew() {
    const { links } = this;
    this.#setStop(links.find((it) => it === document.activeElement) ?? links[0]);
  }

  #setStop(link) {
    for (const it of this.links) it.tabIndex = -1;
    if (link) link.tabIndex = 0;
  }

  /** Goes to another row with the keys. From outside of the rows, it goes to the one that Tab would reach. */
  move(event) {
    const { links } = this;
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey || !links.length) return;
    const at = links.indexOf(document.activeElement);
    if (event.key === " " && at >= 0) {
      event.preventDefault();
      links[at].closest("tr").querySelector(".choose input")?.click();
      return;
    }
    const stop = links.findIndex((it) => it.tabIndex === 0);
    const to = {
      ArrowDown: at < 0 ? Math.max(0, stop) : at + 1, ArrowUp: at < 0 ? -1 : at - 1, Home: 0, End: links.length - 1,
    }[event.key];
    if (to === undefined || !links[to] || (at < 0 && event.key !== "ArrowDown")) return;
    event.preventDefault();
    links[to].focus();
  }

  #open(event) {
    if (event.target.matches("tbody .choose input")) this.#extend(event);
    const row = event.target.closest("tbody tr");
    if (!row || event.target.closest("a, button, .choose") || getSelection().toString()) return;
    const link = row.querySelector("a.order");
    if (event.ctrlKey || event.metaKey) open(link.href);
    else link.click();
  }

  /** Chooses the rows between two boxes, too. */
  #extend({ target, shiftKey }) {
    const boxes = [...this.#element.querySelectorAll("tbody .choose input")];
    const [from, to] = [boxes.findIndex((it) => it.id === this.#lastBox), boxes.indexOf(target)].sort((a, b) => a - b);
    this.#lastBox = target.id;
    if (!shiftKey || from < 0) return;
    for (const it of boxes.slice(from, to + 1)) if (it.checked !== target.checked) it.click();
  }
}
