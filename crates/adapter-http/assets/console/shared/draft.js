// What this browser keeps for the next visit of the same party: orders and entries that its user has begun, the
// numbers of the last order, and what the user has opened. Never files, keys or sessions.

import { session } from "./api.js";

/** What is kept, of a person, or of the side of a key: orders of others do not show. */
class Kept {
  #part;

  constructor(part) {
    this.#part = part;
  }

  get #name() {
    const { client_id: client, signing_service_id: service, is_test: isTest } = session.terms;
    const person = session.person ? `.person-${session.person.id}` : "";
    return `notary-orders.${this.#part}.${client ?? `service-${service}`}.${isTest ? "test" : "live"}${person}`;
  }

  /** Returns what is kept; `null` if there is nothing. */
  read() {
    return inBrowser((storage) => JSON.parse(storage.getItem(this.#name)));
  }

  write(value) {
    inBrowser((storage) => storage.setItem(this.#name, JSON.stringify(value)));
  }

  clear() {
    inBrowser((storage) => storage.removeItem(this.#name));
  }
}

/** Uses the storage of this browser. Returns `null` where it is blocked, full or unreadable. */
function inBrowser(use) {
  try {
    return use(localStorage) ?? null;
  } catch {
    return null;
  }
}

/** Uses the storage of this tab, which ends with the tab. Returns `null` where the browser blocks it. */
export function inTab(use) {
  try {
    return use(sessionStorage) ?? null;
  } catch {
    return null;
  }
}

// Version 0.1.0 kept a key there. A tab that has stayed open has it still.
inTab((storage) => storage.removeItem("notary-orders.key"));

export const draft = new Kept("draft");
export const numbers = new Kept("numbers");
export const opened = new Kept("opened");
export const sound = new Kept("sound");

const entries = new Kept("entries");

/** Orders whose entries are kept; those of the others go, the oldest first. */
const MOST_ORDERS = 50;

/** Returns the entries that the user has begun at an order: `note`, `notary` and names of files. */
export const entriesAt = (id) => entries.read()?.[`order-${id}`] ?? {};

/** Keeps a part of the entries at an order; `null` forgets it. */
export function keepEntry(id, part, value) {
  const all = entries.read() ?? {};
  const name = `order-${id}`;
  const { [part]: _, ...others } = all[name] ?? {};
  delete all[name];
  const kept = value === null ? others : { ...others, [part]: value };
  if (Object.keys(kept).length) all[name] = kept;
  const left = Object.entries(all).slice(-MOST_ORDERS);
  if (left.length) entries.write(Object.fromEntries(left));
  else entries.clear();
}
