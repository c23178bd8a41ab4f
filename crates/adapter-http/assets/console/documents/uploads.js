// Uploads in progress, and their indicator in the header, whichever view is open.

import { session, upload } from "../shared/api.js";
import { announce, button, count, h } from "../shared/dom.js";
import { askBeforeLeaving } from "../shared/leave.js";

const active = new Set();
const list = h("div");

/** The indicator: empty without an upload. */
export const indicator = h("section", { id: "uploads", "aria-label": "Uploads", hidden: true }, list);

/** Returns whether something is being sent. */
export const isUploading = () => active.size > 0;

askBeforeLeaving(isUploading);

/** The sending of files of a chooser, in one request or several. It has one line in the indicator. */
export class Sending {
  #chooser;
  #number;
  #bytes;
  /** The bytes of the requests that have ended. */
  #done = 0;
  #stop = () => {};
  #bar;
  #text;
  #line;

  constructor(chooser, files) {
    this.#chooser = chooser;
    this.#number = count(files.length, "document");
    this.#bytes = files.reduce((sum, { size }) => sum + size, 0);
    this.#bar = h("progress", { max: 1, value: 0, "aria-label": `Upload of ${this.#number}` });
    this.#text = h("span", {}, `Sending ${this.#number}…`);
    const stop = button("Stop", () => this.stop(), { "aria-label": "Stop the upload" });
    this.#line = h("div", { class: "progress" }, this.#bar, this.#text, stop);
    active.add(this.#line);
    list.append(this.#line);
    indicator.hidden = false;
    announce(`${this.#number} being sent.`);
  }

  stop() {
    this.#stop();
  }

  /** Sends a form with some of the files. Returns the answer. */
  async send(path, form, headers, files) {
    const bytes = files.reduce((sum, { size }) => sum + size, 0);
    const { answer, stop } = upload(path, form, headers, (loaded, total) => {
      this.#bar.value = total ? (this.#done + (loaded / total) * bytes) / this.#bytes : 0;
      const percent = Math.floor(this.#bar.value * 100);
      const isSent = this.#bar.value >= 1;
      this.#text.textContent = isSent
        ? `${this.#number} sent; being checked and stored…`
        : `Sent ${percent} % of ${this.#number}`;
      this.#chooser.showProgress(files, loaded, total);
    });
    this.#stop = stop;
    try {
      return await answer;
    } finally {
      this.#done += bytes;
      this.#chooser.showProgress(files, null);
    }
  }

  /** Removes the line. */
  end() {
    active.delete(this.#line);
    this.#line.remove();
    indicator.hidden = active.size === 0;
  }
}

/** Returns files in groups of which one request takes each. */
export function batches(files) {
  const most = session.terms.limits.documents_per_request;
  return Array.from({ length: Math.ceil(files.length / most) }, (_, at) => files.slice(at * most, (at + 1) * most));
}
