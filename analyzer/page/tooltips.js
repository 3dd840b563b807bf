// Tooltips where nothing hovers. A finger that is held on an element shows its tooltip, which stays until the next
// press, and chooses nothing. The frames of flame graphs have tooltips of their own.
'use strict';

(() => {
const MARGIN = 8, FINGER = 24;   // pixels to the edges of the window, and to the finger
const place = document.getElementById('tooltip');

/// The tooltip as a browser finds it: that of the innermost element that has one.
function textOf(element) {
  for (let node = element; node; node = node.parentElement) {
    const title = node instanceof SVGElement ? [...node.children].find(child => child.localName === 'title') : null;
    const text = title ? title.textContent : node.title;
    if (text) return text;
  }
  return '';
}

function show({target, clientX, clientY, pointerId, pointerType}) {
  // In a field, the browser's menu is needed to paste.
  const text = target.closest('input, select, textarea') ? '' : textOf(target);
  if (text === '') return false;
  place.textContent = text;
  place.hidden = false;
  const {width, height} = place.getBoundingClientRect();
  const within = (wanted, size, room) => Math.max(MARGIN, Math.min(wanted, room - size - MARGIN));
  const above = clientY - height - FINGER;
  place.style.left = `${within(clientX - width / 2, width, innerWidth)}px`;
  place.style.top = `${above >= MARGIN ? above : within(clientY + FINGER, height, innerHeight)}px`;
  feedback.announce(text);
  // What acts when it is released, as the timeline, chooses nothing, either.
  target.dispatchEvent(new PointerEvent('pointercancel', {bubbles: true, pointerId, pointerType}));
  return true;
}

const hide = () => { place.hidden = true; };
for (const kind of ['pointerdown', 'keydown', 'scroll', 'hashchange']) window.addEventListener(kind, hide, true);
onLongPress(document, show);
// The menu of a link stays reachable. Another one would cover the tooltip.
document.addEventListener('contextmenu', event => {
  if (!place.hidden && !event.target.closest('a')) event.preventDefault();
});
})();
