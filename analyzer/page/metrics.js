// The figures of a recording: metrics, their keys in an object of figures, and their texts. Adds to figures.js.
'use strict';

Object.assign(figures, (() => {
const {bytes, grouped} = figures;

/// Whole below a million, then three digits: "12.4 M".
function count(x) {
  if (x < 0) return '\u2212' + count(-x);
  if (x < 1e6) return grouped(x);
  return x < 1e9 ? figures.digits(x / 1e6) + ' M' : figures.digits(x / 1e9) + ' G';
}
const plural = (n, noun) => count(n) + ' ' + noun + (n === 1 ? '' : 's');
const change = (x, text = bytes) => x === 0 ? '0' : (x > 0 ? '+' : '') + text(x);

/// What the metrics are: their names, their keys in an object of figures, and what they count.
const metrics = {
  peak: {label: 'Live at peak', column: 'Peak', said: 'live at the peak', value: 'peak_bytes', blocks: 'peak_blocks',
         unit: 'bytes'},
  live: {label: 'Live', said: 'live', value: 'live_bytes', blocks: 'live_blocks', unit: 'bytes'},
  leaked: {label: 'Left at end', column: 'Left', said: 'left at the end', value: 'leaked_bytes',
           blocks: 'leaked_blocks', unit: 'bytes'},
  allocated: {label: 'Allocated', said: 'allocated', value: 'allocated_bytes', blocks: 'allocations',
              unit: 'bytes'},
  allocations: {label: 'Allocations', said: 'allocations', value: 'allocations', other: 'allocated_bytes',
                unit: 'count'},
  temporary: {label: 'Temporary', said: 'temporary allocations', value: 'temporary_allocations',
              other: 'temporary_bytes', unit: 'count'},
  pinned: {label: 'Pinned', said: 'pinned', value: 'pinned_bytes', unit: 'bytes'},   // see pinned.js
};
/// A value of a metric as text.
const ofMetric = (metric, x) => metrics[metric].unit === 'bytes' ? bytes(x) : count(x);
/// The value of a metric, and what stands beside it: "18.2 MiB in 7,001 blocks", "120,000, 28.6 MiB".
function sentence(metric, f) {
  const about = metrics[metric];
  if (about.unit === 'count') return `${count(f[about.value])}, ${bytes(f[about.other])}`;
  return `${bytes(f[about.value])} in ${plural(f[about.blocks], about.blocks === 'allocations' ? 'allocation'
    : 'block')}`;
}
const exact = (metric, x) => `${grouped(x)}${metrics[metric].unit === 'bytes' ? ' bytes' : ''}`;

/// An empty text where a figure is unknown.
const known = text => (x, ...more) => x === null || x === undefined ? '' : text(x, ...more);

return {bytes: known(bytes), time: known(figures.time), count: known(count), grouped: known(grouped), plural, change,
        metrics, ofMetric, sentence, exact};
})());
