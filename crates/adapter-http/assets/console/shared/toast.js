// Says what was done: a toast that a screen reader also reads. Errors stay at their fields.

import { button, fill, h } from "./dom.js";

/** Seconds for which a toast is shown, and with a link or a warning, which take longer. */
const [SHOWN, SHOWN_WITH_LINK] = [8, 20];

let hiding = null;

/**
 * Shows a sentence. `link` has an address and a text. `isWarning` means that something is left to do. Replaces the
 * toast before.
 */
export function toast(text, { link, isWarning } = {}) {
  const region = document.getElementById("toast");
  const hide = () => {
    // The focus is not lost with the button that has it.
    if (region.contains(document.activeElement)) document.getElementById("main").focus({ preventScroll: true });
    fill(region);
  };
  const follow = link && h("a", { href: link.href, click: hide }, link.text);
  const close = button("×", hide, { "aria-label": "Close the message" });
  // A new element lets screen readers repeat the same sentence.
  fill(region, h("div", { class: isWarning ? "toast warning" : "toast" }, h("span", {}, text), follow, close));
  clearTimeout(hiding);
  const later = () => {
    const isUsed = region.matches(":hover") || region.contains(document.activeElement);
    if (isUsed) hiding = setTimeout(later, SHOWN * 1000);
    else hide();
  };
  hiding = setTimeout(later, (link || isWarning ? SHOWN_WITH_LINK : SHOWN) * 1000);
}
