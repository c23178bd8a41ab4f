// What the tabs of a browser tell each other: that their user has signed in, has signed out, or is at work.

import { BASE } from "../shared/api.js";

export const [SIGNED_IN, SIGNED_OUT, USED] = ["signed in", "signed out", "used"];

const channel = new BroadcastChannel(`notary-orders ${BASE.pathname}`);

/** Tells the other tabs. */
export const tell = (what) => channel.postMessage(what);

/** Does something when another tab tells this. */
export const hear = (what, run) => channel.addEventListener("message", ({ data }) => data === what && run());
