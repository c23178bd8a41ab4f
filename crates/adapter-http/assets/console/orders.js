// The list of orders. A signing service sees its new orders first. The list refreshes itself. What it shows
// stands in its address.

import { ProblemBox, nextPage, request, session } from "./api.js";
import { forgetErrors, showErrors } from "./controls.js";
import { announce, badge, button, count, day, h, instant, labelled, renew, said, table } from "./dom.js";
import { STATUSES } from "./words.js";

/** Seconds between two refreshes. An unchanged page costs the service an answer without a body. */
const PERIOD = 10;

/** Orders on a page. */
const PAGE = 100;

const ADDRESS = "#/orders";

/** Characters from which the service finds a part of a text. */
const PART = 3;

/** The texts of a search in the address, besides the statuses. */
const TEXTS = ["search", "signing_date_from", "signing_date_to", "created"];

/** The address of the list that the user has seen last. */
let last = ADDRESS;

/** Returns the address of the list as the user has seen it. */
export const listAddress = () => last;

/** Forgets the search. */
export function forgetSearch() {
  last = ADDRESS;
}

/** Returns the view of an address. */
export function orders(address) {
  const list = new OrderList(searchOf(address));
  return { title: "Orders", element: list.element, dispose: () => list.dispose() };
}

/** Returns the search of an address. */
function searchOf(address) {
  const parameters = new URLSearchParams(address.split("?")[1]);
  const texts = TEXTS.map((name) => [name, parameters.get(name) ?? ""]);
  const statuses = (parameters.get("order_status") ?? "").split(",").filter(Boolean);
  return { ...Object.fromEntries(texts), statuses, depth: Math.max(1, Number(parameters.get("pages")) || 1) };
}

/** Returns the address of a search. */
function addressOf({ statuses, depth, ...texts }) {
  const pages = depth > 1 ? depth : "";
  const all = Object.entries({ ...texts, order_status: statuses.join(","), pages });
  const parameters = new URLSearchParams(all.filter(([, value]) => value));
  return parameters.size ? `${ADDRESS}?${parameters}` : ADDRESS;
}

/** Returns the parameters of a search. A day is that of the browser's time zone. */
function filterOf({ search, statuses, created, ...dates }) {
  const filter = {
    search: search.length < PART ? "" : search,
    // What is shorter can only be a whole file number.
    file_number: search.length < PART ? search : "",
    order_status: statuses.join(","),
    signing_date_from: dates.signing_date_from,
    signing_date_to: dates.signing_date_to,
  };
  const [year, month, dayOfMonth] = created.split("-").map(Number);
  const midnight = (days) => new Date(year, month - 1, dayOfMonth + days);
  if (!Number.isNaN(midnight(0).getTime())) {
    filter.created_after = midnight(0).toISOString();
    filter.created_before = midnight(1).toISOString();
  }
  return Object.fromEntries(Object.entries(filter).filter(([, value]) => value));
}

/** Pages of orders, each of which leads to the next. */
class Pages {
  /** The pages that were read: each with its address and the answer. */
  #known = [];
  #first;
  depth;

  constructor(filter, depth = 1) {
    this.#first = `api/order?${new URLSearchParams({ limit: PAGE, ...filter })}`;
    this.depth = depth;
  }

  /** Reads the pages. One that has not changed is not sent again. Returns the orders, and whether there are more. */
  async read() {
    const pages = [];
    let address = this.#first;
    while (address && pages.length < this.depth) {
      const known = this.#known.find((page) => page.address === address);
      const headers = known ? { "if-none-match": known.tag } : {};
      const answer = await request(address, { headers });
      const page = answer.status === 304 ? known : pageOf(address, answer);
      pages.push(page);
      address = page.next;
    }
    this.#known = pages;
    return { records: pages.flatMap((page) => page.records), hasMore: Boolean(address) };
  }
}

class OrderList {
  #search;
  #orders;
  /** The new orders of a signing service, above all orders. */
  #fresh = null;
  #shown = null;
  #newest = null;
  #trouble = new ProblemBox();
  #timer = null;
  /** Counts the loads: the answer of an older one is dropped. */
  #load = 0;
  #searchForm = h("div");
  #list = h("div", { class: "list", "aria-busy": "true" });
  #more = button("", () => this.#deepen(this.#orders), { hidden: true });
  #state = h("span", { class: "hint" }, "Loading…");

  constructor(search) {
    const refresh = button("Refresh", () => this.#refresh());
    this.element = h(
      "div",
      {},
      this.#searchForm,
      this.#trouble.element,
      h("div", { class: "bar" }, this.#state, refresh),
      this.#list,
      h("div", { class: "buttons" }, this.#more),
    );
    document.addEventListener("visibilitychange", this.#seen);
    this.#take(search);
    this.#refresh();
  }

  dispose() {
    this.#load++;
    clearTimeout(this.#timer);
    document.removeEventListener("visibilitychange", this.#seen);
  }

  #seen = () => {
    if (document.hidden) clearTimeout(this.#timer);
    else if (!this.#search.search) this.#refresh();
  };

  get #isFiltered() {
    return Object.keys(filterOf(this.#search)).length > 0;
  }

  /** Begins a search. */
  #take(search) {
    this.#search = search;
    [this.#shown, this.#newest] = [null, null];
    last = addressOf(search);
    this.#orders = new Pages(filterOf(search), search.depth);
    this.#fresh = session.isService && !this.#isFiltered ? new Pages({ order_status: "NEW" }) : null;
    renew(this.#searchForm, this.#form());
  }

  /** Searches, and lets the browser's Back return to the search before. */
  #begin(search) {
    const address = addressOf(search);
    if (address !== location.hash) history.pushState(null, "", address);
    this.#take(search);
    this.#refresh("found");
  }

  #deepen(pages) {
    pages.depth++;
    if (pages === this.#orders) {
      this.#search.depth = pages.depth;
      last = addressOf(this.#search);
      history.replaceState(null, "", last);
    }
    this.#refresh("more");
  }

  #form() {
    const { search, statuses, signing_date_from: from, signing_date_to: to, created } = this.#search;
    const text = h("input", { name: "search", dir: "auto", type: "search", maxlength: 100, value: search });
    const date = (name, value) => h("input", { name, type: "date", value });
    const known = [...STATUSES, ...statuses.filter((it) => !STATUSES.includes(it))];
    const boxes = known.map((status) =>
      h("input", {
        type: "checkbox", name: "order_status", value: status, id: `search-${status}`,
        checked: statuses.includes(status),
      }),
    );
    const other = h("input", { name: "other_status", maxlength: 200, dir: "auto" });
    const submit = (event) => {
      event.preventDefault();
      const entered = new FormData(event.target);
      const texts = TEXTS.map((name) => [name, entered.get(name).trim()]);
      const others = entered.get("other_status").split(",").map((it) => it.trim());
      const chosen = [...new Set([...entered.getAll("order_status"), ...others])].filter(Boolean);
      this.#begin({ ...Object.fromEntries(texts), statuses: chosen, depth: 1 });
    };
    const clear = () => this.#begin(searchOf(ADDRESS));
    const choice = (box) => h("span", { class: "radio" }, box, h("label", { for: box.id }, box.value));
    const hint = "A part of the file number, a signer’s name or the property’s address: 3 characters or more";
    const hasMore = statuses.length > 0 || from || to || created;
    return h(
      "form",
      { class: "card search", role: "search", novalidate: true, autocomplete: "off", submit },
      labelled("search-text", "Search", text, hint, "search"),
      h(
        "div",
        { class: "buttons" },
        h("button", { class: "primary", id: "search-send" }, "Search"),
        this.#isFiltered && button("Show all orders", clear, { id: "search-clear" }),
      ),
      h(
        "details",
        { class: "wide", open: Boolean(hasMore) },
        h("summary", { id: "search-more" }, "By status and date"),
        h(
          "div",
          { class: "grid" },
          h(
            "div",
            { class: "wide", "data-pointer": "order_status" },
            h("fieldset", { class: "radios" }, h("legend", {}, "Status"), boxes.map(choice)),
            h("p", { class: "error" }),
          ),
          labelled("search-other", "Other status", other),
          labelled("search-from", "Signing from", date("signing_date_from", from), null, "signing_date_from"),
          labelled("search-to", "Signing until", date("signing_date_to", to), null, "signing_date_to"),
          labelled("search-day", "Created on (your time)", date("created", created)),
        ),
      ),
    );
  }

  /** Loads the pages again. `reason` is what the user did: `found` for a search, `more` for more orders. */
  async #refresh(reason) {
    clearTimeout(this.#timer);
    const load = ++this.#load;
    let wait = PERIOD;
    try {
      const fresh = await this.#fresh?.read();
      const loaded = await this.#orders.read();
      if (load !== this.#load) return;
      this.#trouble.show(null);
      forgetErrors(this.#searchForm);
      this.#state.textContent = `Refreshed at ${new Date().toLocaleTimeString("en-US")}`;
      this.#show(loaded, fresh, reason);
    } catch (failure) {
      if (load !== this.#load) return;
      this.#trouble.show(failure);
      showErrors(this.#searchForm, failure.errors ?? []);
      this.#list.removeAttribute("aria-busy");
      this.#state.textContent = "Not refreshed";
      // A key that does not work, or may not read, does not get better by itself.
      if ([400, 401, 403].includes(failure.status)) return;
      wait = Math.max(wait, failure.retryAfter);
    }
    // A text is searched in many orders, so that only its user repeats it.
    if (!document.hidden && !this.#search.search) this.#timer = setTimeout(() => this.#refresh(), wait * 1000);
  }

  #show(loaded, fresh, reason) {
    const { records, hasMore } = loaded;
    this.#more.hidden = !hasMore;
    this.#more.textContent = this.#search.search ? "Search further" : "Show older orders";
    this.#list.removeAttribute("aria-busy");
    const all = [...(fresh?.records ?? []), ...records];
    const found = records.length || !hasMore ? `${count(records.length, "order")} found` : "No order found so far";
    if (reason === "found") announce(`${found}.`);
    if (reason === "more") announce(`${count(records.length, "order")} shown.`);
    const shown = JSON.stringify([loaded, fresh]);
    if (shown === this.#shown) return;
    this.#shown = shown;
    const newest = Math.max(0, ...all.map((it) => it.order_id));
    const added = new Set(all.map((it) => it.order_id).filter((id) => id > this.#newest)).size;
    if (!reason && this.#newest !== null && added) announce(`${count(added, "new order")}.`);
    this.#newest = newest;
    renew(this.#list, fresh ? this.#ofService(loaded, fresh) : this.#table(loaded));
  }

  #table({ records, hasMore }) {
    if (records.length) {
      return ordersTable(this.#isFiltered ? "Orders that match, newest first" : "Orders, newest first", records);
    }
    let text = "There are no orders yet.";
    if (this.#isFiltered) text = "No order matches.";
    if (hasMore) text = "No order matches so far. There are older ones: search further.";
    return h("p", { class: "card" }, text);
  }

  /** Returns the new orders of a signing service, and then the others. */
  #ofService({ records, hasMore }, fresh) {
    const isShown = new Set(fresh.records.map((it) => it.order_id));
    const others = records.filter((it) => it.order_status !== "NEW" && !isShown.has(it.order_id));
    if (!fresh.records.length && !records.length) return this.#table({ records, hasMore });
    const number = `${fresh.records.length}${fresh.hasMore ? " of more" : ""}`;
    const more = button("Show more new orders", () => this.#deepen(this.#fresh), { id: "more-new" });
    const none = hasMore ? h("p", { class: "card" }, "No other order among the newest. Show older orders.") : null;
    return [
      fresh.records.length
        ? ordersTable(`New orders: ${number}`, fresh.records, fresh.hasMore && more)
        : h("p", { class: "card" }, "There is no new order."),
      others.length ? ordersTable("Other orders, newest first", others) : none,
    ];
  }
}

function pageOf(address, { headers, body }) {
  const next = nextPage(headers);
  return { address, tag: headers.get("etag"), records: body.data, next };
}

function ordersTable(caption, records, more) {
  const side = session.isService ? "Client" : "Signing service";
  const heads = ["File number", "Status", "Signer", "Signing", "Property", side, "Notary", "Documents", "Created"];
  const other = session.isService
    ? (it) => said(it.client_name ?? "no name")
    : (it) => said(it.signing_service_name ?? `Number ${it.signing_service_id}`);
  const cells = (order) => [
    h("a", { href: `#/order/${order.order_id}`, id: `order-${order.order_id}` }, said(order.file_number)),
    badge(order.order_status),
    said(order.signer_name),
    day(order.signing_date),
    said(order.property_address),
    other(order),
    said(order.notary?.name ?? order.notary_id ?? "none"),
    `${order.documents_uploaded}${order.signed_documents_uploaded ? `, ${order.signed_documents_uploaded} signed` : ""}`,
    instant(order.created_at),
  ];
  return h("div", { class: "card orders" }, table(caption, heads, records.map(cells)), more);
}
