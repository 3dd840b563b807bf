// Names as they are shown where space is short. The whole name is in the details and in what is copied.
'use strict';

const names = (() => {
const closing = {'<': '>', '(': ')', '{': '}'};

/// The position after the bracket that closes the one at `from`; -1 without one.
function after(text, from) {
  const open = text[from], close = closing[open];
  let nested = 0;
  for (let i = from; i < text.length; ++i) {
    if (text[i] === open) ++nested;
    else if (text[i] === close && text[i - 1] !== '-' && --nested === 0) return i + 1;
  }
  return -1;
}

/// "std::map<int, long>::at(int const&) const" becomes "std::map<\u2026>::at".
function short(name) {
  let text = '';
  for (let i = 0; i < name.length;) {
    const c = name[i];
    const end = c === '<' || c === '(' ? after(name, i) : -1;
    const isOperator = /operator[<(]?$/.test(text);
    const isOfPython = c === '<' && text.endsWith('.');  // outer.<locals>.inner
    if (end < 0 || i === 0 || isOperator || isOfPython || name.startsWith('(anonymous namespace)', i)) {
      const whole = end > 0 && c === '(' && i > 0 && isOperator ? '()' : c;
      text += whole;
      i += whole.length;
    } else if (c === '<') {
      text += '<\u2026>';
      i = end;
    } else {
      i = end;
      if (name.startsWith(' const', i)) i += 6;
    }
  }
  return text.trim() === '' ? name : text;
}

const base = path => path ? path.slice(path.lastIndexOf('/') + 1) : '';
const inManyFolders = new Set(['__init__.py', '__main__.py', 'mod.rs']);
/// The name of a source file where space is short: the base name, and its folder if many folders have a file of this
/// name ("json/__init__.py").
const source = path =>
  inManyFolders.has(base(path)) ? path.split('/').filter(Boolean).slice(-2).join('/') : base(path);
/// "app.cc:12", "app.cc", or the module of a name without source file.
function place(row) {
  if (row.file) return source(row.file) + (row.line ? ':' + row.line : '');
  return base(row.module);
}
/// A frame of the API as a name.
function ofFrame(frame) {
  const name = frame.function ||
    `${base(frame.module)}+0x${(frame.function_begin ?? frame.offset ?? 0).toString(16)}`;
  return {name, file: frame.file, line: frame.line, module: frame.module, inlined: frame.inlined,
          unresolved: !frame.function};
}
const originText = {own: 'own code', third_party: 'third party', standard: 'standard library', runtime: 'runtime',
                    unknown: 'unresolved'};
/// Rows and frames that are no functions or modules, and what they stand for.
const noFunctions = {
  '(no own code)': 'Blocks whose call stacks have no function of the program\'s own code. Without "only own code", ' +
    'the page shows their functions.',
  '(no stack recorded)': 'Blocks whose call stacks were not recorded.',
  '(no stack)': 'Blocks whose call stacks were not recorded.',
  '(code outside every file)': 'Code that is in no file, such as code that the program has generated.',
  '(no caller)': 'Blocks of call stacks in which the function is the outermost one.',
};
const isFunction = name => !Object.hasOwn(noFunctions, name);
/// The bytes of a name that a trace has cannot hide a direction or a line break in a short text.
const oneLine = text => text.replace(/[\u0000-\u001f\u007f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, '\u00b7');
const label = name => oneLine(short(name || '(no stack)'));

const escaped = text => text.replace(/[.[\]{}()*+?^$|\\]/g, '\\$&');
/// A regular expression, of scripts and of commands, that matches the text in upper and lower case. Commands compare
/// bytes: letters of several bytes are in no brackets.
const eitherCase = text => escaped(text).replace(/[^]/gu, letter => {
  const upper = letter.toUpperCase();
  if (upper === letter || upper.toLowerCase() !== letter) return letter;
  return letter < '\u0080' ? `[${letter}${upper}]` : `(${letter}|${upper})`;
});
/// Whether a search for the text leaves the case of letters out of account: it has no capital letters.
const ignoresCase = text => text === text.toLowerCase();
/// What a search finds, as a function of a name: names that contain the text, which is no pattern. Without capital
/// letters, it is found in upper and lower case, as by the search of a flame graph.
function finder(text) {
  if (!ignoresCase(text)) return name => name.includes(text);
  const pattern = new RegExp(eitherCase(text));
  return name => pattern.test(name);
}

return {short, base, source, place, ofFrame, originText, noFunctions, isFunction, oneLine, label, escaped, eitherCase,
        ignoresCase, finder};
})();
