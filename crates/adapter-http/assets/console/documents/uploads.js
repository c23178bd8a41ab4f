// Uploads in progress, and their indicator in the header, whichever view is open.

import { upload } from "../shared/api.js";
import { announce, button, count, h } from "../shared/dom.js";
import { askBeforeLeaving } from "../shared/leave.js";

const active = new Set();
const list = h("div");

/** The indicator: empty without an upload. */
export const indicator = h("section", { id: "uploads", "aria-label": "Uploads", hidden: true }, list);

askBeforeLeaving(() => active.size > 0);

/**
 * Sends a form with files of a chooser, which shows the progress of each. Returns a promise of the answer, and a
 * function that stops the upload.
 */
export function send(path, form, headers, chooser, files) {
  const number = count(files.length, "document");
  const bar = h("progress", { max: 1, value: 0, "aria-label": `Upload of ${number}` });
  const text = h("span", {}, `Sending ${number}…`);
  const { answer, stop } = upload(path, form, headers, (loaded, total) => {
    bar.value = total ? loaded / total : 0;
    const percent = Math.floor(bar.value * 100);
    text.textContent = bar.value < 1 ? `Sent ${percent} % of ${number}` : `${number} sent; being checked and stored…`;
    chooser.showProgress(files, loaded, total);
  });
  const line = h("div", { class: "progress" }, bar, text, button("Stop", stop, { "aria-label": "Stop the upload" }));
  active.add(line);
  list.append(line);
  indicator.hidden = false;
  announce(`${number} being sent.`);
  const end = () => {
    active.delete(line);
    line.remove();
    indicator.hidden = active.size === 0;
    chooser.showProgress(files, null);
  };
  return { answer: answer.finally(end), stop };
}
