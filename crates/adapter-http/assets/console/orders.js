// The list of orders. A signing service sees its new orders first. The list refreshes itself.

import { ProblemBox, nextPage, request, session } from "./api.js";
import { announce, badge, button, count, day, h, instant, labelled, renew, said, table } from "./dom.js";

/** Seconds between two refreshes. An unchanged page costs the service an answer without a body. */
const PERIOD = 10;

/** Orders on a page. The first pages of a signing service are read for its new orders, too. */
const PAGE = 100;
const PAGES_FOR_NEW = 10;

/** The search, and how many pages its user sees. They stay while the user looks at other views. */
let search = null;

/** Forgets the search. */
export function forgetSearch() {
  search = null;
}

/** Returns the view. */
export function orders() {
  const list = new OrderList();
  return { title: "Orders", element: list.element, dispose: () => list.dispose() };
}

class OrderList {
  #search = (search ??= { number: "", date: "", depth: 1 });
  /** The pages that are known: each with its address and the answer. */
  #pages = [];
  #shown = null;
  #trouble = new ProblemBox();
  #timer = null;
  /** Counts the loads: the answer of an older one is dropped. */
  #load = 0;
  #list = h("div", { class: "list", "aria-busy": "true" });
  #more = button("Show older orders", () => this.#deepen(), { hidden: true });
  #state = h("span", { class: "hint" }, "Loading…");

  constructor() {
    const refresh = button("Refresh", () => this.#refresh());
    this.element = h(
      "div",
      {},
      this.#form(),
      this.#trouble.element,
      h("div", { class: "bar" }, this.#state, refresh),
      this.#list,
      h("div", { class: "buttons" }, this.#more),
    );
    document.addEventListener("visibilitychange", this.#seen);
    this.#refresh();
  }

  dispose() {
    this.#load++;
    clearTimeout(this.#timer);
    document.removeEventListener("visibilitychange", this.#seen);
  }

  #seen = () => {
    if (document.hidden) clearTimeout(this.#timer);
    else this.#refresh();
  };

  #deepen() {
    this.#search.depth++;
    this.#refresh();
  }

  #form() {
    const { number: before, date: dayBefore } = this.#search;
    const number = h("input", { name: "file_number", dir: "auto", type: "search", maxlength: 100, value: before });
    const date = h("input", { name: "day", type: "date", value: dayBefore });
    const submit = (event) => {
      event.preventDefault();
      Object.assign(this.#search, { number: number.value.trim(), date: date.value, depth: 1 });
      this.#pages = [];
      this.#refresh(true);
    };
    return h(
      "form",
      { class: "card search", role: "search", novalidate: true, autocomplete: "off", submit },
      labelled("search-file-number", "File number", number, "The whole number, with its letter case"),
      labelled("search-day", "Created on (your time)", date),
      h("div", { class: "buttons" }, h("button", { class: "primary" }, "Search")),
    );
  }

  /** Loads the first pages again. */
  async #refresh(say = false) {
    clearTimeout(this.#timer);
    const load = ++this.#load;
    let wait = PERIOD;
    try {
      const loaded = await this.#read();
      if (load !== this.#load) return;
      this.#trouble.show(null);
      this.#state.textContent = `Refreshed at ${new Date().toLocaleTimeString("en-US")}`;
      this.#show(loaded, say);
    } catch (failure) {
      if (load !== this.#load) return;
      this.#trouble.show(failure);
      this.#list.removeAttribute("aria-busy");
      this.#state.textContent = "Not refreshed";
      // A key that does not work, or may not read, does not get better by itself.
      if ([400, 401, 403].includes(failure.status)) return;
      wait = Math.max(wait, failure.retryAfter);
    }
    if (!document.hidden) this.#timer = setTimeout(() => this.#refresh(), wait * 1000);
  }

  /** Reads pages, each of which leads to the next. A page that has not changed is not sent again. */
  async #read() {
    const { depth } = this.#search;
    const number = session.isService ? Math.max(depth, PAGES_FOR_NEW) : depth;
    const pages = [];
    let address = `api/order?${new URLSearchParams({ limit: PAGE, ...filterOf(this.#search) })}`;
    while (address && pages.length < number) {
      const known = this.#pages.find((page) => page.address === address);
      const headers = known ? { "if-none-match": known.tag } : {};
      const answer = await request(address, { headers });
      const page = answer.status === 304 ? known : pageOf(address, answer);
      pages.push(page);
      address = page.next;
    }
    return pages;
  }

  #show(pages, say) {
    const before = this.#shown;
    const { depth } = this.#search;
    // Older pages are read for their new orders only.
    const records = pages.flatMap((page, at) => (at < depth ? page.records : page.records.filter(isNew)));
    this.#pages = pages;
    this.#more.hidden = pages.length <= depth && !pages.at(-1).next;
    this.#list.removeAttribute("aria-busy");
    const searched = pages.at(-1).next && pages.reduce((sum, page) => sum + page.records.length, 0);
    const shown = JSON.stringify(records);
    if (say) announce(`${count(records.length, "order")} found.`);
    if (shown === before) return;
    this.#shown = shown;
    const known = new Set(before && JSON.parse(before).map((it) => it.order_id));
    const fresh = records.filter((it) => before && !known.has(it.order_id));
    if (!say && fresh.length) announce(`${count(fresh.length, "new order")}.`);
    renew(this.#list, this.#tables(records, searched));
  }

  /** Returns the tables. `searched` is the number of the orders that were read, if there are more. */
  #tables(records, searched) {
    if (!records.length) {
      const text = this.#search.number || this.#search.date
        ? "No order matches. File numbers are compared as a whole, with their letter case."
        : "There are no orders yet.";
      return h("p", { class: "card" }, text);
    }
    if (!session.isService) return ordersTable("Orders, newest first", records);
    const [fresh, others] = [records.filter(isNew), records.filter((it) => !isNew(it))];
    return [
      fresh.length
        ? ordersTable(`New orders: ${fresh.length}`, fresh)
        : h("p", { class: "card" }, searched ? `No new order among the newest ${searched}.` : "There is no new order."),
      fresh.length > 0 && searched && h("p", { class: "hint" }, `Found among the newest ${searched} orders.`),
      others.length > 0 && ordersTable("Other orders, newest first", others),
    ];
  }
}

const isNew = ({ order_status: status }) => status === "NEW";

/** Returns the parameters of a search. A day is that of the browser's time zone. */
function filterOf({ number, date }) {
  const filter = number ? { file_number: number } : {};
  if (!date) return filter;
  const [year, month, dayOfMonth] = date.split("-").map(Number);
  const midnight = (days) => new Date(year, month - 1, dayOfMonth + days).toISOString();
  return { ...filter, created_after: midnight(0), created_before: midnight(1) };
}

function pageOf(address, { headers, body }) {
  const next = nextPage(headers);
  return { address, tag: headers.get("etag"), records: body.data, next };
}

function ordersTable(caption, records) {
  const heads = ["File number", "Status", "Signer", "Signing", "Property", "Documents", "Created"];
  const cells = (order) => [
    h("a", { href: `#/order/${order.order_id}`, id: `order-${order.order_id}` }, said(order.file_number)),
    badge(order.order_status),
    said(order.signer_name),
    day(order.signing_date),
    said(order.property_address),
    String(order.documents_uploaded),
    instant(order.created_at),
  ];
  return h("div", { class: "card orders" }, table(caption, heads, records.map(cells)));
}
