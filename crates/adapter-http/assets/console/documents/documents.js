// The documents of an order of one kind, and what the side that uploads them does with them.

import { Attempts, Failure, request, session } from "../shared/api.js";
import { ask, button, card, count, fill, focusHeading, h, instant, moment, said, save, size, table } from "../shared/dom.js";
import { entriesAt, keepEntry } from "../shared/draft.js";
import { FileChooser, MOST_DOCUMENTS, identify } from "./files.js";
import { askBeforeLeaving } from "../shared/leave.js";
import { nameOf } from "../order/history.js";
import { isShowable, preview } from "./preview.js";
import { toast } from "../shared/toast.js";
import { Sending, batches } from "./uploads.js";
import { format, party, role } from "../shared/words.js";

/** The two kinds: their member of an order, which is also the end of the path; who reads them; and their texts. */
export const TO_SIGN = {
  member: "documents",
  path: "documents",
  id: "add",
  reader: "service",
  title: "Documents",
  label: "Choose documents",
  limit: "document_bytes",
  noun: "document",
  none: "This order has no documents.",
  add: "Add documents",
  send: "Add these documents",
  done: "The documents are added.",
  verb: "added",
};
export const SIGNED = {
  member: "signed_documents",
  path: "signed-documents",
  id: "add-signed",
  reader: "client",
  title: "Signed documents",
  label: "Choose signed documents",
  limit: "signed_document_bytes",
  noun: "signed document",
  none: "There are no signed documents yet.",
  add: "Upload signed documents",
  send: "Upload these signed documents",
  done: "The signed documents are uploaded.",
  verb: "uploaded",
};

/** Files that a new order has not taken, by its number: its page offers to send them. */
const left = new Map();

/** Leaves files to the page of an order. */
export const leaveFiles = (id, files) => left.set(String(id), files);

askBeforeLeaving(() => left.size > 0);

export class Documents {
  #kind;
  #path;
  #run;
  #addition;

  /** `run` does something, and shows the order as it is then. */
  constructor(kind, id, path, run) {
    [this.#kind, this.#path, this.#run] = [kind, `${path}/${kind.path}`, run];
    this.#addition = new Addition(kind, id, this.#path, run);
  }

  /** Returns whether files are chosen or being sent. */
  get hasFiles() {
    return this.#addition.hasFiles;
  }

  /** Stops the upload. */
  stop() {
    this.#addition.stop();
  }

  /** Lets the user choose the files of an upload. */
  choose() {
    this.#addition.choose();
  }

  /** Returns the card. `may` says whether the user may add and replace, and whether the user may withdraw. */
  card(order, may) {
    const { title, none } = this.#kind;
    const documents = order[this.#kind.member];
    this.#addition.documents = documents;
    const content = documents.length ? this.#table(order, documents, may) : h("p", {}, none);
    return card(title, content, may.add && this.#addition.element);
  }

  #table(order, documents, may) {
    const { noun, reader } = this.#kind;
    const byPosition = new Map(documents.map((it) => [it.position, it]));
    const nameAt = (position) => said(nameOf(byPosition.get(position)));
    const notes = (it) => [
      it.replaced_by !== null && h("div", { class: "hint" }, "Replaced by ", nameAt(it.replaced_by)),
      it.replaces !== null && h("div", { class: "hint" }, "Replaces ", nameAt(it.replaces)),
      it.withdrawn_at && h("div", { class: "hint" }, "Withdrawn ", instant(it.withdrawn_at)),
    ];
    const cells = (it) => [
      h("div", { class: isCurrent(it) ? "name" : "name former" }, this.#name(it), notes(it)),
      format(it.media_type),
      size(it.size),
      moment(it.created_at),
      h(
        "span",
        { title: h("span", {}, party(it.uploaded_by, order, it.by)).textContent },
        it.by ? said(it.by) : role(it.uploaded_by),
      ),
      it.first_downloaded_at ? moment(it.first_downloaded_at) : "Not yet",
      it.withdrawn_at ? "None" : h("div", { class: "row" }, this.#actions(it, may)),
    ];
    const stored = documents.filter((it) => !it.withdrawn_at).length;
    const current = documents.filter(isCurrent).length;
    const former = stored > current ? `, and ${stored - current} replaced` : "";
    const heads = ["Name", "Kind", "Size", "Added", "By", `Fetched by ${reader}`, "Actions"];
    const all = button("Download all", () => this.#run(() => this.#downloadAll(order), "Downloaded."), {
      "aria-label": `Download all ${noun}s`, id: `${this.#kind.id}-download-all`,
    });
    const rows = table(`${count(current, noun)}${former}`, heads, documents.toSorted(byState).map(cells));
    rows.classList.add("documents");
    return [rows, stored > 0 && h("p", { class: "buttons" }, all)];
  }

  /** Returns the name of a document, which shows it if a browser can. */
  #name(it) {
    const name = said(nameOf(it));
    if (it.withdrawn_at || !isShowable(it)) return name;
    const show = () => this.#run(() => preview(it, () => download(it)));
    return button(name, show, { "aria-label": `Preview ${nameOf(it)}`, id: `${this.#kind.id}-Preview-${it.position}` });
  }

  /** Saves all documents as one archive, which the service makes. */
  async #downloadAll(order) {
    const { body } = await request(`${this.#path}.zip`, { blob: true });
    save(body, `${order.file_number.replace(/[^\p{L}\p{N}._-]+/gu, "_")}-${this.#kind.path}.zip`);
  }

  #actions(it, may) {
    const name = nameOf(it);
    const action = (verb, click, more = {}) =>
      button(verb, click, { "aria-label": `${verb} ${name}`, id: `${this.#kind.id}-${verb}-${it.position}`, ...more });
    return [
      action("Download", () => this.#run(() => download(it), "Downloaded.")),
      may.replace && isCurrent(it) && action("Replace", () => this.#addition.replace(it)),
      may.withdraw && action("Withdraw", () => this.#withdraw(it), { class: "danger" }),
    ];
  }

  async #withdraw(it) {
    const confirmed = await ask({
      title: "Withdraw this document?",
      lines: [
        said(nameOf(it)),
        "The file and its name are deleted at once, for both sides. This cannot be undone. The order keeps " +
          "when it was withdrawn.",
        it.first_downloaded_at
          ? ["The other side downloaded it ", instant(it.first_downloaded_at), " and may have a copy."]
          : "The other side has not downloaded it.",
      ],
      confirm: "Withdraw the document",
      danger: true,
    });
    if (confirmed) this.#run(() => request(`${this.#path}/${it.position}`, { method: "DELETE" }), "Withdrawn.");
  }
}

/** Adds documents to an order, or replaces one. */
class Addition {
  #kind;
  #id;
  #path;
  #run;
  #isBusy = false;
  #replaced = null;
  #attempts = new Attempts();
  /** The request of each file. A repeat has the same files, so that its key is the same. */
  #groups = new Map();
  #files;
  #title = h("h3");
  #again = h("p", { class: "advice" });
  #send;
  #keep = button("Keep the old document", () => this.#leave(), { hidden: true });
  /** Stops the upload. */
  stop = () => {};
  #documents = [];

  constructor(kind, id, path, run) {
    [this.#kind, this.#id, this.#path, this.#run] = [kind, id, path, run];
    this.#files = new FileChooser(`${kind.id}-documents`, kind.label, session.terms.limits[kind.limit]);
    this.#send = button("", () => this.#add(), { hidden: true, class: "primary", id: `${kind.id}-send` });
    const buttons = h("div", { class: "row" }, this.#send, this.#keep);
    this.element = h("div", { class: "adding" }, this.#title, this.#again, this.#files.element, buttons);
    this.#files.takeDropsOn(this.element);
    this.#begin(null);
    const names = entriesAt(id)[kind.path] ?? [];
    if (names.length) this.#again.textContent = `Choose these again, which were not sent: ${names.join(", ")}.`;
    this.#files.onchange = () => this.#changed();
    const files = kind === TO_SIGN && left.get(String(id));
    if (files) {
      left.delete(String(id));
      this.#files.add(files);
    }
  }

  /** Sets the documents that the order has. */
  set documents(documents) {
    this.#documents = documents;
    this.#files.most = Math.max(0, MOST_DOCUMENTS - documents.length);
  }

  get hasFiles() {
    return this.#isBusy || this.#files.files.length > 0;
  }

  /** Keeps the names of the files, which a reload of the page loses. */
  #changed() {
    const names = this.#files.files.map(({ name }) => name);
    this.#send.hidden = !names.length;
    this.#again.textContent = "";
    keepEntry(this.#id, this.#kind.path, names.length ? names : null);
  }

  /** Lets the user choose the file that replaces a document. */
  replace(document) {
    if (this.#isBusy) return;
    this.#begin(document);
    this.#files.focus();
  }

  choose() {
    this.element.scrollIntoView({ block: "center" });
    this.#files.focus();
  }

  #begin(replaced) {
    const { add, send } = this.#kind;
    this.#replaced = replaced;
    this.#groups.clear();
    this.#files.clear();
    this.#files.isSingle = replaced !== null;
    fill(this.#title, replaced ? ["Replace ", said(nameOf(replaced))] : add);
    this.#send.textContent = replaced ? "Replace the document" : send;
    this.#keep.hidden = !replaced;
  }

  /** Leaves the replacement. */
  #leave() {
    if (this.#isBusy) return;
    this.#begin(null);
    this.#files.focus();
  }

  async #add() {
    if (this.#isBusy) return;
    this.#setBusy(true);
    try {
      await this.#run(() => this.#upload());
    } finally {
      this.#setBusy(false);
    }
  }

  /** Keeps the files as they are while they are sent. */
  #setBusy(isBusy) {
    this.#isBusy = isBusy;
    this.#files.element.inert = isBusy;
    this.#send.setAttribute("aria-disabled", isBusy);
  }

  /** Sends the files with which nothing is wrong, and says so. The others stay, each with its error. */
  async #upload() {
    const wrong = await this.#files.check().catch((failure) => failure);
    const files = this.#files.good;
    if (!files.length) throw wrong;
    if (this.#replaced === null && !(await this.#areMeant(files))) return;
    const sending = new Sending(this.#files, files);
    this.stop = () => sending.stop();
    const sent = [];
    let failure = null;
    try {
      for (const group of this.#grouped(files)) sent.push(...(await this.#post(sending, group)));
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      failure = error;
    } finally {
      sending.end();
    }
    // Nothing has arrived: the order is as it was.
    if (!sent.length) {
      failure ??= await this.#files.check().catch((it) => it);
      if (!this.element.isConnected) toast(`The upload failed: ${failure.sentence}`, { link: this.#link });
      throw failure;
    }
    this.#end(sent, failure);
    if (failure) this.#files.setProblem(failure.sentence);
  }

  /** Returns files by the requests that send them. */
  #grouped(files) {
    const fresh = files.filter((file) => !this.#groups.has(file));
    for (const group of batches(fresh)) for (const file of group) this.#groups.set(file, group);
    return Map.groupBy(files, (file) => this.#groups.get(file)).values();
  }

  /**
   * Sends files in one request, under a key of their own. One that the service rejects does not cost the others.
   * Returns those that the order has now.
   */
  async #post(sending, files) {
    const replaced = this.#replaced?.position ?? null;
    const form = new FormData();
    if (replaced !== null) form.append("replaces", replaced);
    for (const file of files) form.append("documents", file, file.name);
    const headers = this.#attempts.header(JSON.stringify([replaced, identify(files)]));
    try {
      await sending.send(this.#path, form, headers, files);
      return files;
    } catch (failure) {
      this.#attempts.learn(failure);
      const rejected = (failure.errors ?? []).map((error) => [error, files[error.pointer?.split("/")[2]]]);
      for (const [error, file] of rejected.filter(([, file]) => file)) {
        error.file = file.name;
        this.#files.reject(file, error.detail);
      }
      if (!rejected.length || !rejected.every(([, file]) => file)) throw failure;
      const others = files.filter((file) => this.#files.good.includes(file));
      if (!others.length && files.length === this.#files.files.length) throw failure;
      return others.length ? this.#post(sending, others) : [];
    }
  }

  /** Asks about files that the order seems to have. Returns whether the user means to send them. */
  async #areMeant(files) {
    const current = this.#documents.filter(isCurrent);
    // A repeat of a request stores nothing twice.
    const fresh = files.filter((file) => !this.#groups.has(file));
    const again = fresh.filter(({ name, size }) => current.some((it) => nameOf(it) === name && it.size === size));
    if (!again.length) return true;
    const values = await ask({
      title: "Send it again?",
      lines: ["The order already has a document of the same name and size:", ...again.map(({ name }) => said(name))],
      confirm: "Send it again",
    });
    return values !== null;
  }

  #end(files, failure) {
    const isWhole = files.length === this.#files.files.length;
    const done = this.#replaced ? "The document is replaced." : this.#kind.done;
    // The button of the documents that are added vanishes.
    if (isWhole && this.element.contains(document.activeElement)) focusHeading();
    const isShown = this.element.isConnected;
    if (isWhole) this.#begin(null);
    else this.#files.remove(files);
    const link = isShown ? undefined : this.#link;
    if (isWhole) return toast(done, { link });
    const reason = failure ? "the upload broke off. Send them again." : this.#files.reason;
    toast(`${files.length} ${this.#kind.verb}, ${this.#files.files.length} not sent: ${reason}`, { link, isWarning: true });
  }

  /** The link to the order. */
  get #link() {
    return { href: `#/order/${this.#id}`, text: `Open order ${this.#id}` };
  }
}

/** Returns whether a document is neither replaced nor withdrawn. */
const isCurrent = (it) => it.replaced_by === null && !it.withdrawn_at;

/** Compares documents: current ones come first, withdrawn ones last. */
const byState = (one, other) => stateOf(one) - stateOf(other);
const stateOf = (it) => (it.withdrawn_at ? 2 : Number(!isCurrent(it)));

/** Saves a document under the name that it was sent with. */
async function download(it) {
  const { body } = await request(it.url, { blob: true });
  save(body, it.name_as_sent);
}
