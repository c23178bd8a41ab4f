// Pages of orders as the service has them. So many are kept that the memory of the tab stays bounded.

import { Failure, request } from "../shared/api.js";

/** Orders on a page. */
const PAGE = 100;

/** Pages that a list shows at once. */
const SHOWN = 5;

/** Pages without an order that are passed at once: a page of a filter looks at a limited number of orders. */
const MOST_EMPTY = 10;

/** A cursor in the address of a list: its name, the order, and the start that the order had in an agenda. */
const CURSOR = /^(starting_after|ending_before)\.(\d+)(?:\.([\dT:.Z-]+))?$/;

/** Attempts to read a page of many, while the service is busy. */
const ATTEMPTS = 5;

/** Orders that a list keeps to sort them. */
const MOST_SORTED = 20_000;

const link = (headers, relation) =>
  new RegExp(`<([^>]*)>; *rel="${relation}"`).exec(headers.get("link") ?? "")?.[1];

const addressOf = (filter) => `api/order?${new URLSearchParams({ limit: PAGE, ...filter })}`;

/**
 * Gives every order that matches to `take`, in pages. It ends early if that returns `false`. Returns whether it has come
 * to the end.
 */
export async function walk(filter, take) {
  for (let address = addressOf(filter); address; ) {
    const here = address;
    const { body, headers } = await patiently(() => request(here));
    address = link(headers, "next");
    if (take(body.data) === false) return !address;
  }
  return true;
}

/** Reads the first orders that match, up to a number. Returns also whether they are all. */
export async function readAll(filter, most) {
  const orders = [];
  const isWhole = await walk(filter, (page) => {
    orders.push(...page.map(slim));
    return orders.length < most;
  });
  return { orders: orders.slice(0, most), isWhole: isWhole && orders.length <= most };
}

/** Does something, again after a while if the service is busy. */
export async function patiently(run, attempt = 1) {
  try {
    return await run();
  } catch (failure) {
    const isBusy = failure instanceof Failure && [429, 503].includes(failure.status);
    if (!isBusy || attempt === ATTEMPTS) throw failure;
    await new Promise((resolve) => setTimeout(resolve, Math.max(1, failure.retryAfter) * 1000));
    return patiently(run, attempt + 1);
  }
}

/** A window of pages, each of which leads to the next. */
export class Pages {
  /** The pages that were read: each with its address and the answer. */
  #known = [];
  #start;
  #oldestFirst;
  #mostEmpty;
  depth;

  /** `from` is the cursor of the first page as {@link from} returns it. */
  constructor(filter, { oldestFirst = false, depth = 1, from = "" } = {}) {
    const [, name, id, at] = CURSOR.exec(from) ?? [];
    // Newer than 0 are all orders: the page has the oldest ones.
    const first = oldestFirst ? { ending_before: 0 } : {};
    this.#start = addressOf({ ...filter, ...(name ? { [name]: id, ...(at && { at }) } : first) });
    // A search for a text reads many orders, so that only its user goes on with it.
    this.#mostEmpty = filter.search ? 0 : MOST_EMPTY;
    this.#oldestFirst = oldestFirst;
    this.depth = Math.min(depth, SHOWN);
  }

  /** Returns the cursor of the first page; empty at the beginning. */
  get from() {
    if (!this.#known[0]?.before) return "";
    const parameters = new URLSearchParams(this.#start.split("?")[1]);
    const name = ["starting_after", "ending_before"].find((it) => parameters.has(it));
    return name ? [name, parameters.get(name), parameters.get("at")].filter(Boolean).join(".") : "";
  }

  /**
   * Reads the pages. One that has not changed is not sent again. `isSparse`: orders follow, and the last pages had none,
   * so that only the user goes on.
   */
  async read() {
    const pages = [];
    let address = this.#start;
    let empty = 0;
    while (address && pages.length < this.depth + empty) {
      const known = this.#known.find((page) => page.address === address);
      const headers = known ? { "if-none-match": known.tag } : {};
      const answer = await request(address, { headers });
      const page = answer.status === 304 ? known : this.#pageOf(address, answer);
      pages.push(page);
      address = page.after;
      if (!page.records.length && empty < this.#mostEmpty) empty++;
    }
    this.#known = pages;
    const records = pages.flatMap((page) => page.records);
    const [hasBefore, hasMore] = [Boolean(pages[0].before), Boolean(address)];
    const isSparse = hasMore && !pages.at(-1).records.length;
    return { records, hasBefore, hasMore, isSparse, total: hasBefore || hasMore ? null : records.length };
  }

  #pageOf(address, { headers, body }) {
    const [next, prev] = [link(headers, "next"), link(headers, "prev")];
    const [before, after] = this.#oldestFirst ? [next, prev] : [prev, next];
    const records = this.#oldestFirst ? body.data.toReversed() : body.data;
    return { address, tag: headers.get("etag"), records, before, after };
  }

  /** Shows one page more. The first one goes when there are too many. */
  forward() {
    if (this.depth < SHOWN) this.depth++;
    else this.#start = this.#known[1]?.address ?? this.#start;
  }

  /** Shows the page before the first one. */
  back() {
    this.#start = this.#known[0]?.before ?? this.#start;
    this.depth = Math.min(this.depth + 1, SHOWN);
  }
}

/** All orders of a search in an order that the service does not have. It shows a window of them, too. */
export class Sorted {
  #filter;
  #compare;
  #progress;
  #orders = [];
  #isWhole = true;
  #first = 0;
  depth = 1;
  from = "";

  /** `filter` returns the parameters, `compare` compares two orders, `progress` gets the number of orders so far. */
  constructor(filter, compare, progress) {
    [this.#filter, this.#compare, this.#progress] = [filter, compare, progress];
  }

  /** Reads all orders; those that it knows are enough to move. */
  async read({ isMove = false } = {}) {
    if (!isMove || !this.#orders.length) {
      const orders = [];
      this.#isWhole = await walk(this.#filter(), (page) => {
        orders.push(...page.map(slim));
        this.#progress(orders.length);
        return orders.length < MOST_SORTED;
      });
      this.#orders = orders.sort(this.#compare);
    }
    const shown = PAGE * SHOWN;
    this.#first = Math.max(0, Math.min(this.#first, this.#orders.length - 1));
    const records = this.#orders.slice(this.#first, this.#first + shown);
    const hasMore = this.#orders.length > this.#first + shown;
    return { records, hasBefore: this.#first > 0, hasMore, total: this.#orders.length };
  }

  /** Returns the first orders, up to a number, and whether they are all. */
  all(most) {
    return { orders: this.#orders.slice(0, most), isWhole: this.#isWhole && this.#orders.length <= most };
  }

  forward() {
    this.#first += PAGE * SHOWN;
  }

  back() {
    this.#first = Math.max(0, this.#first - PAGE * SHOWN);
  }
}

/** Returns an order without what no list shows. */
function slim({ property_address: _, client_company_id: __, calendar_uid: ___, invoice_fee: ____, notary_pay: _____, ...order }) {
  return order;
}
