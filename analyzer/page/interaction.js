// Whether the user is at something that is lost if a part of the page is drawn again: a press of the mouse, of which
// no click would come, or selected text. New figures of a running program wait for its end.
'use strict';

const interaction = (() => {
let pressed = null;          // the element on which the mouse is pressed
const waiting = new Map();   // part of the page: what is called at the end

function isIn(place) {
  const text = document.getSelection();
  return place.contains(pressed) || (!text.isCollapsed && text.containsNode(place, true));
}
/// Calls `go` when the user is at nothing in this part of the page any more, instead of what else waits for that.
function afterwards(place, go) { waiting.set(place, go); }

function look() {
  for (const [place, go] of [...waiting]) {
    if (isIn(place)) continue;
    waiting.delete(place);
    go();
  }
}
/// The click comes after the release, as a part of the same task.
const lookAfterClick = () => { if (waiting.size) setTimeout(look, 0); };
function release() {
  pressed = null;
  lookAfterClick();
}

document.addEventListener('pointerdown', event => { pressed = event.target; }, true);
for (const kind of ['pointerup', 'pointercancel']) document.addEventListener(kind, release, true);
// The release of a scroll bar is no event in every browser.
document.addEventListener('pointermove', event => { if (pressed && event.buttons === 0) release(); }, true);
document.addEventListener('selectionchange', lookAfterClick);

return {isIn, afterwards};
})();
