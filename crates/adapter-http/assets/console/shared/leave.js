// Asks before the page is left with something that would be lost.

const reasons = [];

/** Asks if `isUnsaved` is true when the page is left. */
export const askBeforeLeaving = (isUnsaved) => reasons.push(isUnsaved);

addEventListener("beforeunload", (event) => {
  if (reasons.some((isUnsaved) => isUnsaved())) event.preventDefault();
});
