// The position in a list of rows that may be higher than an element can be. Browsers limit the height of an element,
// so the rows of a long list move past the element: `shift` is how many pixels a row is lower in the list than in the
// element. The scroll bar shows the share of the list. Yet scrolling by a wheel, a gesture or a key moves the rows
// one to one, without a change of the shift, so that the browser scrolls what is drawn. Meanwhile the scroll bar may
// get ahead of the rows; it is corrected when the list rests. A drag of the scroll bar goes by the share.
'use strict';

const listPosition = (() => {
const MAX_HEIGHT = 8_000_000;   // pixels
const EXACT = 1_000_000;        // pixels at each end, where the scroll bar is never ahead after a rest
const FARTHEST = 10_000;        // pixels that a wheel moves in a frame
const REST = 200;               // milliseconds without scrolling

/// `scroller` is the element that scrolls, `head` one above the list in it. `onRest` is called after a correction of
/// the scroll bar.
function create(scroller, head, onRest) {
  let whole = 0, height = 0;   // pixels of the list, and of the element
  let shift = 0;
  let lastBar = 0;             // the scroll bar's position at the last look
  let timer = 0;

  function shiftAtBar(bar) {
    if (bar <= EXACT || whole === height) return 0;
    if (bar >= height - EXACT) return whole - height;
    return Math.round((whole - height) * (bar - EXACT) / (height - 2 * EXACT));
  }
  function barAt(top) {
    if (top <= EXACT || whole === height) return top;
    if (top >= whole - EXACT) return top - (whole - height);
    return Math.round(EXACT + (top - EXACT) * (height - 2 * EXACT) / (whole - 2 * EXACT));
  }

  /// The position of the upper edge in the list.
  function top() {
    const bar = scroller.scrollTop;
    // A drag of the scroll bar moves it by at least half a pixel of the screen.
    const dragged = 0.45 * height / (scroller.clientHeight || 400);
    if (Math.abs(bar - lastBar) > Math.min(FARTHEST, dragged)) shift = shiftAtBar(bar);
    lastBar = bar;
    return bar + shift;
  }

  function moveTo(wanted) {
    const to = Math.max(0, Math.round(wanted));
    lastBar = barAt(to);
    shift = to - lastBar;
    scroller.scrollTop = lastBar;
  }

  function rest() {
    const now = top();
    const isNearEnd = lastBar <= EXACT || lastBar >= height - EXACT;
    if (Math.abs(shift - shiftAtBar(lastBar)) < (isNearEnd ? 1 : EXACT / 4)) return;
    moveTo(now);
    onRest();
  }

  scroller.addEventListener('scroll', () => {
    clearTimeout(timer);
    if (whole !== height) timer = setTimeout(rest, REST);
  });

  return {
    top,
    moveTo,
    shift: () => shift,
    height: () => height,
    /// The height of all rows in pixels. The rows in view stay where they are, while there are so many.
    setWhole(pixels) {
      if (pixels === whole) return;
      const before = top(), wasShifted = whole !== height;
      whole = pixels;
      height = Math.min(whole, MAX_HEIGHT);
      const farthest = Math.max(0, whole + head.offsetHeight - scroller.clientHeight);
      if (wasShifted || whole !== height || before > farthest) moveTo(Math.min(before, farthest));
    },
  };
}

return {create};
})();
