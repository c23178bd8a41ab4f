// The work list: what needs attention, agendas of some days, new and changed orders, and all orders. It refreshes
// itself. What it shows stands in its address.

import { ProblemBox, session } from "../shared/api.js";
import { countAttention, inFew, lastCount } from "./attention.js";
import { Choice, assignAll, confirmAll, mayCarryOut } from "./choice.js";
import { forgetErrors, showErrors } from "../shared/controls.js";
import { csvOf } from "./csv.js";
import { announce, ask, button, count, fill, h, renew, save } from "../shared/dom.js";
import { Filters } from "./filters.js";
import { soundButton } from "./news.js";
import { markOpened } from "../shared/opened.js";
import { Pages, Sorted, readAll, walk } from "./pages.js";
import { Rows, comparison, ordersTable } from "./rows.js";
import {
  ADDRESS, SINCE, VIEWS, addressOf, daysOf, filterOf, inView, isAgenda, isFiltered, isShort, searchOf, sinceInWords,
} from "./search.js";
import { dateIn, dayHeading, dayInWords } from "../shared/times.js";
import { toast } from "../shared/toast.js";
import { ATTENTION, CANCELLED, lateOf } from "../shared/words.js";

/**
 * Seconds between two refreshes: of pages, an unchanged one of which costs the service an answer without a body; of
 * what is read whole; and of what is counted.
 */
const [PERIOD, SORTED_PERIOD, COUNT_PERIOD] = [10, 60, 60];

/** Signings that are counted for the totals of an agenda. */
const MOST_COUNTED = 20_000;

/** Orders on a printed sheet. */
const ON_SHEET = 38;

/** Orders of a CSV, and of a printed list: the page keeps them all. */
const [MOST_SAVED, MOST_PRINTED] = [5_000, 2_000];

/** The address of the list that the user has seen last, and its orders. */
let last = ADDRESS;
let listed = [];

/** The address of the list in which the user has opened an order, and the id of its row. */
let opened = null;

/** Returns the address of the list as the user has seen it. */
export const listAddress = () => last;

/** Returns the orders beside one in the list that the user has seen, its place there, and how many there are. */
export function neighbours(id) {
  const at = listed.indexOf(String(id));
  return at < 0 ? {} : { before: listed[at - 1], after: listed[at + 1], at: at + 1, number: listed.length };
}

/** Forgets the search. */
export function forgetSearch() {
  [last, opened, listed] = [ADDRESS, null, []];
}

/** Shows the newest orders, and goes to one of them. */
export function showNewest(id) {
  const address = addressOf({ ...searchOf(ADDRESS), view: "all" });
  opened = { address, id: `order-${id}` };
  if (location.hash === address) dispatchEvent(new Event("hashchange"));
  else location.hash = address;
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
  /** The last answer. */
  #loaded = { records: [] };
  /** The signings of each day of an agenda that is not shown whole, and the cancelled ones; `null` if not counted. */
  #days = null;
  #trouble = new ProblemBox();
  #timer = null;
  #counting = null;
  /** Counts the loads, and the counts of what needs attention: the answer of an older one is dropped. */
  #load = 0;
  #countings = 0;
  #isLoading = false;
  #filters;
  #choice = new Choice();
  #views = h("nav", { class: "views", "aria-label": "Lists of orders" });
  #part = h("div");
  #list = h("div", { class: "list", "aria-busy": "true" });
  #rows = new Rows(this.#list);
  #before = button("Show the orders before", () => this.#move("back"), { hidden: true });
  #more = button("", () => this.#move("forward"), { hidden: true });
  #count = h("p", { class: "count", id: "count" }, "Loading…");
  #elsewhere = h("span");
  #state = h("span", { class: "hint" });
  #csv = button("Download as CSV", () => this.#download(), { class: "quiet" });
  #tools = h("div", { class: "row tools" });
  #usual = [
    this.#state,
    button("Refresh", () => this.#refresh("asked"), { class: "quiet" }),
    soundButton(),
    this.#csv,
    button("Print", () => this.#print(), { class: "quiet" }),
  ];
  #observer = new IntersectionObserver((entries) => {
    // A search for a text reads many orders, so that only its user goes on with it.
    const isSeen = entries.some((it) => it.isIntersecting);
    const isOfUser = this.#search.search || this.#loaded.isSparse;
    if (isSeen && !this.#more.hidden && !this.#isLoading && !isOfUser) this.#move("forward");
  });

  constructor(search) {
    this.#filters = new Filters(search, (it) => this.#begin(it));
    this.element = h(
      "div",
      { class: "work" },
      this.#views,
      this.#filters.element,
      this.#trouble.element,
      this.#part,
      h("div", { class: "bar" }, h("div", { class: "row tools" }, this.#count, this.#elsewhere), this.#tools),
      h("div", { class: "buttons" }, this.#before),
      this.#list,
      h("div", { class: "buttons" }, this.#more),
    );
    this.#list.addEventListener("click", ({ target }) => {
      const link = target.closest("a.order");
      if (link) opened = { address: last, id: link.id };
    });
    this.#choice.onchange = () => this.#showTools();
    document.addEventListener("visibilitychange", this.#appear);
    document.addEventListener("keydown", this.#press);
    this.#showTools();
    this.#take(search);
    this.#refresh();
    this.#countAttention();
  }

  dispose() {
    this.#load++;
    clearTimeout(this.#timer);
    clearTimeout(this.#counting);
    this.#observer.disconnect();
    document.removeEventListener("visibilitychange", this.#appear);
    document.removeEventListener("keydown", this.#press);
  }

  /** A hidden list asks for nothing: the number of new orders is in the title. */
  #appear = () => {
    clearTimeout(this.#counting);
    if (document.hidden) return clearTimeout(this.#timer);
    this.#countAttention();
    if (!this.#search.search) this.#refresh();
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
    this.#filters.take(search);
    [this.#shown, this.#days] = [null, null];
    last = addressOf(search);
    const { view, depth, from, sort } = search;
    const progress = (number) => (this.#count.textContent = `Loading… ${count(number, "order")}`);
    const isByTime = sort.replace("-", "") === "time";
    if (view === "changed" || (this.#isFlat && sort && !isByTime)) {
      this.#source = new Sorted(() => filterOf(search), comparison(sort || "-changed"), progress);
    } else {
      const order = this.#isFlat && isByTime ? { order_by: "appointment" } : {};
      const oldestFirst = isByTime ? sort.startsWith("-") : view === "new";
      this.#source = new Pages({ ...filterOf(search), ...order }, { oldestFirst, depth, from });
    }
    this.#showViews();
    this.#choice.clear();
  }

  /** Whether the view is one table, which its user may sort. */
  get #isFlat() {
    return !isAgenda(this.#search) && this.#search.view !== "attention";
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

  /** Shows the views, with the number of orders that need attention, and the parts of the one that is shown. */
  #showViews() {
    const search = this.#search;
    const { byCode, ...counted } = lastCount();
    const number = (counted.total > 0 || !counted.isWhole) && h("span", { class: "number" }, " ", inFew(counted));
    renew(this.#views, VIEWS.map(([name, title]) =>
      h(
        "a",
        { href: addressOf(inView(search, name)), "aria-current": name === search.view && "page", id: `view-${name}` },
        title,
        name === "attention" && number,
      )));
    const part = (label, isOn, id, changed) =>
      button(label, () => this.#begin({ ...search, ...changed, depth: 1, from: "" }), {
        class: "chip", "aria-pressed": String(isOn), id,
      });
    const codes = () => [
      part("All", !search.code, "code-all", { code: "" }),
      ATTENTION.filter(([code]) => byCode.has(code) || code === search.code).map(([code, , text]) =>
        part(`${text} ${byCode.get(code) ?? 0}`, search.code === code, `code-${code}`, { code })),
    ];
    const days = () => [
      SINCE.map(([value, , text]) => part(text, search.since === value, `since-${value}`, { since: value })),
      button("Mark all as opened", () => this.#markAll(), { class: "quiet", id: "mark-opened" }),
    ];
    const content = { attention: codes, changed: days }[search.view]?.();
    const name = search.view === "attention" ? "What is wrong" : "Since";
    renew(this.#part, content ? h("div", { class: "chips part", role: "group", "aria-label": name }, content) : []);
  }

  #markAll() {
    markOpened(this.#source.all(Infinity).orders);
    this.#shown = null;
    this.#refresh("asked");
  }

  /** Counts what needs attention, again and again. The list itself says what goes wrong. */
  async #countAttention() {
    const load = ++this.#countings;
    const textOf = ({ byCode, total, isWhole }) => JSON.stringify([...byCode, total, isWhole]);
    const [before, begin] = [textOf(lastCount()), performance.now()];
    try {
      const counted = await countAttention();
      if (load === this.#countings && before !== textOf(counted)) this.#showViews();
    } catch {
      // The number of the time before stays.
    }
    const isLast = load === this.#countings && !document.hidden && this.element.isConnected;
    const wait = Math.max(COUNT_PERIOD, atRest(begin));
    if (isLast) this.#counting = setTimeout(() => this.#countAttention(), wait * 1000);
  }

  /**
   * Loads the orders again. `reason` is what the user did: `found` for a search, `moved` for other orders, `asked` for
   * the same ones.
   */
  async #refresh(reason) {
    clearTimeout(this.#timer);
    const load = ++this.#load;
    this.#isLoading = true;
    const begin = performance.now();
    let wait = this.#source instanceof Sorted ? SORTED_PERIOD : PERIOD;
    try {
      const loaded = await this.#source.read({ isMove: reason === "moved" });
      if (load !== this.#load) return;
      this.#trouble.show(null);
      forgetErrors(this.#filters.element);
      this.#state.textContent = `Refreshed at ${new Date().toLocaleTimeString("en-US")}`;
      this.#show(loaded, reason);
      if (reason === "asked") this.#countAttention();
      wait = Math.max(wait, atRest(begin));
      this.#countDays(load, reason);
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

  /** Counts the signings of the days of an agenda that is not shown whole, at most once a minute. */
  async #countDays(load, reason) {
    if (!isAgenda(this.#search) || this.#loaded.total !== null) return;
    const isRecent = this.#days && Date.now() - this.#days.at < COUNT_PERIOD * 1000;
    if (isRecent && reason !== "asked") return;
    const search = this.#search;
    const days = { at: Date.now(), byDate: new Map(), number: 0, cancelled: 0 };
    this.#days ??= { ...days, isCounting: true };
    this.#days.at = days.at;
    try {
      await walk(filterOf(search), (page) => {
        tally(days, page);
        return search === this.#search && days.number + days.cancelled < MOST_COUNTED;
      });
    } catch {
      // The next refresh counts again.
      this.#days = null;
      return;
    }
    if (search !== this.#search || !this.element.isConnected) return;
    this.#days = days;
    this.#shown = null;
    this.#show(this.#loaded, "counted");
  }

  #show(loaded, reason) {
    const { records, hasBefore, hasMore } = loaded;
    this.#loaded = loaded;
    listed = records.map((it) => String(it.order_id));
    this.#choice.learn(records);
    this.#filters.offer(records);
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
      const renewList = () => renew(this.#list, this.#content(loaded));
      // Another search or sort begins at its first row, below the heads of the columns.
      if (reason === "found") {
        this.#list.style.paddingBottom = "";
        renewList();
      } else {
        this.#keepStill(renewList);
      }
      this.#rows.renew();
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
    const { view, search, sort } = this.#search;
    if (search || this.#loaded.isSparse) return "Search further";
    return view === "all" && !sort ? "Show older orders" : "Show more orders";
  }

  /** Returns in which order the orders are. */
  get #way() {
    const { view, sort } = this.#search;
    if (!this.#isFlat) return ", by time";
    if (sort) return ", sorted";
    return { new: ", oldest first", changed: ", last change first" }[view] ?? ", newest first";
  }

  /** Returns how many orders there are. A cancelled signing is none. */
  #sentence({ records, total }) {
    const { view } = this.#search;
    const found = isFiltered(this.#search) ? " found" : "";
    if (isAgenda(this.#search)) {
      const days = [...new Set(daysOf(this.#search))].map((it) => dayInWords(it)).join(" to ");
      const all = total === null ? this.#days : tally({ byDate: new Map(), number: 0, cancelled: 0 }, records);
      if (!all || all.isCounting) return `${records.length} signings${found} so far, ${days}; counting…`;
      return `${signings(all)}${found}, ${days}`;
    }
    const noun = { new: "new order", changed: "changed order" }[view] ?? "order";
    if (total === null) {
      return records.length ? `${records.length} ${noun}s${found}${this.#way}; more follow` : `No ${noun}${found} so far`;
    }
    const end = view === "changed" ? ` ${sinceInWords(this.#search)}` : "";
    return `${total.toLocaleString("en-US")} ${noun}${total === 1 ? "" : "s"}${found}${end}${total > 1 ? this.#way : ""}`;
  }

  #content({ records, hasMore }) {
    if (!records.length) return h("p", { class: "card" }, this.#nothing(hasMore));
    if (this.#isFlat) {
      const { view, sort: key } = this.#search;
      const caption = { new: "New orders", changed: "Changed orders" }[view] ?? "Orders";
      const set = (sort) => this.#begin({ ...this.#search, sort, depth: 1, from: "" });
      const sort = { key: key || (view === "changed" ? "-changed" : ""), set };
      const options = { withDay: true, ofChanges: view === "changed", choice: this.#choice, sort };
      return h("div", { class: "card" }, ordersTable(`${caption}${this.#way}`, records, options));
    }
    if (!isAgenda(this.#search)) return groupsOf(this.#loaded, this.#choice);
    const isOnly = new Set(daysOf(this.#search)).size === 1;
    const days = Map.groupBy(records, (order) => order.signing_date);
    const tables = [...days].map(([date, those], at) => {
      const isWhole = this.#loaded.total !== null;
      const all = isWhole ? tally({ byDate: new Map(), number: 0, cancelled: 0 }, those) : this.#days?.byDate.get(date);
      const number = all ? signings(all) : "counting…";
      const heading = h("h2", { class: isOnly && "unseen" }, dayHeading(date), h("span", { class: "hint" }, ` ${number}`));
      const group = isOnly ? {} : { heading, among: records, isFirst: at === 0 };
      return [isOnly && heading, ordersTable(`${dayHeading(date)}, ${number}`, those, { choice: this.#choice, ...group })];
    });
    return h("div", { class: "card day" }, tables);
  }

  /** Returns the link that searches the orders of all views; `null` if this view has them. */
  #allLink(attributes = {}) {
    if (this.#search.view === "all" || !isFiltered(this.#search)) return null;
    return h("a", { href: addressOf(inView(this.#search, "all")), ...attributes }, "Search all orders");
  }

  #nothing(hasMore) {
    const all = this.#allLink({ class: "button" });
    const link = all && h("span", { class: "buttons" }, all);
    if (hasMore) return ["No order matches so far. There are others: search further.", link];
    if (isShort(this.#search)) return ["No order matches. Enter 3 characters or more, or a whole file number.", link];
    if (isFiltered(this.#search)) return ["No order matches.", link];
    return {
      attention: "Nothing needs attention.", today: "There is no signing today.", tomorrow: "There is no signing tomorrow.",
      week: "There is no signing in the next 7 days.", new: "There is no new order.",
      changed: `No order was changed ${sinceInWords(this.#search)}.`, all: "There are no orders yet.",
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

  /** Shows what can be done: with the chosen orders, if there are any, or with the list. */
  #showTools() {
    const { orders } = this.#choice;
    if (!orders.length) return renew(this.#tools, this.#usual);
    const done = async () => {
      this.#choice.clear();
      await this.#refresh("asked");
      focusFirst(this.#list);
    };
    const may = mayCarryOut();
    renew(this.#tools, [
      h("strong", { class: "chosen" }, `${orders.length} chosen`),
      may && button("Assign a notary", () => assignAll(this.#choice.orders, done), { class: "primary", id: "chosen-assign" }),
      may && button("Confirm", () => confirmAll(this.#choice.orders, done), { id: "chosen-confirm" }),
      button("Download as CSV", () => this.#download(), { id: "chosen-csv" }),
      button("Print", () => this.#print(), { id: "chosen-print" }),
      button("Choose none", () => this.#choice.clear(), { class: "quiet", id: "chosen-none" }),
    ].filter(Boolean));
  }

  /** Saves the chosen orders, or every order that the list has, also those that it does not show. */
  async #download() {
    if (this.#csv.getAttribute("aria-disabled") === "true") return;
    this.#csv.setAttribute("aria-disabled", "true");
    try {
      const { view } = this.#search;
      const { orders: all, isWhole } = await this.#all(MOST_SAVED);
      const question = { title: `Save ${count(all.length, "order")}?`, lines: [MORE_FOLLOW], confirm: "Save" };
      if (!isWhole && !(await ask(question))) return;
      const progress = (number) => (this.#state.textContent = `Reading ${number} of ${all.length}…`);
      const { csv, number } = await csvOf(all, progress);
      save(csv, `orders-${view}-${dateIn(0)}.csv`);
      this.#state.textContent = "";
      toast(`${count(number, "order")} saved as CSV.${isWhole ? "" : ` ${MORE_FOLLOW}`}`);
    } catch (failure) {
      this.#trouble.show(failure);
    } finally {
      this.#csv.removeAttribute("aria-disabled");
    }
  }

  /** Prints the chosen orders, or the whole list, also what it does not show. */
  async #print() {
    try {
      const { orders: all, isWhole } = await this.#all(MOST_PRINTED);
      const sheets = Math.ceil(all.length / ON_SHEET);
      const title = `Print ${count(all.length, "order")}?`;
      const lines = [`They take about ${sheets} pages.`, !isWhole && MORE_FOLLOW].filter(Boolean);
      if (sheets > 1 && !(await ask({ title, lines, confirm: "Print" }))) return;
      const isShown = all.length === this.#loaded.records.length && !this.#choice.orders.length;
      if (isShown) return print();
      const caption = `${count(all.length, "order")}${isWhole ? "" : " of more"}, ${dayInWords(dateIn(0))}`;
      const sheet = h("div", { class: "printout" }, h("h2", {}, caption), ordersTable(caption, all, { withDay: true }));
      // The rows of the list have the same ids.
      for (const it of sheet.querySelectorAll("[id]")) it.removeAttribute("id");
      this.element.append(sheet);
      addEventListener("afterprint", () => sheet.remove(), { once: true });
      print();
    } catch (failure) {
      this.#trouble.show(failure);
    }
  }

  /** Returns the chosen orders, or those that the list has, up to a number, and whether they are all. */
  async #all(most) {
    const ofChoice = this.#choice.orders;
    if (ofChoice.length) return { orders: ofChoice.slice(0, most), isWhole: ofChoice.length <= most };
    if (this.#loaded.total === this.#loaded.records.length) return { orders: this.#loaded.records, isWhole: true };
    if (this.#source instanceof Sorted) return this.#source.all(most);
    const { view, sort } = this.#search;
    const isByTime = this.#isFlat && sort.replace("-", "") === "time";
    const order = isByTime ? { order_by: "appointment" } : {};
    const read = await readAll({ ...filterOf(this.#search), ...order }, most);
    if ((view === "new" && !isByTime) || sort === "-time") read.orders.reverse();
    return read;
  }
}

const MORE_FOLLOW = "The list has more: filter it by dates, for example, to get the others.";

/** Returns the seconds after which work that began at an instant is repeated: the page spends most of its time at rest. */
const atRest = (begin) => ((performance.now() - begin) / 1000) * 10;

/** Counts orders by their days. */
function tally(days, orders) {
  for (const { signing_date: date, order_status: status } of orders) {
    const day = days.byDate.get(date) ?? { number: 0, cancelled: 0 };
    const kind = status === CANCELLED ? "cancelled" : "number";
    day[kind]++;
    days[kind]++;
    days.byDate.set(date, day);
  }
  return days;
}

/** Returns how many signings there are; the cancelled ones apart. */
function signings({ number, cancelled }) {
  const text = `${number.toLocaleString("en-US")} signing${number === 1 ? "" : "s"}`;
  return cancelled ? `${text} and ${cancelled.toLocaleString("en-US")} cancelled` : text;
}

/** Returns the orders that need attention by what is most urgent at each, with what to do. */
function groupsOf({ records, total }, choice) {
  const codeOf = (order) => lateOf(order)[0]?.[0];
  const groups = Map.groupBy(records, codeOf);
  const late = ATTENTION.filter(([code]) => groups.has(code));
  const tables = late.map(([code, sentence, , ofService, ofClient], at) => {
    const those = groups.get(code);
    const number = total === null ? `${those.length} shown` : count(those.length, "order");
    const heading = [
      h("h2", {}, sentence, h("span", { class: "hint" }, ` ${number}`)),
      h("p", { class: "todo" }, session.isService ? ofService : ofClient),
    ];
    const group = { heading, group: code, among: records, isFirst: at === 0 };
    return ordersTable(sentence, those, { withDay: true, withPhone: true, choice, ...group });
  });
  return h("div", { class: "card day" }, tables);
}

/** Moves the focus to the first row of a list. */
const focusFirst = (list) => (list.querySelector("a.order") ?? document.querySelector("main h1")).focus();
