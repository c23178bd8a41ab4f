// Chooses documents: by a file dialog, or by drag and drop. Shows the progress of their upload.

import { Failure } from "./api.js";
import { announce, button, count, fill, h, said, size } from "./dom.js";

/** What the service accepts. It checks the content itself. */
const FORMATS = ".pdf,.doc,.docx,.jpg,.jpeg,.png";

/** Chooses files. Calls its `onchange`. */
export class FileChooser {
  #files = [];
  #id;
  #input;
  #hint;
  #list = h("ul", { class: "files", "aria-label": "Chosen documents" });
  #error;
  onchange = () => {};

  constructor(id, label = "Documents") {
    const described = `${id}-hint ${id}-error`;
    this.#id = id;
    this.#input = h("input", {
      type: "file", id, accept: FORMATS, "aria-describedby": described,
      change: () => this.#choose(),
    });
    this.#error = h("p", { class: "error", id: `${id}-error` });
    this.#hint = h("p", { class: "hint", id: `${id}-hint` });
    this.element = h(
      "div",
      { class: "drop" },
      h("label", { for: id }, label),
      this.#input,
      this.#hint,
      this.#error,
      this.#list,
    );
    this.isSingle = false;
  }

  /** Sets whether the user chooses one file only. Another file then takes its place. */
  set isSingle(isSingle) {
    this.#input.multiple = !isSingle;
    const number = isSingle ? "Choose one, or drop it here." : "Choose them, or drop them here: up to 20 at a time.";
    this.#hint.textContent = `PDF, Word, JPEG or PNG. ${number}`;
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

  /** Identifies the chosen files. */
  get content() {
    return this.#files.map((file) => [file.name, file.size, file.lastModified]);
  }

  clear() {
    this.#show([]);
  }

  /** Throws a `Failure` if the browser cannot read a file any more: it would break the upload. */
  async check() {
    const isReadable = (file) => file.slice(0, 1).arrayBuffer().then(() => true, () => false);
    const readable = await Promise.all(this.#files.map(isReadable));
    const detail = "changed or moved since; choose it again";
    const errors = this.#files
      .map(({ name }, at) => ({ pointer: `/documents/${at}`, file: name, detail }))
      .filter((_, at) => !readable[at]);
    if (errors.length) throw new Failure({ status: 0, code: "file_changed", errors });
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

  /** Forgets the problems of all files. */
  forgetProblems() {
    this.setProblem("");
    for (const error of this.#list.querySelectorAll(".error")) error.textContent = "";
  }

  #mark(isOver) {
    this.element.classList.toggle("over", isOver);
  }

  #choose() {
    this.#add([...this.#input.files]);
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
    this.#add(items ? [...items].filter(isFile).map((item) => item.getAsFile()) : [...files]);
  }

  #add(more) {
    const isSame = (one) => (other) =>
      one.name === other.name && one.size === other.size && one.lastModified === other.lastModified;
    const added = more.filter((file) => !this.#files.some(isSame(file)));
    if (!added.length) {
      this.setProblem("Nothing was added: folders, and files that are chosen already, do not count.");
      return;
    }
    this.#show(this.#input.multiple ? [...this.#files, ...added] : added.slice(-1));
    announce(`${count(this.#files.length, "document")} chosen.`);
  }

  #remove(file) {
    this.#show(this.#files.filter((other) => other !== file));
    this.#input.focus();
  }

  #show(files) {
    this.#files = files;
    this.setProblem("");
    fill(this.#list, files.map((file, at) => this.#line(file, at)));
    this.onchange();
  }

  #line(file, at) {
    const id = `${this.#id}-${at}`;
    const remove = { id, "aria-label": `Remove ${file.name}`, "aria-describedby": `${id}-error` };
    return h(
      "li",
      {},
      h("span", {}, said(file.name), " ", h("span", { class: "hint" }, size(file.size))),
      h("p", { class: "error", id: `${id}-error` }),
      button("Remove", () => this.#remove(file), remove),
    );
  }
}

/** Returns a progress bar with a button that stops the upload. */
export function progressBar(stop) {
  const bar = h("progress", { max: 1, value: 0, "aria-label": "Upload" });
  const text = h("span", {}, "Sending…");
  const element = h("div", { class: "progress" }, bar, text, button("Stop", stop, { id: "stop-upload" }));
  const set = (part) => {
    bar.value = part;
    const percent = Math.floor(part * 100);
    text.textContent =
      part < 1 ? `Sent ${percent} %` : "Sent. The service checks and stores the documents…";
  };
  return { element, set };
}

const hasFiles = (dataTransfer) => dataTransfer.types.includes("Files");

// A file that misses its target does not replace the page.
for (const event of ["dragover", "drop"]) {
  window.addEventListener(event, (it) => hasFiles(it.dataTransfer) && it.preventDefault());
}
