// The agenda: the signings of some days in the order of their times, read whole and then kept current.

import { readAll } from "./pages.js";
import { daysOf, filterOf } from "./search.js";

/** Signings that the page shows at once. */
const SHOWN = 500;

/** Milliseconds that a change may take to show, and the age at which everything is read again. */
const [OVERLAP, MAX_AGE] = [300_000, 3_600_000];

export class Agenda {
  #search;
  #progress;
  #orders = new Map();
  #days = "";
  #readAt = 0;
  #since = 0;
  #first = 0;
  /** An agenda begins at its first day when it is opened again. */
  depth = 1;
  from = "";

  /** `progress` gets the number of orders that were read so far. */
  constructor(search, progress) {
    [this.#search, this.#progress] = [search, progress];
  }

  /** Reads all signings, or those that have changed since the last read. Those that it knows are enough to move. */
  async read({ isMove = false } = {}) {
    if (isMove && this.#since) return this.#shown();
    const days = daysOf(this.#search);
    const now = Date.now();
    const isOld = now - this.#readAt > MAX_AGE || this.#days !== String(days);
    // A search for a text is asked again as it is, and without an order there is no instant to begin at.
    if (isOld || this.#search.search || !this.#since) {
      const { order_status, created_after, created_before, ...filter } = filterOf(this.#search);
      this.#orders = byId(this.#seen(await readAll(filter, this.#progress)));
      [this.#days, this.#readAt] = [String(days), now];
    } else {
      const since = new Date(this.#since - OVERLAP).toISOString();
      for (const order of this.#seen(await readAll({ updated_after: since }))) {
        const isIn = days[0] <= order.signing_date && order.signing_date <= days[1];
        if (isIn) this.#orders.set(order.order_id, order);
        else this.#orders.delete(order.order_id);
      }
    }
    return this.#shown();
  }

  /** Learns the last change by the clock of the service: that of the browser may be wrong. */
  #seen(orders) {
    for (const order of orders) this.#since = Math.max(this.#since, Date.parse(order.updated_at));
    return orders;
  }

  /** Returns all signings that were read. */
  all() {
    return [...this.#orders.values()].filter((order) => this.#matches(order)).sort(byTime);
  }

  #shown() {
    const all = this.all();
    this.#first = Math.max(0, Math.min(this.#first, all.length - 1));
    const records = all.slice(this.#first, this.#first + SHOWN);
    const hasMore = all.length > this.#first + SHOWN;
    return { records, hasBefore: this.#first > 0, hasMore, total: all.length };
  }

  /** Returns whether an order matches the filters that need no search. */
  #matches(order) {
    const { created_after: after, created_before: before } = filterOf(this.#search);
    const at = Date.parse(order.created_at);
    const statuses = this.#search.statuses.map(plain);
    return (
      (!statuses.length || statuses.includes(plain(order.order_status))) &&
      !(after && at < Date.parse(after)) &&
      !(before && at >= Date.parse(before))
    );
  }

  forward() {
    this.#first += SHOWN;
  }

  back() {
    this.#first = Math.max(0, this.#first - SHOWN);
  }

}

/** Returns a status without the differences that the service overlooks. */
const plain = (status) => status.toUpperCase().replace(/[\s_-]/g, "");

const byId = (orders) => new Map(orders.map((order) => [order.order_id, order]));

/** Compares orders by day and time. Signings at any time of the day come first. */
function byTime(one, other) {
  const key = ({ signing_date: date, appointment }) => `${date} ${appointment.starts_at ?? ""}`;
  const [a, b] = [key(one), key(other)];
  if (a === b) return one.order_id - other.order_id;
  return a < b ? -1 : 1;
}
