// Notices that a user has been away for long. What the page asks by itself would keep the session until its last hour.

import { session } from "../shared/api.js";
import { USED, hear, tell } from "./tabs.js";

/** Seconds between two looks, and between two messages to the other tabs. */
const PERIOD = 15;

const SIGNS = ["pointerdown", "pointermove", "keydown", "input", "wheel", "scroll", "touchmove"];

/** Calls `end` when the user has been away from every tab for as long as the session allows. `isBusy` prevents it. */
export function watchUse(isBusy, end) {
  let usedAt = Date.now();
  let toldAt = 0;
  const use = () => {
    usedAt = Date.now();
    if (usedAt - toldAt < PERIOD * 1000) return;
    toldAt = usedAt;
    tell(USED);
  };
  for (const sign of SIGNS) addEventListener(sign, use, { capture: true, passive: true });
  hear(USED, () => (usedAt = Date.now()));
  setInterval(() => {
    if (!session.own || isBusy()) use();
    else if (Date.now() - usedAt >= session.own.idle_seconds * 1000) {
      use();
      end();
    }
  }, PERIOD * 1000);
}
