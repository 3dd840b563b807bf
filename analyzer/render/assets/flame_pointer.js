// The mouse, and fingers, on the frames of a flame graph. Needs long_press.js.
'use strict';

/// `svg`: the frames. `boxAt(place)`: the box at a place of the window, {clientX, clientY}, or null.
/// `point(box, clientX, clientY)`: marks the box and shows its tooltip there; point(null) removes both.
/// `onClick(box)`: of a box, or null.
function flamePointer(svg, {boxAt, point, onClick}) {

let mouse = null;      // where it is over the frames
// While the tooltip is that of a finger, movements of the mouse are those that the browser makes when it is lifted.
let isHeld = false;
const show = ({clientX, clientY}) => {
  const box = boxAt({clientX, clientY});
  point(box, clientX, clientY);
  return box !== null;
};
svg.addEventListener('pointermove', ({pointerType}) => { if (pointerType === 'mouse') isHeld = false; });
svg.addEventListener('mousemove', ({clientX, clientY}) => {
  if (isHeld) return;
  mouse = {clientX, clientY};
  show(mouse);
});
svg.addEventListener('mouseleave', () => {
  if (isHeld) return;
  mouse = null;
  point(null);
});
/// The tooltip of a finger stays until the next press.
function hold() {
  isHeld = true;
  document.addEventListener('pointerdown', () => {
    isHeld = false;
    mouse = null;
    point(null);
  }, {once: true, capture: true});
}
onLongPress(svg, ({clientX, clientY}) => {
  if (!boxAt({clientX, clientY})) return false;
  mouse = {clientX, clientY};
  show(mouse);
  hold();
  return true;
});
svg.addEventListener('click', event => onClick(boxAt(event)));

return {
  state: () => ({mouse, isHeld}),
  /// For a graph that is drawn in the place of another one, of which `former` is the state.
  takeOver(former) {
    mouse = former.mouse;
    if (former.isHeld) hold();
  },
  /// Shows the tooltip again, without a movement.
  showAgain() { if (mouse) show(mouse); },
};
}
