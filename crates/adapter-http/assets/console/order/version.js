// The version of an order that the user sees, and changes of it.

import { Failure, request } from "../shared/api.js";

/** Answers 412 in a row after which a view gives up, and how long it then sends nothing, in milliseconds. */
const [MOST_LOST, PAUSE] = [3, 30_000];

/** An order as it was when the user last saw it. */
export class Version {
  #path;
  #tag = null;
  #lost = 0;
  #pausedUntil = 0;

  constructor(path) {
    this.#path = path;
  }

  /** Returns whether the order was read. */
  get isKnown() {
    return this.#tag !== null;
  }

  /** Returns the order as it is now. */
  async read() {
    const { body, headers } = await request(this.#path);
    this.#tag = headers.get("etag");
    return body;
  }

  /**
   * Changes the version that the user sees. Gives up for a while if that fails again and again: another program
   * changes the order, or a proxy changes its tag, so that no save can succeed.
   */
  async save(method, json) {
    const left = Math.ceil((this.#pausedUntil - Date.now()) / 1000);
    if (left > 0) throw new Failure({ status: 412, code: "never_current", retryAfter: left });
    try {
      await request(this.#path, { method, json, headers: { "if-match": this.#tag } });
      this.#lost = 0;
    } catch (failure) {
      if (failure.status !== 412 || ++this.#lost < MOST_LOST) throw failure;
      this.#lost = 0;
      this.#pausedUntil = Date.now() + PAUSE;
      throw Object.assign(failure, { code: "never_current", retryAfter: PAUSE / 1000 });
    }
  }
}
