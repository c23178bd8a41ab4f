// Orders as rows: the whole row opens the order, and the arrow keys go up and down.

import { session } from "../shared/api.js";
import { badge, h, said, table } from "../shared/dom.js";
import { signingTime } from "../shared/times.js";

const LINKS = "tbody td:first-child a";

/** Returns the table of orders. `withDay` shows the day beside the time. */
export function ordersTable(caption, records, { withDay = false } = {}) {
  const side = session.isService ? "Client" : "Signing service";
  const heads = ["File number", "Signer", withDay ? "Date and time" : "Time", "City", "Status", "Notary", side];
  const rows = records.map((order) => [
    h("a", { href: `#/order/${order.order_id}`, id: `order-${order.order_id}`, tabindex: "-1" }, said(order.file_number)),
    said(order.signer_name),
    signingTime(order, { withDay }),
    said([order.signing_city, order.signing_state].filter(Boolean).join(", ") || "unknown"),
    badge(order.order_status),
    said(order.notary?.name ?? order.notary_id ?? "none"),
    otherSide(order),
  ]);
  const element = table(caption, heads, rows);
  element.classList.add("orders");
  // What does not fit into its column is there on demand.
  for (const cell of element.querySelectorAll("tbody td > div")) cell.title = cell.textContent;
  return element;
}

const otherSide = (order) =>
  session.isService
    ? said(order.client_name ?? "no name")
    : said(order.signing_service_name ?? `Number ${order.signing_service_id}`);

/** Makes the rows in an element reachable: one stop for Tab, then arrow keys; a click anywhere opens the order. */
export class Rows {
  #element;

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
    const stop = links.findIndex((it) => it.tabIndex === 0);
    const to = {
      ArrowDown: at < 0 ? Math.max(0, stop) : at + 1, ArrowUp: at < 0 ? -1 : at - 1, Home: 0, End: links.length - 1,
    }[event.key];
    if (to === undefined || !links[to] || (at < 0 && event.key !== "ArrowDown")) return;
    event.preventDefault();
    links[to].focus();
  }

  #open(event) {
    const row = event.target.closest("tbody tr");
    if (!row || event.target.closest("a, button") || getSelection().toString()) return;
    const link = row.querySelector("a");
    if (event.ctrlKey || event.metaKey) open(link.href);
    else link.click();
  }
}
