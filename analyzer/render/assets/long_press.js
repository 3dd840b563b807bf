// Tooltips where nothing hovers.
'use strict';

/// Calls `show(event)` when a finger is held on the element, with the event of its press. `show` returns whether it
/// has shown something; then the click that may follow is none.
function onLongPress(element, show) {
  const HOLD_MS = 400;   // a browser selects text, or opens a menu, a little later
  const MOVES = 10;      // pixels by which a finger that is held may move
  let timer = 0, pressed = null, isShown = false;
  const listen = (kind, listener) => element.addEventListener(kind, listener, true);
  const end = () => {
    clearTimeout(timer);
    pressed = null;
  };
  listen('pointerdown', event => {
    end();
    isShown = false;
    if (event.pointerType === 'mouse' || !event.isPrimary) return;
    pressed = event;
    timer = setTimeout(() => { isShown = show(event); }, HOLD_MS);
  });
  listen('pointermove', ({clientX, clientY}) => {
    if (pressed && Math.hypot(clientX - pressed.clientX, clientY - pressed.clientY) > MOVES) end();
  });
  for (const kind of ['pointerup', 'pointercancel']) listen(kind, end);
  listen('click', event => {
    if (!isShown || event.detail === 0) return;   // 0: of a key
    isShown = false;
    event.preventDefault();
    event.stopImmediatePropagation();
  });
}
