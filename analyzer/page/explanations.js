// What the figures are, for the tooltips of headings and metrics: by their labels, which mean the same in all views.
'use strict';

const explanations = (() => {
const texts = {
  'Live at peak': 'Live at the moment when most bytes were live',
  Live: 'Live at the selected moment',
  'Left at end': 'Allocated in the selection, and still live at its end',
  'Never freed': 'Live at the selected moment, and never freed',
  Allocated: 'All that was allocated, whether it was freed or not',
  Allocations: 'Number of allocations, whether they were freed or not',
  Temporary: 'Freed before the next allocation of the same thread',
  Pinned: 'Memory that live blocks keep from being returned to the system',
  Self: 'The chosen metric, of what the function itself allocates',
  Total: 'The chosen metric, of what the function and the functions it calls allocate',
  Share: 'Of everything in this selection',
  Peak: 'Live at the peak',
  Left: 'Still live at the end of the selection',
  Growth: 'Live bytes at the end less those at the beginning',
  'Over time': 'Live bytes over time of what the row itself allocates, each line scaled to its own maximum',
  Trend: 'growing: live bytes grew until the end; with load: they grew while the program was under load; stable: ' +
    'they did not grow any more; in use: allocated and freed throughout',
  Freed: 'Share of the bytes allocated by this call site that was freed',
  Oldest: 'Age of the oldest block that is left',
  Copied: 'Bytes that realloc copied',
  Buffers: 'Blocks that grew by realloc',
  Reallocs: 'Calls of realloc for these buffers',
  Moved: 'Calls of realloc that returned another address',
  'Freed by others': 'Freed by a thread that did not allocate it',
  'Frees of others': 'Blocks of other threads that this thread frees',
  Net: 'Live after less live before',
  New: 'Allocated between the two moments, and still live at the second',
};
/// Null for a label that explains itself.
const of = label => Object.hasOwn(texts, label) ? texts[label] : null;
/// The same for a metric in a selection. The label of a metric can contain a time, so it is no key of `texts`.
const ofMetric = (metric, {at}) => of(metric === 'leaked' && at ? 'Never freed' : figures.metrics[metric].label);

return {of, ofMetric};
})();
