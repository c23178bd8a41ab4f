// Chooses documents: by a file dialog, or by drag and drop. Checks each before anything is sent, and shows the
// progress of its upload.

import { Failure } from "../shared/api.js";
import { announce, button, count, fill, h, said, size } from "../shared/dom.js";

/** What the service accepts: how the names end, and how the contents begin. It checks the whole content itself. */
const FORMATS = [
  { name: "PDF", endings: ["pdf"], begins: (start) => start.includes("%PDF-") },
  { name: "Word", endings: ["doc", "docx"], begins: (start) => /^(PK|\xd0\xcf\x11\xe0)/.test(start) },
  { name: "JPEG", endings: ["jpg", "jpeg"], begins: (start) => start.startsWith("\xff\xd8\xff") },
  { name: "PNG", endings: ["png"], begins: (start) => start.startsWith("\x89PNG") },
];
const ACCEPTED = FORMATS.flatMap(({ endings }) => endings.map((it) => `.${it}`)).join(",");

/** Bytes in which a content begins: the header of a PDF may stand behind white space. */
const START = 1100;

const formatOf = ({ name }) => {
  const ending = name.split(".").at(-1).trim().toLowerCase();
  return FORMATS.find(({ endings }) => endings.includes(ending));
};

/** Returns what is wrong with a file; `null` if nothing is. The browser may not be able to read it any more. */
async function faultOf(file, maxBytes) {
  const format = formatOf(file);
  if (!format) return "must be a PDF, Word, JPEG or PNG file";
  if (file.size === 0) return "is empty";
  if (file.size > maxBytes) return `is too large: at most ${rounded(maxBytes)}`;
  try {
    const bytes = new Uint8Array(await file.slice(0, START).arrayBuffer());
    const start = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
    return format.begins(start) ? null : `is no ${format.name} file inside: open it, and save it again as PDF`;
  } catch {
    return CHANGED;
  }
}

const rounded = (bytes) => size(bytes).replace(".0 ", " ");

/** Documents that an order has at most, with replaced and withdrawn ones. */
export const MOST_DOCUMENTS = 100;

const CHANGED = "changed or moved since; choose it again";

/** Chooses files. Calls its `onchange`. */
export class FileChooser {
  #files = [];
  /** What is wrong with files, and what the service has said of them. */
  #faults = new Map();
  #rejected = new Map();
  #maxBytes;
  #most = 0;
  #id;
  #input;
  #hint;
  #list = h("ul", { class: "files", "aria-label": "Chosen documents" });
  #error;
  onchange = () => {};

  /** `maxBytes` limits the size of each file. */
  constructor(id, label, maxBytes) {
    this.#maxBytes = maxBytes;
    const described = `${id}-hint ${id}-error`;
    this.#id = id;
    this.#input = h("input", {
      type: "file", id, class: "unseen", accept: ACCEPTED, "aria-describedby": described,
      change: () => this.#choose(),
    });
    this.#error = h("p", { class: "error", id: `${id}-error` });
    this.#hint = h("p", { class: "hint", id: `${id}-hint` });
    this.element = h(
      "div",
      { class: "drop" },
      this.#input,
      h("label", { for: id, class: "button" }, label),
      this.#hint,
      this.#error,
      this.#list,
    );
    this.isSingle = false;
    this.most = MOST_DOCUMENTS;
  }

  /** Sets whether the user chooses one file only. Another file then takes its place. */
  set isSingle(isSingle) {
    this.#input.multiple = !isSingle;
    this.#sayLimits();
  }

  /** Sets how many files the order takes. */
  set most(most) {
    if (most === this.#most) return;
    this.#most = most;
    this.#sayLimits();
    if (this.#files.length) this.#inspect();
  }

  #sayLimits() {
    const number = this.#input.multiple ? `Choose or drop up to ${this.#most}` : "Choose one, or drop it here";
    this.#hint.textContent = `${number}: PDF, Word, JPEG or PNG, each up to ${rounded(this.#maxBytes)}.`;
  }

  focus() {
    this.#input.focus();
  }

  /** Takes the files that the user drops anywhere on an element. */
  takeDropsOn(element) {
    element.addEventListener("dragover", ({ dataTransfer }) => this.#mark(hasFiles(dataTransfer)));
    element.addEventListener("dragleave", () => this.#mark(false));
    element.addEventListener("drop", ({ dataTransfer }) => this.#drop(dataTransfer));
  }

  get files() {
    return this.#files;
  }

  /** The files with which nothing is wrong as far as the browser knows. */
  get good() {
    return this.#files.filter((file) => !this.#faults.has(file));
  }

  /** What is wrong with the first wrong file, and how many others are wrong. */
  get reason() {
    const [[file, fault], ...others] = this.#faults;
    return `${file.name} ${fault}${others.length ? `, and ${others.length} more` : ""}.`;
  }

  clear() {
    this.#rejected.clear();
    this.#show([]);
  }

  /** Removes files. */
  remove(files) {
    this.#show(this.#files.filter((file) => !files.includes(file)));
  }

  /**
   * Checks the chosen files. Throws a `Failure` if one is wrong, or cannot be read any more: it would break the
   * upload of the others.
   */
  async check() {
    await this.#inspect();
    const errors = this.#files
      .map((file, at) => ({ pointer: `/documents/${at}`, file: file.name, detail: this.#faults.get(file) }))
      .filter(({ detail }) => detail);
    const code = errors.some(({ detail }) => detail === CHANGED) ? "file_changed" : "file_wrong";
    if (errors.length) throw new Failure({ status: 0, code, errors });
  }

  async #inspect() {
    const files = this.#files;
    const faults = await Promise.all(files.map((file) => faultOf(file, this.#maxBytes)));
    if (files !== this.#files) return;
    files.forEach((file, at) => {
      const excess = at < this.#most ? null : `is too many: the order takes ${this.#most} more`;
      const fault = this.#rejected.get(file) ?? faults[at] ?? excess;
      if (fault) this.#faults.set(file, fault);
      else this.#faults.delete(file);
      this.setFileProblem(at, fault ?? "");
    });
  }

  /** Shows how much of each file is sent, of the bytes of a form; `null` ends it. */
  showProgress(sent, loaded, total) {
    // What is not of a file stands before the files.
    let from = total - sent.reduce((sum, { size }) => sum + size, 0);
    for (const file of sent) {
      const place = this.#list.children[this.#files.indexOf(file)]?.querySelector(".part");
      if (!place) continue;
      if (loaded === null) {
        fill(place);
        continue;
      }
      if (!place.firstChild) {
        fill(place, h("progress", { max: 1, value: 0, "aria-label": `Upload of ${file.name}` }));
      }
      place.firstChild.value = Math.min(1, Math.max(0, (loaded - from) / file.size));
      from += file.size;
    }
  }

  /** Shows a problem of the documents; none if the text is empty. */
  setProblem(text) {
    this.#error.textContent = text;
    if (text) this.#input.setAttribute("aria-invalid", "true");
    else this.#input.removeAttribute("aria-invalid");
  }

  /** Shows the problem of one file. Returns the id of what can have the focus, if there is the file. */
  setFileProblem(at, text) {
    const place = this.#list.children[at]?.querySelector(".error");
    if (!place) return null;
    place.textContent = text;
    return `${this.#id}-${at}`;
  }

  /** Marks a file as wrong: the service has rejected it. */
  reject(file, fault) {
    this.#rejected.set(file, fault);
    this.#faults.set(file, fault);
    this.setFileProblem(this.#files.indexOf(file), fault);
  }

  /** Forgets the problems of the answers before. */
  forgetProblems() {
    this.setProblem("");
    this.#files.forEach((file, at) => this.setFileProblem(at, this.#faults.get(file) ?? ""));
  }

  #mark(isOver) {
    this.element.classList.toggle("over", isOver);
  }

  #choose() {
    this.add([...this.#input.files]);
    this.#input.value = "";
  }

  #drop(dataTransfer) {
    this.#mark(false);
    if (!this.element.isConnected || !hasFiles(dataTransfer)) return;
    if (this.element.closest("[inert]")) {
      announce("Nothing was added: an upload is in progress.");
      return;
    }
    const { items, files } = dataTransfer;
    // A folder has no bytes to send.
    const isFile = (item) => item.kind === "file" && !item.webkitGetAsEntry?.()?.isDirectory;
    this.add(items ? [...items].filter(isFile).map((item) => item.getAsFile()) : [...files]);
  }

  /** Adds files to those that are chosen. */
  async add(more) {
    const isSame = (one) => (other) =>
      one.name === other.name && one.size === other.size && one.lastModified === other.lastModified;
    const added = more.filter((file) => !this.#files.some(isSame(file)));
    if (!added.length) {
      this.setProblem("Nothing was added: folders, and files that are chosen already, do not count.");
      return;
    }
    this.#show(this.#input.multiple ? [...this.#files, ...added] : added.slice(-1));
    await this.#inspect();
    const faults = added.map((file) => [file.name, this.#faults.get(file)]).filter(([, fault]) => fault);
    const wrong = faults.map(([name, fault]) => ` ${name} ${fault}.`).join("");
    announce(`${count(this.#files.length, "document")} chosen.${wrong}`);
  }

  #remove(file) {
    this.remove([file]);
    this.#input.focus();
  }

  #show(files) {
    this.#files = files;
    for (const file of this.#faults.keys()) if (!files.includes(file)) this.#faults.delete(file);
    fill(this.#list, files.map((file, at) => this.#line(file, at)));
    this.forgetProblems();
    this.onchange();
  }

  #line(file, at) {
    const id = `${this.#id}-${at}`;
    const remove = { id, "aria-label": `Remove ${file.name}`, "aria-describedby": `${id}-error` };
    return h(
      "li",
      {},
      h("span", {}, said(file.name), " ", h("span", { class: "hint" }, size(file.size))),
      h("span", { class: "part" }),
      h("p", { class: "error", id: `${id}-error` }),
      button("Remove", () => this.#remove(file), remove),
    );
  }
}

/** Identifies files. */
export const identify = (files) => files.map((file) => [file.name, file.size, file.lastModified]);

const hasFiles = (dataTransfer) => dataTransfer.types.includes("Files");

// A file that misses its target does not replace the page.
for (const event of ["dragover", "drop"]) {
  window.addEventListener(event, (it) => hasFiles(it.dataTransfer) && it.preventDefault());
}
