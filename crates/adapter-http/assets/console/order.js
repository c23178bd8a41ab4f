// One order: its details, history and documents, and what the key may do with it.

import { Attempts, Digits, problem, request, session, upload } from "./api.js";
import {
  announce, ask, badge, button, card, count, day, fill, h, instant, labelled, renew, said, size, table,
} from "./dom.js";
import { GROUPS, appointment, member } from "./fields.js";
import { fileChooser, progressBar } from "./files.js";
import { zoneName } from "./zones.js";

/** The usual statuses. A signing service may use others. */
const STATUSES = ["NEW", "ASSIGNED", "CONFIRMED", "SIGNED", "COMPLETED"];
const CANCELLED = "CANCELLED";
const CLOSED = ["SIGNED", "COMPLETED", CANCELLED];

const ACTORS = { client: "client", service: "signing service", operator: "operator", database: "operator’s system" };

/** Returns the view of an order. */
export function order(id) {
  const view = new OrderView(id);
  return { title: `Order ${id}`, element: view.element };
}

class OrderView {
  #path;
  #tag = null;
  #problem = h("div", { tabindex: "-1" });
  #content = h("div", {}, h("p", {}, "Loading…"));
  #files = null;
  #attempts = new Attempts();

  constructor(id) {
    this.#path = `api/order/${encodeURIComponent(id)}`;
    this.element = h(
      "div",
      {},
      h("p", {}, h("a", { href: "#/orders" }, "All orders")),
      this.#problem,
      this.#content,
    );
    this.#load();
  }

  /** Does something, and shows the order as it is then, or what went wrong. */
  async #run(action, done) {
    fill(this.#problem);
    try {
      await action();
      if (done) announce(done);
      await this.#load();
    } catch (failure) {
      // The order has changed under the user.
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
    const isClient = !session.isService && session.may("orders:create");
    const isBound = ![null, order.signing_service_id].includes(session.terms.signing_service_id);
    const isService = session.isService && session.may("orders:update");
    renew(
      this.#content,
      this.#facts(order),
      isService && order.order_status !== CANCELLED && this.#change(order),
      card("Documents", documentsTable(documents, (it) => this.#download(it)), isClient && !isBound && this.#adding()),
      GROUPS.map((group) => groupCard(group, order, details)),
      card("History", historyTable(history)),
      isOpen && (isClient || isService) && h("div", { class: "buttons" }, button("Cancel this order", () => this.#cancel(order), { class: "danger" })),
    );
  }

  #facts(order) {
    const details = order.details.signingDetailsFormData;
    return h(
      "section",
      { class: "card facts" },
      h("h2", {}, said(order.file_number), " ", badge(order.order_status)),
      h("p", {}, said(order.signer_name)),
      h("p", {}, day(order.signing_date), `, ${appointment(details)}, `, said(zoneName(details.timeZoneId))),
      h("p", { class: "hint" }, `Signing service ${order.signing_service_id} · notary ${order.notary_id ?? "not assigned"} · created `, instant(order.created_at)),
    );
  }

  /** Returns the form of a signing service. It sends what the user changes. */
  #change(order) {
    const status = h("input", { name: "order_status", required: true, list: "statuses", maxlength: 50, value: order.order_status });
    const notary = h("input", { name: "notary_id", inputmode: "numeric", value: order.notary_id ?? "" });
    const submit = (event) => {
      event.preventDefault();
      const json = {};
      if (status.value.trim() !== order.order_status) json.order_status = status.value.trim();
      const number = notary.value.trim();
      if (number !== String(order.notary_id ?? "")) json.notary_id = notaryOf(number);
      const headers = { "if-match": this.#tag };
      this.#run(() => request(this.#path, { method: "PATCH", json, headers }), "Saved.");
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

  #adding() {
    const send = button("Add these documents", () => this.#add(), { hidden: true, class: "primary" });
    this.#files ??= fileChooser("add-documents");
    this.#files.onchange = () => (send.hidden = !this.#files.files().length);
    this.#files.onchange();
    this.progress = h("div");
    return h("div", { class: "adding" }, h("h3", {}, "Add documents"), this.#files.element, send, this.progress);
  }

  #add() {
    const form = new FormData();
    for (const file of this.#files.files()) form.append("documents", file, file.name);
    const headers = this.#attempts.header(JSON.stringify(this.#files.content()));
    const { answer, stop } = upload(`${this.#path}/documents`, form, headers, (part) => bar.set(part));
    const bar = progressBar(stop);
    fill(this.progress, bar.element);
    this.#run(async () => {
      try {
        await answer;
      } catch (failure) {
        for (const { pointer = "", detail } of failure.errors ?? []) {
          this.#files.setFileProblem(Number(pointer.split("/")[2]), detail);
        }
        fill(this.progress);
        throw failure;
      }
      this.#files.clear();
    }, "The documents are added.");
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
  const entry = ([field, value]) => h("div", { class: field.wide && "wide" }, h("dt", {}, field.label), h("dd", {}, shown(field, value)));
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
