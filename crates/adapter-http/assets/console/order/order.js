// One order: what a dispatcher reads aloud, and what the key may do with it.

import { addressLine, regionOf } from "../shared/address.js";
import { Failure, problem, request, session } from "../shared/api.js";
import { showErrors } from "../shared/controls.js";
import {
  announce, ask, button, card, emailLink, fill, h, instant, labelled, mapLink, phoneLink, renew, retitle, said,
} from "../shared/dom.js";
import { askBeforeLeaving } from "../shared/leave.js";
import { markOpened } from "../shared/opened.js";
import { Assignment } from "./assign.js";
import { Documents, SIGNED, TO_SIGN } from "../documents/documents.js";
import { details } from "./facts.js";
import { newsOf } from "./history.js";
import { forgetNew } from "../orders/news.js";
import { listAddress, neighbours } from "../orders/orders.js";
import { Notes } from "./notes.js";
import { Timeline } from "./timeline.js";
import { signingTime } from "../shared/times.js";
import { toast } from "../shared/toast.js";
import { Version } from "./version.js";
import { CANCELLED, isCancellable, isChangeable, lateOf, statusBadge } from "../shared/words.js";
import { zoneName } from "../shared/zones.js";

/** Seconds between two questions whether the order has changed: while the page is seen, and while it is hidden. */
const [PERIOD, HIDDEN_PERIOD] = [10, 60];

/** The orders at which the user has chosen files, or sends them. They stay while the user looks at other views. */
const begun = new Map();

askBeforeLeaving(() => [...begun.values()].some((it) => it.hasFiles));

/** Forgets the orders, and stops their uploads. The entries of their users stay. */
export function forgetOrders() {
  for (const view of begun.values()) view.stop();
  begun.clear();
}

/** Returns the view of an order. */
export function order(id) {
  const view = begun.get(id) ?? new OrderView(id);
  begun.set(id, view);
  view.open();
  return { title: `Order ${id}`, element: view.element, dispose: () => view.dispose() };
}

class OrderView {
  #id;
  #path;
  #version;
  /** The order as it is shown, and as another user has left it since; `null` if it is the same. */
  #order = null;
  #changed = null;
  #timer = null;
  #isOpen = false;
  /** Actions of this user in progress: what they change is no news. */
  #running = 0;
  #problem = h("div", { tabindex: "-1" });
  #stale = h("div");
  #way = h("p", { class: "way" });
  #content = h("div", {}, h("p", {}, "Loading…"));
  #assignment;
  #notes;
  #documents;
  #signed;
  #timeline;

  constructor(id) {
    this.#id = id;
    this.#path = `api/order/${encodeURIComponent(id)}`;
    this.#version = new Version(this.#path);
    this.element = h("div", {}, this.#way, this.#problem, this.#stale, this.#content);
    const run = (...action) => this.#run(...action);
    this.#assignment = new Assignment(id, this.#version, run);
    this.#notes = new Notes(id, this.#path, run);
    this.#documents = new Documents(TO_SIGN, id, this.#path, run);
    this.#signed = new Documents(SIGNED, id, this.#path, run);
    this.#timeline = new Timeline(this.#path, () => this.#load());
  }

  /** Shows the order as it is now, and follows it. */
  open() {
    this.#isOpen = true;
    fill(this.#problem);
    fill(this.#way, this.#links());
    document.addEventListener("visibilitychange", this.#appear);
    this.#load();
  }

  get hasFiles() {
    return this.#documents.hasFiles || this.#signed.hasFiles;
  }

  stop() {
    this.#documents.stop();
    this.#signed.stop();
  }

  /** Leaves the order. Its files, and uploads in progress, stay. */
  dispose() {
    this.#isOpen = false;
    clearTimeout(this.#timer);
    document.removeEventListener("visibilitychange", this.#appear);
    if (!this.hasFiles) begun.delete(this.#id);
  }

  /** Returns the links to the list, and to the orders beside this one there. */
  #links() {
    const { before, after, at, number } = neighbours(this.#id);
    const link = (id, label, name) => id && h("a", { href: `#/order/${id}`, id: name }, label);
    return [
      h("a", { href: listAddress() }, "Back to the orders"),
      link(before, "Previous order", "order-before"),
      link(after, "Next order", "order-after"),
      at && h("span", { class: "hint" }, `${at} of ${number}`),
    ];
  }

  #appear = () => this.#wait(document.hidden ? HIDDEN_PERIOD : 0);

  #wait(seconds = document.hidden ? HIDDEN_PERIOD : PERIOD) {
    clearTimeout(this.#timer);
    if (this.#isOpen) this.#timer = setTimeout(() => this.#check(), seconds * 1000);
  }

  /** Says when another user has changed the order since it was shown. The list tells it: a read would be an access. */
  async #check() {
    const shown = this.#order;
    try {
      if (!shown || !session.terms || this.#running) return;
      const filter = { file_number: shown.file_number, updated_after: shown.updated_at, limit: 100 };
      const { body } = await request(`api/order?${new URLSearchParams(filter)}`);
      const now = body.data.find((it) => it.order_id === shown.order_id);
      if (!now || now.updated_at <= shown.updated_at) return;
      if (now.updated_at !== this.#changed?.updated_at) {
        const { body } = await request(this.#path);
        if (shown !== this.#order || this.#running) return;
        this.#changed = body;
      }
      this.#tell(shown.updated_at);
    } catch (failure) {
      // The next question may have an answer.
      if (!(failure instanceof Failure)) throw failure;
    } finally {
      this.#wait();
    }
  }

  #tell(since) {
    const sentence = h("span", {}, newsOf(this.#changed, since));
    if (sentence.textContent === this.#stale.querySelector("span")?.textContent) return;
    const isSaid = this.#stale.textContent !== "";
    const show = async () => {
      await this.#load();
      document.querySelector("main h1").focus({ preventScroll: true });
    };
    renew(this.#stale, h("div", { class: "stale" }, sentence, button("Show", show, { id: "show-changes" })));
    if (!isSaid) announce(sentence.textContent);
  }

  /**
   * Does something, and shows the order as it is then, or what went wrong: at the fields of `form` if each error
   * has one.
   */
  async #run(action, done, form) {
    fill(this.#problem);
    this.#running++;
    try {
      await action();
      await this.#load();
      const { after } = neighbours(this.#id);
      const link = after && this.#isOpen ? { href: `#/order/${after}`, text: "Next order" } : undefined;
      if (done) toast(done, { link });
    } catch (failure) {
      if (form && showErrors(form, failure.errors ?? [])) return;
      // Another user changed the order.
      if (failure.status === 409 || failure.status === 412) await this.#load();
      fill(this.#problem, problem(failure));
      this.#problem.focus();
    } finally {
      this.#running--;
    }
  }

  async #load() {
    try {
      const order = await this.#version.read();
      await this.#timeline.read(order);
      this.#show(order);
      this.#wait();
    } catch (failure) {
      const isGone = [404, 410].includes(failure.status);
      if (isGone || !this.#version.isKnown) fill(this.#content);
      fill(this.#problem, problem(failure));
    }
  }

  #show(order) {
    [this.#order, this.#changed] = [order, null];
    fill(this.#stale);
    if (this.#isOpen) {
      markOpened([order]);
      forgetNew(order.order_id);
    }
    retitle(this.element, said(order.file_number), ` (order ${this.#id})`);
    const isCancelled = order.order_status === CANCELLED;
    const isOfKey = [null, order.signing_service_id].includes(session.terms.signing_service_id);
    const isClient = !session.isService && session.may("orders:create") && isOfKey;
    const isService = session.isService && session.may("orders:update");
    const ofSide = (isUploader) => ({
      add: isUploader && !isCancelled, replace: isUploader && !isCancelled, withdraw: isUploader,
    });
    const mayNote = isClient || isService;
    renew(this.#content, () =>
      h(
        "div",
        { class: "order-page" },
        this.#head(order),
        h(
          "div",
          { class: "actions" },
          isClient && this.#clientActions(order),
          isService && this.#serviceActions(order),
        ),
        h(
          "div",
          { class: "papers" },
          this.#documents.card(order, ofSide(isClient)),
          this.#signed.card(order, { ...ofSide(isService), replace: false }),
          details(order),
        ),
        h("div", { class: "events" }, this.#timeline.card(order, mayNote && this.#notes.form)),
      ),
    );
  }

  #head(order) {
    const details = order.details.signingDetailsFormData;
    const entry = ([name, ...value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
    const { client_name: client, signing_service_name: service, signing_service_id: number } = order;
    const facts = [
      ["When", signingTime(order, { withDay: true }), h("div", { class: "hint" }, said(zoneName(details.timeZoneId).split(", ")[0]))],
      ["Where", ...place(details)],
      ["Signer", ...person(details.signerName, details.signerPhone)],
      details.coSignerName && ["Co-signer", ...person(details.coSignerName, details.coSignerPhone)],
      ["What", said(details.signingType)],
      ["Notary", notaryOf(order)],
      ["Client", said(client ?? "no name")],
      ["Signing service", service ? [said(service), ` (number ${number})`] : `Number ${number}`],
      ["Created", instant(order.created_at)],
    ].filter(Boolean);
    return h(
      "section",
      { class: "card facts" },
      h("h2", {}, said(order.file_number), " ", statusBadge(order.order_status)),
      attention(order),
      h("dl", { class: "grid" }, facts.map(entry)),
      instructions(details),
    );
  }

  #clientActions(order) {
    const link = (href, label, isMain) => h("a", { class: isMain ? "button primary" : "button", href }, label);
    const isOpen = order.order_status !== CANCELLED;
    return card(
      "Actions",
      h(
        "div",
        { class: "buttons" },
        isChangeable(order) && link(`#/order/${this.#id}/change`, "Change this order", true),
        isOpen && button("Add documents", () => this.#documents.choose(), { id: "choose-documents" }),
        link(`#/new?from=${this.#id}`, "Duplicate order"),
        this.#cancelButton(order),
      ),
    );
  }

  #serviceActions(order) {
    const { order_status: status, signed_documents: signed } = order;
    if (status === CANCELLED) return null;
    const set = (label, next, done) =>
      button(label, () => this.#run(() => this.#version.save("PATCH", { order_status: next }), done), {
        class: "primary", id: "next",
      });
    const upload = (isMain) =>
      button("Upload signed documents", () => this.#signed.choose(), { class: isMain && "primary", id: "choose-signed" });
    const hasSigned = signed.some((it) => !it.withdrawn_at);
    const isMain = ["CONFIRMED", "SIGNED"].includes(status) && !hasSigned;
    const [notary, statusForm] = this.#assignment.forms(order);
    const buttons = h(
      "div",
      { class: "buttons" },
      status === "ASSIGNED" && set("Confirm the appointment", "CONFIRMED", "The appointment is confirmed."),
      status === "CONFIRMED" && hasSigned && set("Mark as signed", "SIGNED", "The order is signed."),
      status === "SIGNED" && hasSigned && set("Complete the order", "COMPLETED", "The order is completed."),
      upload(isMain),
      ["ASSIGNED", "CONFIRMED"].includes(status) &&
        button("Did not sign", () => this.#assignment.didNotSign(), { id: "did-not-sign" }),
      this.#cancelButton(order),
    );
    // What a new order needs comes first.
    return card("Actions", status === "NEW" ? [notary, buttons] : [buttons, notary], statusForm);
  }

  #cancelButton(order) {
    return (
      isCancellable(order) &&
      button("Cancel this order", () => this.#cancel(order), { class: "danger", id: "cancel-order" })
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

const person = (name, phone) => [said(name), phone && h("div", {}, phoneLink(phone))];

const instructions = ({ specialInstructions: text }) =>
  text && h("div", { class: "instructions" }, h("h3", {}, "Instructions"), h("p", { class: "said" }, said(text)));

/** Returns what needs attention, and what to do about it. */
function attention(order) {
  const todo = ([, sentence, , ofService, ofClient]) =>
    h("p", { class: "attention" }, h("strong", {}, `${sentence}. `), session.isService ? ofService : ofClient);
  return lateOf(order).map(todo);
}

/** Returns where the signing is. */
function place(details) {
  const isElsewhere = details.isPropertyAddressSame === false;
  const of = (name) => details[`signing${name[0].toUpperCase()}${name.slice(1)}`] ?? null;
  const [address, city, state, zip] = isElsewhere
    ? ["address", "city", "state", "zipcode"].map(of)
    : [details.propertyAddress, details.city, details.state, details.zipcode];
  const text = address ?? details.propertyAddress;
  const region = regionOf(text, city, state, zip);
  const whole = addressLine(text, city, state, zip);
  return [said(text), region && h("div", {}, said(region)), h("div", {}, mapLink(whole))];
}

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
