// The form that creates an order.

import { Advice } from "./advice.js";
import { Attempts, Digits, Failure, problem, request, session, stringify } from "../shared/api.js";
import { offerServices } from "../shared/controls.js";
import { ask, button, count, fill, h } from "../shared/dom.js";
import { draft, numbers } from "../shared/draft.js";
import { DOCUMENTS_ID, Entries } from "./entries.js";
import { CONTACT, FIELDS, FILE_NUMBER, INSTANTS, KEPT, ORDERED_BY, SIGNING_DATE, fieldOf, member, setMember } from "../shared/fields.js";
import { leaveFiles } from "../documents/documents.js";
import { FileChooser, identify } from "../documents/files.js";
import { forgetNew } from "../orders/news.js";
import { askBeforeLeaving } from "../shared/leave.js";
import { allServices } from "../shared/services.js";
import { toast } from "../shared/toast.js";
import { Sending, batches } from "../documents/uploads.js";

/** Problems of documents that name no field. */
const OF_DOCUMENTS = ["document_too_large", "payload_too_large", "too_many_documents", "no_documents"];

/** What another order does not have of the one that it repeats. */
const NOT_REPEATED = [FILE_NUMBER, SIGNING_DATE, ...INSTANTS];

/** The form that the user has begun. It stays while the user looks at other views. */
let begun = null;

askBeforeLeaving(() => begun?.isChanged);

/** Forgets the form that the user has begun, and stops its upload. Its draft stays. */
export function forgetForm() {
  begun?.stop();
  begun = null;
}

/**
 * Returns the view. `created` gets the record of an order without documents, and whether it is a repeat. `show`
 * shows the view again, below a sentence. The address may name an order to repeat: `#/new?from=7`.
 */
export function newOrder(created, show, address) {
  begun ??= new OrderForm();
  Object.assign(begun, { created, show });
  begun.bind();
  const from = new URLSearchParams(address.split("?")[1]).get("from");
  if (from) begun.repeat(from);
  return { title: "New order", element: begun.element, isForm: true };
}

class OrderForm {
  /** Stops the upload. */
  stop = () => {};
  #attempts = new Attempts();
  #busy = false;
  #files = new FileChooser(DOCUMENTS_ID, "Choose documents", session.terms.limits.document_bytes);
  #entries = new Entries(this.#files);
  #advice = new Advice(this.#entries);
  #untouched;
  /** The order whose entries the form has. */
  #from = null;
  #said = h("p", { class: "hint", role: "status" });
  #discard = button("Discard the draft", () => this.#askToDiscard(), { class: "quiet" });
  #submit = h("button", { class: "primary" });

  constructor() {
    this.element = h(
      "form",
      { class: "order", novalidate: true, autocomplete: "off", submit: (event) => this.#send(event) },
      h(
        "div",
        { class: "draft" },
        h(
          "p",
          { class: "hint" },
          "Fields with a * are required. What you enter stays in this browser until the order is created, without " +
            "the documents.",
        ),
        this.#said,
        this.#discard,
      ),
      this.#entries.summary,
      this.#entries.element,
      h("div", { class: "buttons" }, this.#submit),
    );
    const { signing_service_id: bound } = session.terms;
    this.#entries.texts = { ...numbers.read(), ...(bound !== null && { "/signingServiceId": String(bound) }) };
    const orderedBy = this.#entries.control({ pointer: ORDERED_BY });
    orderedBy.value ||= this.#orderedBy;
    this.#entries.control({ pointer: CONTACT }).value ||= session.person?.email ?? "";
    this.#untouched = stringify(this.#entries.texts);
    this.#restore(draft.read());
    for (const event of ["input", "change"]) this.#entries.element.addEventListener(event, () => this.#keep());
    this.#files.onchange = () => this.#keep();
    this.#files.takeDropsOn(this.element);
    this.#setBusy(false);
  }

  /** Who orders, unless the user enters another number: the person who is signed in, or the client of the key. */
  get #orderedBy() {
    return String(session.person?.id ?? session.terms.client_id);
  }

  /** Returns whether the user has entered or chosen something. */
  get isChanged() {
    return this.#files.files.length > 0 || stringify(this.#entries.texts) !== this.#untouched;
  }

  #restore(kept) {
    this.#discard.hidden = !kept;
    if (kept) {
      this.#entries.texts = kept.texts;
      this.#from = kept.from;
      const files = kept.files.length ? ` Choose its documents again: ${kept.files.join(", ")}.` : "";
      this.#said.textContent = `This is your draft.${files}`;
    }
    this.#advice.refresh();
  }

  /** Keeps the draft in this browser. */
  #keep() {
    this.#discard.hidden = !this.isChanged;
    if (this.isChanged) draft.write(this.#draft());
    else draft.clear();
  }

  #draft() {
    return { texts: this.#entries.texts, files: this.#files.files.map((it) => it.name), from: this.#from };
  }

  async #askToDiscard() {
    if (this.#busy) return;
    const lines = ["All entries and chosen documents of this order are removed."];
    if (!(await ask({ title: "Discard the draft?", lines, confirm: "Discard the draft", danger: true }))) return;
    this.#leave();
  }

  /** Ends this form, and shows a new one if this one is shown, below a sentence. */
  #leave(sentence = null) {
    draft.clear();
    if (begun !== this) return;
    begun = null;
    if (!this.element.isConnected) return;
    // The new form has no entries of another order.
    history.replaceState(null, "", "#/new");
    this.show(sentence);
  }

  /** Fills the form with another order, except its file number and dates. */
  async repeat(id) {
    if (this.#busy || this.#from === id) return;
    if (this.isChanged) {
      const lines = ["You have begun another order. Its entries are replaced."];
      if (!(await ask({ title: "Replace your draft?", lines, confirm: "Replace it", danger: true }))) return;
    }
    try {
      const { body } = await request(`api/order/${encodeURIComponent(id)}`);
      const order = { ...body.details, signingServiceId: body.signing_service_id };
      for (const field of FIELDS) {
        const isRepeated = !NOT_REPEATED.includes(field.pointer);
        this.#entries.set(field, isRepeated ? member(order, field.pointer) : undefined);
      }
      this.#entries.showConditional();
      this.#advice.refresh();
      this.bind();
      this.#from = id;
      this.#said.textContent = `The entries are those of order ${id}. Enter the file number and the date.`;
      this.#keep();
      this.#entries.control({ pointer: FILE_NUMBER }).focus();
    } catch (failure) {
      fill(this.#entries.summary, problem(failure));
      this.#entries.summary.focus();
    }
  }

  /** Offers the signing services that the key may name, and sets the only one of a key that is limited to one. */
  async bind() {
    const service = this.#entries.control({ pointer: "/signingServiceId" });
    const bound = session.terms.signing_service_id;
    if (bound !== null) service.value = bound;
    service.readOnly = bound !== null;
    const services = await allServices();
    offerServices(service, services, bound !== null);
    if (services.length !== 1 || service.value) return;
    // There is no choice to make, and none of the user to keep.
    const isUntouched = !this.isChanged;
    this.#entries.set(fieldOf("/signingServiceId"), services[0].signing_service_id);
    if (isUntouched) this.#untouched = stringify(this.#entries.texts);
  }

  /** Returns the order as the operation without documents takes it. */
  #order() {
    const order = { signingContactsFormData: {}, signingDetailsFormData: {}, requestedBy: {} };
    for (const field of FIELDS.filter((it) => this.#entries.isShown(it))) {
      const value = this.#entries.value(field);
      if (value !== undefined) setMember(order, field.pointer, value);
    }
    order.requestedBy.userId ??= new Digits(this.#orderedBy);
    return order;
  }

  async #send(event) {
    event.preventDefault();
    if (this.#busy) return;
    this.#setBusy(true);
    this.#entries.forgetErrors();
    const order = this.#order();
    const { files } = this.#files;
    // The order is created with as many as one request takes. The others follow it.
    const [first = [], ...others] = batches(files);
    const headers = this.#attempts.header(stringify([order, identify(first)]));
    try {
      const sent = files.length
        ? this.#sendForm(order, headers, first, others)
        : request("api/order/create", { method: "POST", json: order, headers });
      const { body, headers: received, unsent = 0 } = await sent;
      // Another user may have the page now.
      if (begun !== this) return;
      const { texts } = this.#entries;
      numbers.write(Object.fromEntries(KEPT.map(({ pointer }) => [pointer, texts[pointer]])));
      this.#end(body, received.has("idempotency-replayed"), files.length > 0, unsent);
    } catch (failure) {
      this.#attempts.learn(failure);
      this.#setBusy(false);
      if (begun !== this) return;
      this.#showFailure(failure);
    }
  }

  /** Says that the order is created. The end of an upload leads to no other view. */
  #end(record, isRepeat, hasFiles, unsent) {
    const { order_id: id } = record;
    forgetNew(id);
    if (!hasFiles) {
      draft.clear();
      begun = null;
      this.created(record, isRepeat);
      return;
    }
    const number = this.#entries.text({ pointer: FILE_NUMBER });
    const done = isRepeat ? `Order ${id} was created by your first click.` : `Order ${id} is created.`;
    const more = unsent ? ` ${count(unsent, "document")} did not arrive: open the order to send them.` : "";
    const sentence = `${done} Its file number is ${number}.${more}`;
    const link = session.may("orders:read") ? { href: `#/order/${id}`, text: `Open order ${id}` } : undefined;
    if (this.element.isConnected) this.#leave([sentence, " ", link && h("a", { href: link.href }, link.text)]);
    else {
      this.#leave();
      toast(sentence, { link, isWarning: unsent > 0 });
    }
  }

  /** Sends the order with its first files, and then the others. Returns the answer, and how many did not arrive. */
  async #sendForm(order, headers, first, others) {
    // A fault that is known now costs no upload.
    const [wrong] = await Promise.allSettled([this.#files.check()]);
    const errors = [...this.#entries.missing, ...(wrong.reason?.errors ?? [])];
    if (errors.length) throw new Failure({ status: 0, code: "file_wrong", errors });
    const form = new FormData();
    for (const [name, value] of Object.entries(order)) {
      form.set(name, typeof value === "string" ? value : stringify(value));
    }
    for (const file of first) form.append("documents", file, file.name);
    const sending = new Sending(this.#files, this.#files.files);
    this.stop = () => sending.stop();
    try {
      const answer = await sending.send("api/order/create-with-documents", form, headers, first);
      return { ...answer, unsent: await this.#sendOthers(sending, answer.body.order_id, others) };
    } finally {
      sending.end();
    }
  }

  /** Adds the other files to the order, each group under a key of its own. Returns how many did not arrive. */
  async #sendOthers(sending, id, others) {
    for (const [at, files] of others.entries()) {
      const form = new FormData();
      for (const file of files) form.append("documents", file, file.name);
      const path = `api/order/${id}/documents`;
      try {
        await sending.send(path, form, new Attempts().header(""), files);
      } catch (failure) {
        if (!(failure instanceof Failure)) throw failure;
        const unsent = others.slice(at).flat();
        leaveFiles(id, unsent);
        return unsent.length;
      }
    }
    return 0;
  }

  #setBusy(busy) {
    this.#busy = busy;
    this.#entries.element.inert = busy;
    // A disabled button would lose the focus.
    this.#submit.setAttribute("aria-disabled", busy);
    this.#submit.textContent = busy ? "Creating the order…" : "Create the order";
  }

  /** Shows a failure, with what follows from its code. */
  #showFailure(failure) {
    const { code, detail } = failure;
    const more = [];
    if (OF_DOCUMENTS.includes(code) && this.#files.files.length) {
      more.push({ pointer: "/documents", detail });
    } else if (code === "payload_too_large") {
      const pointer = "/signingDetailsFormData/specialInstructions";
      more.push({ pointer, detail: "may be too long: shorten them" });
    }
    if (code === "duplicate_order") {
      more.push({ pointer: FILE_NUMBER, detail: "was used just now" });
    }
    this.#entries.showFailure(failure, more);
    if (this.element.isConnected) return;
    toast("The order is not created.", { link: { href: "#/new", text: "See why" } });
  }
}
