// Figures as text: three digits as in analyzer/render/units.cpp, so that a page and a terminal print the same.
'use strict';

const figures = (() => {
const digits = x => x < 9.995 ? x.toFixed(2) : x < 99.95 ? x.toFixed(1) : x.toFixed(0);
const grouped = x => String(Math.round(x)).replace(/\B(?=(\d{3})+$)/g, ',');

function bytes(x) {
  if (x === null || x === undefined) return '';
  if (x < 0) return '\u2212' + bytes(-x);
  if (x < 1024) return Math.round(x) + ' B';
  let unit = -1;
  for (; x >= 1023.5 && unit < 5; ++unit) x /= 1024;
  return digits(x) + ' ' + 'KMGTPE'[unit] + 'iB';
}

/// Whole below a million, then three digits: "12.4 M".
function count(x) {
  if (x === null || x === undefined) return '';
  if (x < 0) return '\u2212' + count(-x);
  if (x < 1e6) return grouped(x);
  return x < 1e9 ? digits(x / 1e6) + ' M' : digits(x / 1e9) + ' G';
}

function percent(part, total) {
  if (!(part > 0) || !(total > 0)) return '0%';
  if (part === total) return '100%';
  const share = 100 * part / total;
  return share < 0.01 ? '<0.01%' : share < 10 ? share.toFixed(2) + '%' : share.toFixed(1) + '%';
}

const two = n => String(Math.floor(n)).padStart(2, '0');
function time(ns) {
  if (ns === null || ns === undefined) return '';
  const s = ns / 1e9;
  if (s === 0) return '0 s';
  if (ns < 1e3) return Math.round(ns) + ' ns';
  if (s < 1e-3) return digits(ns / 1e3) + ' \u00b5s';
  if (s < 1) return digits(ns / 1e6) + ' ms';
  if (s < 60) return digits(s) + ' s';
  if (s < 3600) return `${Math.floor(s / 60)} min ${two(s % 60)} s`;
  return `${Math.floor(s / 3600)} h ${two(s % 3600 / 60)} min`;
}

function plural(n, noun) { return count(n) + ' ' + noun + (n === 1 ? '' : 's'); }
const change = (x, text = bytes) => x === 0 ? '0' : (x > 0 ? '+' : '') + text(x);

/// What the metrics are: their names, their keys in an object of figures, and what they count.
const metrics = {
  peak: {label: 'Live at peak', column: 'Peak', said: 'live at the peak', value: 'peak_bytes', blocks: 'peak_blocks',
         unit: 'bytes'},
  live: {label: 'Live', said: 'live', value: 'live_bytes', blocks: 'live_blocks', unit: 'bytes'},
  leaked: {label: 'Left at end', column: 'Left', said: 'left at the end', value: 'leaked_bytes',
           blocks: 'leaked_blocks',
           unit: 'bytes'},
  allocated: {label: 'Allocated', said: 'allocated', value: 'allocated_bytes', blocks: 'allocations',
              unit: 'bytes'},
  allocations: {label: 'Allocations', said: 'allocations', value: 'allocations', other: 'allocated_bytes',
                unit: 'count'},
  temporary: {label: 'Temporary', said: 'temporary allocations', value: 'temporary_allocations',
              other: 'temporary_bytes', unit: 'count'},
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

return {bytes, count, percent, time, plural, grouped, change, metrics, ofMetric, sentence, exact};
})();
