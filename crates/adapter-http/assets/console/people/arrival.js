// Takes out of the address what must not stay there, before anything else: the token of an invitation, and what the
// login of a company has sent along.

/** Returns what the address brings, and cleans it; `null` if it brings nothing. */
function arrive() {
  const [, kind, token] = /^#(invite|welcome)=(.*)$/.exec(location.hash) ?? [];
  const sent = new URLSearchParams(location.search);
  const isLogin = sent.has("state") || sent.has("error");
  if (!kind && !isLogin) return null;
  history.replaceState(null, "", location.pathname);
  if (kind) return { token, isWelcome: kind === "welcome" };
  const [state, code] = [sent.get("state") ?? "", sent.get("code") ?? ""];
  return { login: { state, code, issuer: sent.get("iss"), error: sent.get("error") } };
}

/** What the address has brought last. */
let brought = arrive();

/** Returns what the address brings that was not taken yet; `null` if it brings nothing. */
export function takeArrival() {
  const arrival = brought ?? arrive();
  brought = null;
  return arrival;
}
