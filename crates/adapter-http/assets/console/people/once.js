// What is shown only once: the link of an invitation, and a new key. It is in this page only, and nowhere in the browser.

import { button, card, fill, focusHeading, h, said } from "../shared/dom.js";
import { copy } from "../shared/copy.js";
import { askBeforeLeaving } from "../shared/leave.js";

/** The place of a text that is shown only once. It stays while its user looks at other views. */
class Once {
  element = h("div", { tabindex: "-1" });
  isShown = false;

  /** Shows a text below sentences. `noun` is what a screen reader calls it, and `done` the button that hides it. */
  show({ title, lines, text, noun, done }) {
    const code = h("code", {}, text);
    const hide = () => {
      this.forget();
      focusHeading();
    };
    const buttons = h(
      "div",
      { class: "buttons" },
      button("Copy", () => copy(code), { class: "primary", "aria-label": `Copy ${noun}` }),
      button(done, hide),
    );
    fill(this.element, card(title, lines.map((line) => h("p", {}, line)), h("p", {}, code), buttons));
    this.isShown = true;
    this.element.focus();
    this.element.scrollIntoView({ block: "nearest" });
  }

  forget() {
    this.isShown = false;
    fill(this.element);
  }
}

const [link, key] = [new Once(), new Once()];

askBeforeLeaving(() => key.isShown);

/** The places of a link and of a key. */
export const [linkPlace, keyPlace] = [link.element, key.element];

/** Shows the link of an invitation. */
export function showLink(name, { link: text, mailed }) {
  const isMailed = mailed
    ? "It was mailed, too."
    : "It was not mailed. Give it over a safe way: the first one who opens it and accepts is this person.";
  link.show({
    title: "The link of the invitation",
    lines: [["For ", said(name), ". It is shown this once, works once, and ends after 7 days."], isMailed],
    text,
    noun: "the link",
    done: "Done",
  });
}

/** Shows a new key. */
export function showKey(name, text, sentence) {
  const lines = [["“", said(name), "”. Store it now, where the program reads it: it is shown this once."], sentence];
  key.show({ title: "The new key", lines: lines.filter(Boolean), text, noun: "the key", done: "I have stored it" });
}

/** Returns whether a key is shown that its user has not stored. */
export const hasKeyOnce = () => key.isShown;

export function forgetOnce() {
  link.forget();
  key.forget();
}
