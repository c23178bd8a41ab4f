// The work list: agendas of some days, new orders, and all orders. It refreshes itself. What it
// shows stands in its address.

import { ProblemBox } from "../shared/api.js";
import { Agenda } from "./agenda.js";
import { forgetErrors, showErrors } from "../shared/controls.js";
import { csvOf } from "./csv.js";
import { announce, button, count, fill, h, renew, save } from "../shared/dom.js";
import { Filters } from "./filters.js";
import { Pages, readAll } from "./pages.js";
import { Rows, ordersTable } from "./rows.js";
import { ADDRESS, VIEWS, addressOf, daysOf, filterOf, inView, isAgenda, isFiltered, isShort, searchOf } from "./search.js";
import { dateIn, dayHeading, dayInWords } from "../shared/times.js";
import { toast } from "../shared/toast.js";

/** Seconds between two refreshes. An unchanged page costs the service an answer without a body. */
const PERIOD = 10;

/** The address of the list that the user has seen last. */
let last = ADDRESS;

/** The address of the list in which the user has opened an order, and the id of its row. */
let opened = null;

/** Returns the address of the list as the user has seen it. */
export const listAddress = () => last;

/** Forgets the search. */
export function forgetSearch() {
  [last, opened] = [ADDRESS, null];
}

/** Returns the view of an address. */
export function orders(address) {
  const list = new OrderList(searchOf(address));
  return { title: "Orders", element: list.element, dispose: () => list.dispose() };
}

class OrderList {
  #search;
  #source;
  #shown = null;
  #seen = new Set();
  /** The last answer. */
  #loaded = { records: [] };
  #trouble = new ProblemBox();
  #timer = null;
  /** Counts the loads: the answer of an older one is dropped. */
  #load = 0;
  #isLoading = false;
  #filters;
  #views = h("nav", { class: "views", "aria-label": "Lists of orders" });
  #list = h("div", { class: "list", "aria-busy": "true" });
  #rows = new Rows(this.#list);
  #before = button("Show the orders before", () => this.#move("back"), { hidden: true });
  #more = button("", () => this.#move("forward"), { hidden: true });
  #fresh = h("div", { class: "fresh" });
  #count = h("p", { class: "count", id: "count" }, "Loading…");
  #elsewhere = h("span");
  #state = h("span", { class: "hint" });
  #csv = button("Download as CSV", () => this.#download(), { class: "quiet" });
  #observer = new IntersectionObserver((entries) => {
    // A search for a text reads many orders, so that only its user goes on with it.
    const isSeen = entries.some((it) => it.isIntersecting);
    if (isSeen && !this.#more.hidden && !this.#isLoading && !this.#search.search) this.#move("forward");
  });

  constructor(search) {
    this.#filters = new Filters(search, (it) => this.#begin(it));
    this.element = h(
      "div",
      { class: "work" },
      this.#views,
      this.#filters.element,
      this.#trouble.element,
      h(
        "div",
        { class: "bar" },
        h("div", { class: "row tools" }, this.#count, this.#elsewhere),
        h(
          "div",
          { class: "row tools" },
          this.#state,
          button("Refresh", () => this.#refresh(), { class: "quiet" }),
          this.#csv,
          button("Print", () => print(), { class: "quiet" }),
        ),
      ),
      h("div", { class: "buttons" }, this.#before),
      this.#fresh,
      this.#list,
      h("div", { class: "buttons" }, this.#more),
    );
    this.#list.addEventListener("click", ({ target }) => {
      const link = target.closest("tbody a");
      if (link) opened = { address: last, id: link.id };
    });
    document.addEventListener("visibilitychange", this.#appear);
    document.addEventListener("keydown", this.#press);
    this.#take(search);
    this.#refresh();
  }

  dispose() {
    this.#load++;
    clearTimeout(this.#timer);
    this.#observer.disconnect();
    document.removeEventListener("visibilitychange", this.#appear);
    document.removeEventListener("keydown", this.#press);
  }

  #appear = () => {
    if (document.hidden) clearTimeout(this.#timer);
    else if (!this.#search.search) this.#refresh();
  };

  /** The slash goes to the search, and the arrow down to the rows, unless the user types. */
  #press = (event) => {
    const { target, key } = event;
    const isFree = target === document.body || target.matches("h1, main");
    if (key === "ArrowDown" && (isFree || target.id === "search-text")) this.#rows.move(event);
    if (key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (target.closest("input, textarea, select, dialog, [contenteditable]")) return;
    event.preventDefault();
    this.#filters.focus();
  };

  /** Begins a search. */
  #take(search) {
    this.#search = search;
    [this.#shown, this.#seen] = [null, new Set()];
    last = addressOf(search);
    const { view, depth, from } = search;
    const progress = (number) => (this.#count.textContent = `Loading… ${count(number, "order")}`);
    this.#source = isAgenda(search)
      ? new Agenda(search, progress)
      : new Pages(filterOf(search), { oldestFirst: view === "new", depth, from });
    fill(this.#views, VIEWS.map(([name, title]) =>
      h("a", { href: addressOf(inView(search, name)), "aria-current": name === view && "page" }, title)));
    fill(this.#fresh);
  }

  /** Searches, and lets the browser's Back return to the search before. */
  #begin(search) {
    const address = addressOf(search);
    if (address !== location.hash) history.pushState(null, "", address);
    this.#take(search);
    this.#list.setAttribute("aria-busy", "true");
    this.#refresh("found");
  }

  #move(way) {
    this.#source[way]();
    this.#refresh("moved");
  }

  /** Loads the orders again. `reason` is what the user did: `found` for a search, `moved` for other orders. */
  async #refresh(reason) {
    clearTimeout(this.#timer);
    const load = ++this.#load;
    this.#isLoading = true;
    const begin = performance.now();
    let wait = PERIOD;
    try {
      const loaded = await this.#source.read({ isMove: reason === "moved" });
      if (load !== this.#load) return;
      this.#trouble.show(null);
      forgetErrors(this.#filters.element);
      this.#state.textContent = `Refreshed at ${new Date().toLocaleTimeString("en-US")}`;
      this.#show(loaded, reason);
      // Many changes take long to read. The page spends most of its time at rest.
      wait = Math.max(PERIOD, ((performance.now() - begin) / 1000) * 10);
    } catch (failure) {
      if (load !== this.#load) return;
      this.#trouble.show(failure);
      showErrors(this.#filters.element, failure.errors ?? []);
      this.#list.removeAttribute("aria-busy");
      this.#state.textContent = "Not refreshed";
      // A key that does not work, or may not read, does not get better by itself.
      if ([400, 401, 403].includes(failure.status)) return;
      wait = Math.max(wait, failure.retryAfter);
    } finally {
      if (load === this.#load) this.#isLoading = false;
    }
    // A text is searched in many orders, so that only its user repeats it.
    if (!document.hidden && !this.#search.search) this.#timer = setTimeout(() => this.#refresh(), wait * 1000);
  }

  #show(loaded, reason) {
    const { records, hasBefore, hasMore } = loaded;
    this.#loaded = loaded;
    this.#keepPlace();
    this.#before.hidden = !hasBefore;
    this.#more.hidden = !hasMore;
    this.#more.textContent = this.#moreLabel();
    this.#list.removeAttribute("aria-busy");
    const sentence = this.#sentence(loaded);
    this.#count.textContent = sentence;
    fill(this.#elsewhere, records.length > 0 && this.#allLink());
    if (reason === "found") announce(`${sentence}.`);
    if (reason === "moved") announce(`${count(records.length, "order")} shown.`);
    const shown = JSON.stringify([dateIn(0), records]);
    if (shown !== this.#shown) {
      const isFirst = this.#shown === null;
      this.#shown = shown;
      this.#keepStill(() => renew(this.#list, this.#content(loaded)));
      this.#rows.renew();
      this.#learn(records, isFirst || reason);
      if (isFirst) this.#returnToRow();
    }
    // Tells again whether the end of the list is in sight.
    this.#observer.disconnect();
    this.#observer.observe(this.#more);
  }

  /** Goes to the order that its user comes back from. */
  #returnToRow() {
    const isBack = opened?.address === last;
    const row = isBack ? document.getElementById(opened.id) : null;
    opened = null;
    row?.scrollIntoView({ block: "center" });
    row?.focus({ preventScroll: true });
  }

  /** Keeps in the address how far the user has gone. */
  #keepPlace() {
    const { depth, from } = this.#source;
    if (this.#search.depth === depth && this.#search.from === from) return;
    Object.assign(this.#search, { depth, from });
    last = addressOf(this.#search);
    history.replaceState(null, "", last);
  }

  #moreLabel() {
    const { view, search } = this.#search;
    if (search) return "Search further";
    return view === "all" ? "Show older orders" : "Show more orders";
  }

  /** Returns how many orders there are. */
  #sentence({ records, total }) {
    const { view } = this.#search;
    const days = isAgenda(this.#search) ? [...new Set(daysOf(this.#search))].map((it) => dayInWords(it)).join(" to ") : "";
    const noun = { new: "new order", all: "order" }[view] ?? "signing";
    const found = isFiltered(this.#search) ? " found" : "";
    const way = view === "new" ? ", oldest first" : ", newest first";
    if (total === null) {
      return records.length ? `${records.length} ${noun}s${found}${way}; more follow` : `No ${noun}${found} so far`;
    }
    const end = days ? `, ${days}` : total > 1 ? way : "";
    return `${total.toLocaleString("en-US")} ${noun}${total === 1 ? "" : "s"}${found}${end}`;
  }

  #content({ records, hasMore }) {
    if (!records.length) return h("p", { class: "card" }, this.#nothing(hasMore));
    if (!isAgenda(this.#search)) {
      const caption = { new: "New orders, oldest first", all: "Orders, newest first" }[this.#search.view];
      return h("div", { class: "card" }, ordersTable(caption, records, { withDay: true }));
    }
    const days = Map.groupBy(records, (order) => order.signing_date);
    return [...days].map(([date, those]) => {
      const number = count(those.length, "signing");
      const heading = h("h2", {}, dayHeading(date), h("span", { class: "hint" }, ` ${number}`));
      return h("section", { class: "card day" }, heading, ordersTable(`${dayHeading(date)}, ${number}`, those));
    });
  }

  /** Returns the link that searches the orders of all views; `null` if this view has them. */
  #allLink(attributes = {}) {
    if (this.#search.view === "all" || !isFiltered(this.#search)) return null;
    return h("a", { href: addressOf(inView(this.#search, "all")), ...attributes }, "Search all orders");
  }

  #nothing(hasMore) {
    const all = this.#allLink({ class: "button" });
    const link = all && h("span", { class: "buttons" }, all);
    if (hasMore) return ["No order matches so far. There are older ones: search further.", link];
    if (isShort(this.#search)) return ["No order matches. Enter 3 characters or more, or a whole file number.", link];
    if (isFiltered(this.#search)) return ["No order matches.", link];
    return {
      today: "There is no signing today.", tomorrow: "There is no signing tomorrow.", week: "There is no signing this week.", new: "There is no new order.",
      all: "There are no orders yet.",
    }[this.#search.view];
  }

  /** Renews the list, and keeps the row that the user reads where it is on the screen. */
  #keepStill(renewList) {
    const top = (link) => link.getBoundingClientRect().top;
    const { links } = this.#rows;
    const isSeen = (link) => link && top(link) >= 0 && top(link) < innerHeight;
    const { activeElement } = document;
    const kept = [links.find((it) => it === activeElement && isSeen(it)), ...links.filter(isSeen)].filter(Boolean);
    const places = kept.map((link) => [link.id, top(link)]);
    renewList();
    const place = places.find(([id]) => document.getElementById(id));
    if (!place) return;
    const link = document.getElementById(place[0]);
    const moved = top(link) - place[1];
    if (!moved) return;
    scrollBy(0, moved);
    const left = top(link) - place[1];
    if (left <= 0) return;
    // A short page has no place to scroll to.
    const missing = left + Math.max(0, innerHeight - document.body.offsetHeight);
    this.#list.style.paddingBottom = `${parseFloat(this.#list.style.paddingBottom || "0") + missing}px`;
    scrollBy(0, left);
  }

  /** Tells of orders that have come. A button leads to those above what the user reads. */
  #learn(records, isAsked) {
    const isNew = ({ order_id: id }) => !this.#seen.has(id);
    const added = isAsked ? [] : records.filter(isNew);
    for (const { order_id: id } of records) this.#seen.add(id);
    if (!added.length) return;
    const sentence = count(added.length, "new order");
    announce(`${sentence}.`);
    const [first] = added.map(({ order_id: id }) => document.getElementById(`order-${id}`));
    if (first.getBoundingClientRect().top >= 0) return;
    const go = () => {
      fill(this.#fresh);
      first.isConnected ? first.focus() : scrollTo(0, 0);
    };
    fill(this.#fresh, button(`Show ${sentence}`, go));
  }

  /** Saves every order that the list has, also those that it does not show. */
  async #download() {
    if (this.#csv.getAttribute("aria-disabled") === "true") return;
    this.#csv.setAttribute("aria-disabled", "true");
    try {
      const { view } = this.#search;
      const isWhole = this.#loaded.total === this.#loaded.records.length;
      const all = isWhole ? this.#loaded.records : await this.#all();
      save(csvOf(all), `orders-${view}-${dateIn(0)}.csv`);
      toast(`${count(all.length, "order")} saved as CSV.`);
    } catch (failure) {
      this.#trouble.show(failure);
    } finally {
      this.#csv.removeAttribute("aria-disabled");
    }
  }

  async #all() {
    if (isAgenda(this.#search)) return this.#source.all();
    const all = await readAll(filterOf(this.#search));
    return this.#search.view === "new" ? all.reverse() : all;
  }
}
