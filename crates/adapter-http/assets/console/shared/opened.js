// Which orders have changed since the user opened them. This browser keeps it.

import { session } from "./api.js";
import { opened } from "./draft.js";
import { dateIn, midnight } from "./times.js";

/** Orders that are remembered one by one. What was opened before the oldest of them counts as opened. */
const MOST = 2_000;

/** What was read last, and for which key. */
let cache = null;

addEventListener("storage", () => (cache = null));

/** Returns what was opened: the instant up to which everything counts as opened, and later orders by their number. */
function state() {
  if (cache?.terms !== session.terms) {
    cache = { terms: session.terms, ...(opened.read() ?? { until: midnight(dateIn(-1)), orders: {} }) };
  }
  return cache;
}

function write(until, orders) {
  opened.write({ until, orders });
  cache = null;
}

/** Returns the last change of an order that the user has seen. */
export function openedAt(id) {
  const { until, orders } = state();
  return orders[id] ?? until;
}

/** Returns whether an order has changed since the user opened it. */
export const isUnopened = ({ order_id: id, updated_at: at }) => at > openedAt(id);

/** Remembers that the user has seen some orders as they are. What was opened later stays. */
export function markOpened(seen) {
  cache = null;
  const { until, orders } = state();
  const unopened = seen.filter(isUnopened).map(({ order_id: id, updated_at: at }) => [id, at]);
  if (!unopened.length) return;
  const known = { ...orders, ...Object.fromEntries(unopened) };
  const all = Object.entries(known).sort(([, one], [, other]) => (one < other ? -1 : 1));
  const dropped = all.slice(0, Math.max(0, all.length - MOST));
  const last = dropped.at(-1)?.[1] ?? "";
  write(last > until ? last : until, Object.fromEntries(all.slice(dropped.length)));
}
