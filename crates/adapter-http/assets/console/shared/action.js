// Actions of a view: each is done, and the view shows the new state, or the problem.

import { problem } from "./api.js";
import { showErrors } from "./controls.js";
import { fill } from "./dom.js";
import { toast } from "./toast.js";

/**
 * Returns a function that does something, says `done`, and then calls `show`. A problem stands at `place`, or at
 * the fields of `form` if each error has one. It returns whether all went well. `list` loses its text "Loading…" if
 * nothing was ever shown in it.
 */
export function actions({ place, list, show }) {
  return async (action, done, form) => {
    fill(place);
    try {
      await action();
      if (done) toast(done);
      await show();
      return true;
    } catch (failure) {
      if (form && showErrors(form, failure.errors ?? [])) return false;
      if (list && !list.querySelector("section")) fill(list);
      fill(place, problem(failure));
      place.focus();
      return false;
    }
  };
}
