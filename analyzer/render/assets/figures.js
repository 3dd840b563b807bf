// Figures as text, with three digits as in units.cpp: a picture, a page and a terminal print the same.
'use strict';
// `var`, because a document may contain several pictures, each with this script.
var figures = (() => {
const digits = x => x < 9.995 ? x.toFixed(2) : x < 99.95 ? x.toFixed(1) : x.toFixed(0);

/// With commas. Also of a text, for values above 2^53.
const grouped = x => String(x).replace(/\B(?=(\d{3})+$)/g, ',');

/// A mean may have a fraction.
function bytes(x) {
  if (x < 0) return '\u2212' + bytes(-x);
  if (x < 1023.5) return (Number.isInteger(x) ? x : digits(x)) + ' B';
  let unit = -1;
  for (; x >= 1023.5 && unit < 5; ++unit) x /= 1024;
  return digits(x) + ' ' + 'KMGTPE'[unit] + 'iB';
}

function percent(part, total) {
  if (!(part > 0) || !(total > 0)) return '0%';
  const share = 100 * part / total;
  if (part === total) return '100%';
  return share < 0.01 ? '<0.01%' : share < 10 ? share.toFixed(2) + '%' : share.toFixed(1) + '%';
}

const two = n => String(Math.floor(n)).padStart(2, '0');
function time(ns) {
  const s = ns / 1e9;
  if (ns === 0) return '0 s';
  if (ns < 1e3) return Math.round(ns) + ' ns';
  if (ns < 1e6) return digits(ns / 1e3) + ' \u00b5s';
  if (s < 1) return digits(ns / 1e6) + ' ms';
  if (s < 60) return digits(s) + ' s';
  if (s < 3600) return `${Math.floor(s / 60)} min ${two(s % 60)} s`;
  return `${Math.floor(s / 3600)} h ${two(s % 3600 / 60)} min`;
}

const plural = (n, noun) => grouped(n) + ' ' + noun + (n === 1 ? '' : 's');

return {digits, grouped, bytes, percent, time, plural};
})();
