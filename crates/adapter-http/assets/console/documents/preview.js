// Shows a document in the page: the bytes are a blob of a type that runs nothing.

import { request } from "../shared/api.js";
import { button, h, said } from "../shared/dom.js";

const IMAGES = ["image/jpeg", "image/png"];
const PDF = "application/pdf";

/** Returns whether a browser shows a document. */
export const isShowable = ({ media_type: type }) => type === PDF || IMAGES.includes(type);

/** Shows a document until its reader closes it. `download` saves it. */
export async function preview(it, download) {
  const opener = document.activeElement.id;
  const { body } = await request(it.url, { blob: true });
  const url = URL.createObjectURL(new Blob([body], { type: it.media_type }));
  // Browsers show no PDF in a frame with the attribute `sandbox`. Its viewer is apart from the page anyway, and the
  // type that the service has found lets no markup run.
  const content = IMAGES.includes(it.media_type)
    ? h("img", { src: url, alt: it.name_as_sent })
    : h("iframe", { src: url, title: it.name_as_sent });
  const dialog = h(
    "dialog",
    { class: "preview", "aria-labelledby": "preview-title" },
    h(
      "div",
      { class: "bar" },
      h("h2", { id: "preview-title" }, said(it.name_as_sent)),
      h("div", { class: "row" }, button("Download", download), button("Close", () => dialog.close(), { autofocus: true })),
    ),
    content,
  );
  dialog.addEventListener("close", () => {
    dialog.remove();
    URL.revokeObjectURL(url);
    // The order was read again meanwhile, and the button with the focus is another element.
    document.getElementById(opener)?.focus();
  });
  document.body.append(dialog);
  dialog.showModal();
}
