// How many orders need attention, by what is wrong with them.

import { session } from "../shared/api.js";
import { walk } from "./pages.js";

/** Orders that are counted, and pages that are read for it: some have few orders. */
const [MOST, MOST_PAGES] = [1_000, 20];

/** What was counted last, and for which key. */
let counted = { terms: null, total: null, isWhole: true, byCode: new Map() };

/** Returns what was counted last. */
export const lastCount = () =>
  counted.terms === session.terms ? counted : { total: null, isWhole: true, byCode: new Map() };

/** Counts the orders that need attention. */
export async function countAttention() {
  const { terms } = session;
  const byCode = new Map();
  let [number, pages] = [0, 0];
  const isWhole = await walk({ attention: "any" }, (page) => {
    number += page.length;
    for (const { attention } of page) for (const code of attention ?? []) byCode.set(code, (byCode.get(code) ?? 0) + 1);
    return number < MOST && ++pages < MOST_PAGES;
  });
  counted = { terms, total: number, isWhole, byCode };
  return counted;
}

/** Returns a count in few characters. */
export const inFew = ({ total, isWhole }) => `${Math.min(total, MOST).toLocaleString("en-US")}${isWhole ? "" : "+"}`;
