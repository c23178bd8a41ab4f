// Asks to sign in again in place, when the session has ended or a change needs a fresh sign-in. Entries and chosen files
// stay, and what was asked for is repeated.

import { Failure, problem, session } from "../shared/api.js";
import { button, fill, h } from "../shared/dom.js";
import { readWays, waysToSignIn } from "./sign_in.js";

/** The question that is open: its promise, and what ends it. `null` if there is none. */
let asked = null;

/** The user wants to look at the page first: what it asks by itself opens no further question. */
let isPutOff = false;

const TEXTS = {
  sign_in: ["Your session has ended", "Sign in again to go on. What you have entered and the files that you have chosen stay."],
  confirm: [
    "Sign in again",
    "Changes of people, keys and passkeys need a sign-in of the last five minutes. What you have asked for is done after it.",
  ],
};

/**
 * Returns what asks. `enter` learns who has signed in, and returns whether it is the same one. `isAsked` says that the
 * user has asked for it.
 */
export const signInAgain = (enter) => async (purpose, isAsked = false) => {
  const isWanted = isAsked || purpose === "confirm" || navigator.userActivation?.isActive;
  if (isPutOff && !isWanted) return false;
  asked ??= ask(purpose, enter);
  return asked.answer;
};

/**
 * Ends the question that is open: the same one has signed in, also in another tab, or another one has. Returns whether
 * the user had put it off.
 */
export function settle(isSame) {
  const wasPutOff = isPutOff;
  isPutOff = false;
  asked?.end(isSame);
  return wasPutOff;
}

function ask(purpose, enter) {
  const { promise, resolve, reject } = Promise.withResolvers();
  const [title, text] = [h("h2", { id: "again-title" }), h("p")];
  const place = h("div", {}, h("p", {}, "Loading…"));
  let isOver = false;
  const end = (isSame) => {
    isOver = true;
    asked = null;
    dialog.close();
    if (isSame) resolve(true);
    else reject(new Failure({ status: 0, code: "not_sent" }));
  };
  const dialog = h("dialog", { "aria-labelledby": "again-title", class: "again" }, title, text, place);
  // A user who waits for orders in another tab sees it.
  const before = document.title;
  const asking = `Sign in again – ${before}`;
  document.title = asking;
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (document.title === asking) document.title = before;
    if (isOver) return;
    asked = null;
    isPutOff = purpose === "sign_in";
    resolve(false);
  });
  const show = async () => {
    const hasEnded = purpose === "sign_in";
    fill(title, TEXTS[purpose][0]);
    fill(text, TEXTS[purpose][1]);
    const back = h("div", { class: "buttons" }, button("Back", () => dialog.close()));
    try {
      const failed = (failure) => {
        if (failure.code !== "session_ended" || hasEnded) return;
        purpose = "sign_in";
        show();
      };
      const options = { purpose, isInPlace: true, hasKey: hasEnded && !session.person, done: enter, failed };
      fill(place, waysToSignIn(await readWays(), options), back);
    } catch (failure) {
      fill(place, problem(failure), back);
    }
    place.querySelector("button.primary, input, button").focus();
  };
  document.body.append(dialog);
  dialog.showModal();
  show();
  return { answer: promise, end };
}
