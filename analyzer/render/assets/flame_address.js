// The state of a picture in the fragment of its address, so that a view can be bookmarked and Back undoes a zoom.
// Browsers may refuse to change the address of a local file; the viewer does not need it.
'use strict';

/// `isOwn`: whether the document is this picture, so that the address may be changed.
function flameAddress(isOwn) {
  let saved = '';
  return {
    /// `asStep`: as a step of the history.
    save({search, isRegex, zoomed, flames}, asStep) {
      const parts = [];
      if (search) parts.push('search=' + encodeURIComponent(search));
      if (search && isRegex) parts.push('regex=1');
      if (zoomed > 0) parts.push('zoom=' + zoomed);
      if (flames) parts.push('view=flame');
      const state = parts.join('&');
      if (state === saved || !isOwn) return;
      saved = state;
      try {
        if (asStep) location.hash = state;
        else location.replace('#' + state);
      } catch (error) { /* see above */ }
    },
    /// The state; null: it is what was saved or loaded last. `zoomed`: 0, or a number that may be no frame's.
    load() {
      const state = location.hash.slice(1);
      if (state === saved) return null;
      saved = state;
      const wanted = {};
      for (const part of state.split('&')) {
        const at = part.indexOf('=');
        try {
          if (at > 0) wanted[part.slice(0, at)] = decodeURIComponent(part.slice(at + 1));
        } catch (error) { /* not written by save() */ }
      }
      const zoomed = Number(wanted.zoom);
      return {search: wanted.search || '', isRegex: wanted.regex === '1', flames: wanted.view === 'flame',
              zoomed: Number.isInteger(zoomed) && zoomed > 0 ? zoomed : 0};
    },
  };
}
