// Chooses documents: by a file dialog, or by drag and drop. Shows the progress of their upload.

import { announce, button, count, fill, h, said, size } from "./dom.js";

/** What the service accepts. It checks the content itself. */
const FORMATS = ".pdf,.doc,.docx,.jpg,.jpeg,.png";

/** Returns the chooser: its element, and functions for its files. It calls its `onchange`. */
export function fileChooser(id) {
  let files = [];
  const input = h("input", { type: "file", id, multiple: true, accept: FORMATS, change: chosen });
  const list = h("ul", { class: "files", "aria-label": "Chosen documents" });
  const error = h("p", { class: "error", id: `${id}-error` });
  input.setAttribute("aria-describedby", `${id}-hint ${id}-error`);
  const zone = h(
    "div",
    { class: "drop", dragover: over, dragleave: leave, drop: dropped },
    h("label", { for: id }, "Documents"),
    input,
    h(
      "p",
      { class: "hint", id: `${id}-hint` },
      "PDF, Word, JPEG or PNG. Choose them, or drop them here: up to 20 at a time.",
    ),
    error,
    list,
  );

  function over(event) {
    event.preventDefault();
    zone.classList.add("over");
  }
  function leave() {
    zone.classList.remove("over");
  }
  function dropped(event) {
    event.preventDefault();
    leave();
    // A folder has no bytes to send.
    const isFile = (item) => item.kind === "file" && !item.webkitGetAsEntry?.()?.isDirectory;
    const found = [...event.dataTransfer.items].filter(isFile).map((item) => item.getAsFile());
    add(found.length ? found : [...event.dataTransfer.files]);
  }
  function chosen() {
    add([...input.files]);
    input.value = "";
  }
  function add(more) {
    const isSame = (one) => (other) =>
      one.name === other.name && one.size === other.size && one.lastModified === other.lastModified;
    files = [...files, ...more.filter((file) => !files.some(isSame(file)))];
    announce(`${count(files.length, "document")} chosen.`);
    show();
  }
  function remove(file) {
    files = files.filter((other) => other !== file);
    show();
    input.focus();
  }
  function show() {
    setProblem("");
    fill(list, files.map(line));
    chooser.onchange();
  }
  function line(file, at) {
    const name = said(file.name);
    return h(
      "li",
      {},
      h("span", {}, name, " ", h("span", { class: "hint" }, size(file.size))),
      h("p", { class: "error", id: `${id}-${at}-error` }),
      button("Remove", () => remove(file), { id: `${id}-${at}`, "aria-label": `Remove ${file.name}` }),
    );
  }
  function setProblem(text) {
    error.textContent = text;
    if (text) input.setAttribute("aria-invalid", "true");
    else input.removeAttribute("aria-invalid");
  }

  const chooser = {
    element: zone,
    onchange: () => {},
    files: () => files,
    /** Returns what differs if the files do. */
    content: () => files.map((file) => [file.name, file.size, file.lastModified]),
    clear: () => {
      files = [];
      show();
    },
    setProblem,
    /** Shows the problem of one file. Returns the identifier of what can be focused, if it is there. */
    setFileProblem: (at, text) => {
      const place = list.children[at]?.querySelector(".error");
      if (!place) return null;
      place.textContent = text;
      return `${id}-${at}`;
    },
  };
  return chooser;
}

/** Returns a progress bar with a button that stops the upload. */
export function progressBar(stop) {
  const bar = h("progress", { max: 1, value: 0, "aria-label": "Upload" });
  const text = h("span", {}, "Sending…");
  const element = h("div", { class: "progress" }, bar, text, button("Stop", stop));
  const set = (part) => {
    bar.value = part;
    const percent = Math.floor(part * 100);
    text.textContent =
      part < 1 ? `Sent ${percent} %` : "Sent. The service checks and stores the documents…";
  };
  return { element, set };
}

// A file that misses its target does not replace the page.
for (const event of ["dragover", "drop"]) {
  window.addEventListener(event, (it) => it.preventDefault());
}
