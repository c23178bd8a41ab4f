// One order: its details, history and documents, and what the key may do with it.

import { Attempts, Digits, Failure, problem, request, session, upload } from "./api.js";
import {
  announce, ask, badge, button, card, count, day, fill, focusHeading, h, instant, labelled, renew, said, size, table,
} from "./dom.js";
import { GROUPS, appointment, member } from "./fields.js";
import { FileChooser, progressBar } from "./files.js";
import { zoneName } from "./zones.js";

/** The usual statuses. A signing service may use others. */
const STATUSES = ["NEW", "ASSIGNED", "CONFIRMED", "SIGNED", "COMPLETED"];
const CANCELLED = "CANCELLED";
const CLOSED = ["SIGNED", "COMPLETED", CANCELLED];

/** Answers 412 in a row after which the view gives up, and how long it then sends nothing, in milliseconds. */
const [MOST_LOST, PAUSE] = [3, 30_000];

const ACTORS = { client: "client", service: "signing service", operator: "operator", database: "operator’s system" };

/** Returns the view of an order. */
export function order(id) {
  const view = new OrderView(id);
  return { title: `Order ${id}`, element: view.element, dispose: () => view.dispose() };
}

class OrderView {
  #path;
  #tag = null;
  #lost = 0;
  #pausedUntil = 0;
  #problem = h("div", { tabindex: "-1" });
  #content = h("div", {}, h("p", {}, "Loading…"));
  #addition;

  constructor(id) {
    this.#path = `api/order/${encodeURIComponent(id)}`;
    this.element = h(
      "div",
      {},
      h("p", {}, h("a", { href: "#/orders" }, "All orders")),
      this.#problem,
      this.#content,
    );
    this.#addition = new Addition(this.#path, (action, done) => this.#run(action, done));
    this.#load();
  }

  /** Stops the upload if the user has forgotten the key. It goes on while the user looks at other views. */
  dispose() {
    if (!session.key) this.#addition.stop();
  }

  /** Does something, and shows the order as it is then, or what went wrong. */
  async #run(action, done) {
    fill(this.#problem);
    try {
      await action();
      if (done) announce(done);
      await this.#load();
    } catch (failure) {
      // Another user changed the order.
      if (failure.status === 409 || failure.status === 412) await this.#load();
      fill(this.#problem, problem(failure));
      this.#problem.focus();
    }
  }

  async #load() {
    try {
      const { body, headers } = await request(this.#path);
      this.#tag = headers.get("etag");
      this.#show(body);
    } catch (failure) {
      const isGone = [404, 410].includes(failure.status);
      if (isGone || this.#tag === null) fill(this.#content);
      fill(this.#problem, problem(failure));
    }
  }

  #show(order) {
    const { details, history, documents } = order;
    const isOpen = !CLOSED.includes(order.order_status);
    const isCancelled = order.order_status === CANCELLED;
    const isOfKey = [null, order.signing_service_id].includes(session.terms.signing_service_id);
    const isClient = !session.isService && session.may("orders:create") && isOfKey;
    const isService = session.isService && session.may("orders:update");
    renew(
      this.#content,
      this.#facts(order),
      isService && !isCancelled && this.#change(order),
      card(
        "Documents",
        documentsTable(documents, (it) => this.#download(it)),
        isClient && !isCancelled && this.#addition.element,
      ),
      GROUPS.map((group) => groupCard(group, order, details)),
      card("History", historyTable(history)),
      isOpen &&
        (isClient || isService) &&
        button("Cancel this order", () => this.#cancel(order), { class: "danger" }),
    );
  }

  #facts(order) {
    const details = order.details.signingDetailsFormData;
    const notary = order.notary_id ?? "not assigned";
    const parties = `Signing service ${order.signing_service_id} · notary ${notary}`;
    return h(
      "section",
      { class: "card facts" },
      h("h2", {}, said(order.file_number), " ", badge(order.order_status)),
      h("p", {}, said(order.signer_name)),
      h("p", {}, day(order.signing_date), `, ${appointment(details)}, `, said(zoneName(details.timeZoneId))),
      h("p", { class: "hint" }, `${parties} · created `, instant(order.created_at)),
    );
  }

  /** Returns the form of a signing service. It sends what the user changes. */
  #change(order) {
    const status = h("input", {
      name: "order_status", required: true, list: "statuses", maxlength: 50, value: order.order_status,
    });
    const notary = h("input", { name: "notary_id", inputmode: "numeric", value: order.notary_id ?? "" });
    const submit = (event) => {
      event.preventDefault();
      const json = {};
      if (status.value.trim() !== order.order_status) json.order_status = status.value.trim();
      const number = notary.value.trim();
      if (number !== String(order.notary_id ?? "")) json.notary_id = notaryOf(number);
      this.#run(() => this.#save(json), "Saved.");
    };
    return card(
      "Status and notary",
      h(
        "form",
        { class: "grid", novalidate: true, autocomplete: "off", submit },
        labelled("change-status", "Status", status, "Such as ASSIGNED, CONFIRMED, SIGNED or COMPLETED"),
        labelled("change-notary", "Notary number", notary, "Empty if none is assigned"),
        h("datalist", { id: "statuses" }, STATUSES.map((value) => h("option", { value }))),
        h("div", { class: "buttons" }, h("button", { class: "primary", id: "save" }, "Save")),
      ),
    );
  }

  /**
   * Changes the version that the user sees. Gives up for a while if that fails again and again: another program
   * changes the order, or a proxy changes its tag, so that no save can succeed.
   */
  async #save(json) {
    const left = Math.ceil((this.#pausedUntil - Date.now()) / 1000);
    if (left > 0) throw new Failure({ status: 412, code: "never_current", retryAfter: left });
    try {
      await request(this.#path, { method: "PATCH", json, headers: { "if-match": this.#tag } });
      this.#lost = 0;
    } catch (failure) {
      if (failure.status !== 412 || ++this.#lost < MOST_LOST) throw failure;
      this.#lost = 0;
      this.#pausedUntil = Date.now() + PAUSE;
      throw Object.assign(failure, { code: "never_current", retryAfter: PAUSE / 1000 });
    }
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

  /** Saves a document under the name that it was sent with. */
  async #download(document_) {
    fill(this.#problem);
    try {
      const { body } = await request(document_.url, { blob: true });
      const url = URL.createObjectURL(body);
      h("a", { href: url, download: document_.name_as_sent }).click();
      setTimeout(() => URL.revokeObjectURL(url), 60_000);
      announce("Downloaded.");
    } catch (failure) {
      fill(this.#problem, problem(failure));
      this.#problem.focus();
    }
  }
}

/** Adds documents to an order. */
class Addition {
  #path;
  #run;
  #isBusy = false;
  #attempts = new Attempts();
  #files = new FileChooser("add-documents");
  #send = button("Add these documents", () => this.#add(), { hidden: true, class: "primary", id: "add-send" });
  #progress = h("div");
  /** Stops the upload. */
  stop = () => {};

  constructor(path, run) {
    [this.#path, this.#run] = [path, run];
    this.#files.onchange = () => (this.#send.hidden = !this.#files.files.length);
    const title = h("h3", {}, "Add documents");
    this.element = h("div", { class: "adding" }, title, this.#files.element, this.#send, this.#progress);
    this.#files.takeDropsOn(this.element);
  }

  async #add() {
    if (this.#isBusy) return;
    this.#setBusy(true);
    try {
      await this.#run(() => this.#upload(), "The documents are added.");
    } finally {
      this.#setBusy(false);
    }
  }

  /** Keeps the files as they are while they are sent. */
  #setBusy(isBusy) {
    this.#isBusy = isBusy;
    this.#files.element.inert = isBusy;
    this.#send.setAttribute("aria-disabled", isBusy);
    if (!isBusy) fill(this.#progress);
  }

  async #upload() {
    const { files, content } = this.#files;
    try {
      await this.#files.check();
      const form = new FormData();
      for (const file of files) form.append("documents", file, file.name);
      const headers = this.#attempts.header(JSON.stringify(content));
      const { answer, stop } = upload(`${this.#path}/documents`, form, headers, (part) => bar.set(part));
      const bar = progressBar(stop);
      this.stop = stop;
      fill(this.#progress, bar.element);
      await answer;
    } catch (failure) {
      this.#attempts.learn(failure);
      for (const error of failure.errors ?? []) {
        const at = Number(error.pointer?.split("/")[2]);
        error.file = files[at]?.name;
        this.#files.setFileProblem(at, error.detail);
      }
      throw failure;
    }
    // The button of the documents that are added vanishes.
    if (this.element.contains(document.activeElement)) focusHeading();
    this.#files.clear();
  }
}

/** Returns the notary as the request has it: what is no number is for the service to reject. */
function notaryOf(text) {
  if (!text) return null;
  return /^[1-9]\d*$/.test(text) ? new Digits(text) : text;
}

function documentsTable(documents, download) {
  if (!documents.length) return h("p", {}, "This order has no documents.");
  const cells = (it) => [
    said(it.name_as_sent),
    it.media_type,
    size(it.size),
    instant(it.created_at),
    button("Download", () => download(it), { "aria-label": `Download ${it.name_as_sent}` }),
  ];
  return table(count(documents.length, "document"), ["Name", "Format", "Size", "Added", "File"], documents.map(cells));
}

/** Returns the fields of a group that the order has. */
function groupCard({ title, fields }, order, details) {
  const request = { ...details, signingServiceId: order.signing_service_id };
  const found = fields
    .map((field) => [field, member(request, field.pointer)])
    .filter(([, value]) => value !== undefined && value !== null);
  if (!found.length) return null;
  const entry = ([field, value]) => {
    const content = [h("dt", {}, field.label), h("dd", {}, shown(field, value))];
    return h("div", { class: field.wide && "wide" }, content);
  };
  return card(title, h("dl", { class: "grid" }, found.map(entry)));
}

function shown({ kind, options }, value) {
  if (typeof value === "boolean") return value ? "Yes" : "No";
  if (kind === "date") return day(value);
  if (kind === "zone") return said(zoneName(value));
  if (kind === "amount") return value.toFixed(2);
  const option = options?.find(([name]) => name === value);
  return said(option ? option[1] : value);
}

function historyTable(history) {
  const cells = (it) => [
    instant(it.at),
    badge(it.order_status),
    String(it.notary_id ?? "none"),
    ACTORS[it.actor] ?? said(it.actor),
    it.reason ? said(it.reason) : "",
  ];
  return table("Oldest first", ["When", "Status", "Notary", "By", "Reason"], history.map(cells));
}
