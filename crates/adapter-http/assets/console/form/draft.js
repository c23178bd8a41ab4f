// What this browser keeps for the next visit of the same client: the order that its user has begun, and the
// numbers of the last one. Never files or keys.

import { session } from "../shared/api.js";

/** What is kept, of the owner of the key: orders of others do not show. */
class Kept {
  #part;

  constructor(part) {
    this.#part = part;
  }

  get #name() {
    const { client_id: client, is_test: isTest } = session.terms;
    return `notary-orders.${this.#part}.${client}.${isTest ? "test" : "live"}`;
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

export const draft = new Kept("draft");
export const numbers = new Kept("numbers");
