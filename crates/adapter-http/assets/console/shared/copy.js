// Copies what is shown, and what is shown only once.

import { toast } from "./toast.js";

/** Copies the text of an element. A page without TLS has no clipboard, but can copy what is selected. */
export async function copy(element) {
  try {
    await navigator.clipboard.writeText(element.textContent);
    toast("Copied.");
  } catch {
    getSelection().selectAllChildren(element);
    if (document.execCommand("copy")) toast("Copied.");
    else toast("The browser does not let this page copy. The secret is selected: copy it with Ctrl+C.");
  }
}
