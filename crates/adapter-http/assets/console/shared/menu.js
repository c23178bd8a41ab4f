// A button that opens a menu of actions (the pattern “menu button” of the ARIA guide).

import { button, h } from "./dom.js";

/** Returns the button and its menu. Each action has a label, what it does, and attributes. */
export function menu(label, name, id, actions) {
  const entries = actions.filter(Boolean);
  const items = entries.map(([text, run, attributes]) => {
    const click = () => {
      close(true);
      run();
    };
    return button(text, click, { role: "menuitem", tabindex: "-1", ...attributes });
  });
  const list = h("div", { role: "menu", "aria-label": name, hidden: true, keydown: (event) => move(event) }, items);
  const opener = button(label, () => (list.hidden ? open(0) : close(true)), {
    id, "aria-label": name, "aria-haspopup": "menu", "aria-expanded": "false",
    keydown: (event) => {
      if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
      event.preventDefault();
      open(event.key === "ArrowDown" ? 0 : items.length - 1);
    },
  });
  const root = h("div", { class: "menu" }, opener, list);

  const outside = ({ target }) => root.contains(target) || close(false);

  function open(at) {
    list.hidden = false;
    opener.setAttribute("aria-expanded", "true");
    document.addEventListener("pointerdown", outside);
    items[at].focus();
  }

  function close(returnsFocus) {
    list.hidden = true;
    opener.setAttribute("aria-expanded", "false");
    document.removeEventListener("pointerdown", outside);
    if (returnsFocus) opener.focus();
  }

  function move(event) {
    const at = items.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      items.at(to % items.length).focus();
    } else if (event.key === "Escape") {
      close(true);
    } else if (event.key === "Tab") {
      close(false);
    }
  }

  return root;
}
