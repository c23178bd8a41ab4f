// One order: its details, notes, documents and history, and what the key may do with it.

import { problem, request, session } from "./api.js";
import { showErrors } from "./controls.js";
import { announce, ask, badge, button, card, day, emailLink, fill, h, instant, labelled, phoneLink, renew, said } from "./dom.js";
import { Assignment } from "./assign.js";
import { Documents, SIGNED, TO_SIGN } from "./documents.js";
import { GROUPS, member } from "./fields.js";
import { History } from "./history.js";
import { Notes } from "./notes.js";
import { listAddress } from "./orders.js";
import { Version } from "./version.js";
import { CANCELLED, appointment, inWords, isCancellable, isChangeable } from "./words.js";
import { zoneName } from "./zones.js";

/** Returns the view of an order. */
export function order(id) {
  const view = new OrderView(id);
  return { title: `Order ${id}`, element: view.element, dispose: () => view.dispose() };
}

class OrderView {
  #id;
  #path;
  #version;
  #problem = h("div", { tabindex: "-1" });
  #content = h("div", {}, h("p", {}, "Loading…"));
  #assignment;
  #notes;
  #documents;
  #signed;
  #history;

  constructor(id) {
    this.#id = id;
    this.#path = `api/order/${encodeURIComponent(id)}`;
    this.#version = new Version(this.#path);
    this.element = h(
      "div",
      {},
      h("p", {}, h("a", { href: listAddress() }, "Back to the orders")),
      this.#problem,
      this.#content,
    );
    const run = (...action) => this.#run(...action);
    this.#assignment = new Assignment(this.#version, run);
    this.#notes = new Notes(this.#path, run);
    this.#documents = new Documents(TO_SIGN, this.#path, run);
    this.#signed = new Documents(SIGNED, this.#path, run);
    this.#history = new History(this.#path, () => this.#load());
    this.#load();
  }

  /** Stops the uploads if the user has forgotten the key. They go on while the user looks at other views. */
  dispose() {
    if (session.key) return;
    this.#documents.stop();
    this.#signed.stop();
  }

  /**
   * Does something, and shows the order as it is then, or what went wrong: at the fields of `form` if each error
   * has one.
   */
  async #run(action, done, form) {
    fill(this.#problem);
    try {
      await action();
      if (done) announce(done, true);
      await this.#load();
    } catch (failure) {
      if (form && showErrors(form, failure.errors ?? [])) return;
      // Another user changed the order.
      if (failure.status === 409 || failure.status === 412) await this.#load();
      fill(this.#problem, problem(failure));
      this.#problem.focus();
    }
  }

  async #load() {
    try {
      const order = await this.#version.read();
      await this.#history.read(order);
      this.#show(order);
    } catch (failure) {
      const isGone = [404, 410].includes(failure.status);
      if (isGone || !this.#version.isKnown) fill(this.#content);
      fill(this.#problem, problem(failure));
    }
  }

  #show(order) {
    const isCancelled = order.order_status === CANCELLED;
    const isOfKey = [null, order.signing_service_id].includes(session.terms.signing_service_id);
    const isClient = !session.isService && session.may("orders:create") && isOfKey;
    const isService = session.isService && session.may("orders:update");
    const ofSide = (isUploader) => ({
      add: isUploader && !isCancelled, replace: isUploader && !isCancelled, withdraw: isUploader,
    });
    renew(this.#content, () => [
      this.#facts(order, isClient && isChangeable(order)),
      isService && !isCancelled && this.#assignment.card(order),
      this.#documents.card(order, ofSide(isClient)),
      this.#signed.card(order, { ...ofSide(isService), replace: false }),
      this.#notes.card(order, isClient || isService),
      GROUPS.map((group) => groupCard(group, order)),
      this.#history.card(order),
      isCancellable(order) &&
        (isClient || isService) &&
        button("Cancel this order", () => this.#cancel(order), { class: "danger" }),
    ]);
  }

  #facts(order, mayChange) {
    const details = order.details.signingDetailsFormData;
    const entry = ([name, ...value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
    const { client_name: client, signing_service_name: service, signing_service_id: number } = order;
    const parties = [
      ["Client", said(client ?? "no name")],
      ["Signing service", service ? [said(service), ` (number ${number})`] : `Number ${number}`],
      ["Notary", notaryOf(order)],
      ["Created", instant(order.created_at)],
    ];
    return h(
      "section",
      { class: "card facts" },
      h("h2", {}, said(order.file_number), " ", badge(order.order_status)),
      person(details.signerName, details.signerPhone),
      details.coSignerName && person(details.coSignerName, details.coSignerPhone),
      h("p", {}, day(order.signing_date), `, ${appointment(details)}, `, said(zoneName(details.timeZoneId))),
      h("dl", { class: "grid" }, parties.map(entry)),
      mayChange &&
        h("p", { class: "buttons" }, h("a", { class: "button", href: `#/order/${this.#id}/change` }, "Change this order")),
    );
  }

  async #cancel(order) {
    const reason = h("input", { name: "reason", maxlength: 500, dir: "auto" });
    const values = await ask({
      title: "Cancel this order?",
      lines: [["File number ", said(order.file_number), ". This cannot be undone. The other side learns of it."]],
      controls: [labelled("cancel-reason", "Reason (optional)", reason, "The other side reads it")],
      confirm: "Cancel the order",
      danger: true,
    });
    if (!values) return;
    const text = values.reason.trim();
    const json = text ? { reason: text } : {};
    this.#run(() => request(`${this.#path}/cancel`, { method: "POST", json }), "The order is cancelled.");
  }
}

const person = (name, phone) => h("p", {}, said(name), phone && [", ", phoneLink(phone)]);

/** Returns who the notary of an order is. */
function notaryOf({ notary, notary_id: number }) {
  if (!notary) return number === null ? "not assigned" : `Number ${number}`;
  const contact = [notary.phone && phoneLink(notary.phone), notary.email && emailLink(notary.email)];
  return [
    said(notary.name),
    number !== null && ` (number ${number})`,
    contact.filter(Boolean).map((link) => h("div", {}, link)),
  ];
}

/** Returns the fields of a group that the order has. */
function groupCard({ title, fields }, order) {
  const request = { ...order.details, signingServiceId: order.signing_service_id };
  const found = fields
    .map((field) => [field, member(request, field.pointer)])
    .filter(([, value]) => value !== undefined && value !== null);
  if (!found.length) return null;
  const entry = ([field, value]) => {
    const content = [h("dt", {}, field.label), h("dd", {}, inWords(field, value))];
    return h("div", { class: field.wide && "wide" }, content);
  };
  return card(title, h("dl", { class: "grid" }, found.map(entry)));
}
