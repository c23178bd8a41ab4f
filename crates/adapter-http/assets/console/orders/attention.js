// How many orders need attention, by what is wrong with them.

import { session } from "../shared/api.js";
import { walk } from "./pages.js";

/** Orders that are counted. */
const MOST = 1_000;

/** What was counted last, and for which key. */
let counted = { terms: null, total: null, byCode: new Map() };

/** Returns what was counted last. */
export const lastCount = () => (counted.terms === session.terms ? counted : { total: null, byCode: new Map() });

/** Counts the orders that need attention. */
export async function countAttention() {
  const { terms } = session;
  const byCode = new Map();
  let number = 0;
  await walk({ attention: "any" }, (page) => {
    number += page.length;
    for (const { attention } of page) for (const code of attention ?? []) byCode.set(code, (byCode.get(code) ?? 0) + 1);
    return number < MOST;
  });
  counted = { terms, total: number, byCode };
  return counted;
}

/** Returns a count in few characters. */
export const inFew = (number) => (number >= MOST ? `${MOST.toLocaleString("en-US")}+` : String(number));
