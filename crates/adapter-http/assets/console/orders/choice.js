// The orders that the user has chosen in the list, and what is done with all of them at once.

import { Failure, request, session } from "../shared/api.js";
import { announce, ask, button, count, fill, h, phoneLink, said } from "../shared/dom.js";
import { patiently } from "./pages.js";
import { NotaryFields, forgetNotaries, notaryChange, textsOf } from "../order/notary.js";
import { inTrade } from "../shared/trade.js";
import { statusWord } from "../shared/words.js";

/** The chosen orders. Calls its `onchange`. */
export class Choice {
  #orders = new Map();
  onchange = () => {};

  /** The chosen orders, in the order of the choice. */
  get orders() {
    return [...this.#orders.values()];
  }

  clear() {
    this.#orders.clear();
    for (const box of document.querySelectorAll(".choose input")) box.checked = false;
    this.onchange();
  }

  /** Learns the orders as they are now. */
  learn(records) {
    for (const it of records) if (this.#orders.has(it.order_id)) this.#orders.set(it.order_id, it);
  }

  /** Returns the box that chooses an order. */
  box(order) {
    const change = ({ target }) => {
      this.#set(order, target.checked);
      this.onchange();
    };
    const { order_id: id, file_number: number } = order;
    // The space bar chooses the row that has the focus.
    return h("input", {
      type: "checkbox", id: `choose-${id}`, tabindex: "-1", "aria-label": `Choose ${number}`, checked: this.#orders.has(id), change,
    });
  }

  /** Returns the box that chooses all orders of a table. */
  boxOfAll(caption, records) {
    const change = ({ target }) => {
      for (const it of records) {
        this.#set(it, target.checked);
        const box = document.getElementById(`choose-${it.order_id}`);
        if (box) box.checked = target.checked;
      }
      this.onchange();
    };
    const isWhole = records.every((it) => this.#orders.has(it.order_id));
    const id = `choose-all-${records[0].order_id}`;
    return h("input", { type: "checkbox", id, "aria-label": `Choose all: ${caption}`, checked: isWhole, change });
  }

  #set(order, isChosen) {
    if (isChosen) this.#orders.set(order.order_id, order);
    else this.#orders.delete(order.order_id);
  }
}

/** Returns whether the user may carry orders out. */
export const mayCarryOut = () => session.isService && session.may("orders:update");

/** Assigns one notary to all orders. Calls `done` if something was sent. */
export async function assignAll(orders, done) {
  const fields = new NotaryFields("chosen");
  const grid = h("div", { class: "grid" }, fields.element);
  const title = `Assign a notary to ${count(orders.length, "order")}`;
  for (let lines = []; ; ) {
    if (!(await ask({ title, lines, controls: [grid], confirm: "Assign" }))) return;
    const texts = fields.texts;
    if (!texts.name && !texts.number) {
      lines = ["Enter the name or the number of the notary."];
      continue;
    }
    const change = (order) => {
      const json = notaryChange(textsOf(order.notary, order.notary_id), texts);
      if (order.order_status === "NEW") json.order_status = "ASSIGNED";
      return Object.keys(json).length ? json : "This notary is assigned already.";
    };
    const first = await one(orders[0], change, "Assigned.");
    // What is wrong with the entries is wrong for all orders.
    if (first.errors) {
      lines = first.errors;
      continue;
    }
    const phone = texts.phone && h("p", {}, "Call ", said(texts.name), ": ", phoneLink(texts.phone));
    await tell("Assigned", orders, [first], change, "Assigned.", phone);
    forgetNotaries();
    return done();
  }
}

/** Confirms the appointments of all orders. Calls `done` when they were sent. */
export async function confirmAll(orders, done) {
  const change = ({ order_status: status, notary, notary_id: number }) => {
    if (status === "ASSIGNED") return { order_status: "CONFIRMED" };
    if (status === "CONFIRMED") return "It is confirmed already.";
    if (status === "NEW") return notary || number !== null ? { order_status: "CONFIRMED" } : "Assign a notary first.";
    return `It is “${statusWord(status)}”.`;
  };
  const lines = [`${count(orders.length, "appointment")}: the clients get a mail that each is confirmed.`];
  if (!(await ask({ title: "Confirm the appointments?", lines, confirm: "Confirm" }))) return;
  await tell("Confirmed", orders, [], change, "Confirmed.");
  return done();
}

/** Changes an order if it is as the user has seen it. Returns what came of it. */
async function one(listed, change, done) {
  const path = `api/order/${listed.order_id}`;
  try {
    const { body, headers } = await patiently(() => request(path));
    if (body.updated_at !== listed.updated_at) return { text: CHANGED };
    const json = change(body);
    if (typeof json === "string") return { text: json };
    await patiently(() => request(path, { method: "PATCH", json, headers: { "if-match": headers.get("etag") } }));
    return { text: done, isDone: true };
  } catch (failure) {
    if (!(failure instanceof Failure)) throw failure;
    const words = ({ pointer, detail }) => `${NAMES[pointer] ?? pointer} ${inTrade(detail)}`;
    const errors = failure.status === 400 ? failure.errors.map(words) : [];
    return { text: failure.sentence, errors: errors.length ? errors : null };
  }
}

const CHANGED = "Another user has changed it since. Nothing was saved: look at it first.";

const NAMES = {
  "/notary/name": "Notary: name", "/notary/phone": "Notary: phone", "/notary/email": "Notary: e-mail",
  "/notary_id": "Notary: number",
};

/** Changes the orders one after the other, and tells of each what came of it. Returns when the user has read it. */
async function tell(title, orders, outcomes, change, done, more) {
  const heading = h("h2", { id: "outcome-title" });
  const list = h("ul", { class: "outcomes" });
  const dialog = h("dialog", { "aria-labelledby": "outcome-title" });
  const close = button("Close", () => dialog.close(), { class: "primary", autofocus: true });
  const item = ({ text, isDone }, { order_id: id, file_number: number }) =>
    h(
      "li",
      { "data-done": String(Boolean(isDone)) },
      h("a", { href: `#/order/${id}`, click: () => dialog.close() }, said(number)),
      `: ${text}`,
    );
  const show = () => {
    fill(list, outcomes.map((it, at) => item(it, orders[at])));
    heading.textContent = `${title}: ${outcomes.filter((it) => it.isDone).length} of ${orders.length}`;
  };
  dialog.append(heading, list, h("div", {}, more || ""), h("div", { class: "buttons" }, close));
  document.body.append(dialog);
  dialog.showModal();
  const closed = new Promise((resolve) => dialog.addEventListener("close", resolve));
  show();
  while (outcomes.length < orders.length) {
    outcomes.push(await one(orders[outcomes.length], change, done));
    show();
  }
  announce(heading.textContent);
  await closed;
  dialog.remove();
}
