// Puts an editor in the place of each textarea that names its language. Where none was built, the textarea stays.
const EDITOR = "/_explorer/static/vendor/editor.js";
const editors = new Map();

export async function edit(textarea) {
  if (!document.querySelector("meta[name=mf-editor]")) return undefined;
  const { createEditor } = await import(EDITOR);
  const nonce = document.querySelector("meta[name=csp-nonce]").nonce;
  const editor = createEditor(textarea, { language: textarea.dataset.language ?? "text", nonce });
  editors.set(textarea, editor);
  return editor;
}

export function select(textarea, start, end) {
  const editor = editors.get(textarea);
  if (!editor) {
    textarea.focus();
    textarea.setSelectionRange(start, end);
    return;
  }
  const most = editor.view.state.doc.length;
  editor.view.dispatch({ selection: { anchor: Math.min(start, most), head: Math.min(end, most) }, scrollIntoView: true });
  editor.focus();
}

export function selected(textarea) {
  const editor = editors.get(textarea);
  const { from, to } = editor?.view.state.selection.main ?? { from: textarea.selectionStart, to: textarea.selectionEnd };
  return { start: from, text: textarea.value.slice(from, to) };
}

export function write(textarea, text) {
  const editor = editors.get(textarea);
  if (editor) editor.value = text;
  else textarea.value = text;
}

// Tests that were written for Data Explorer read and write its editor by these.
const textareaOf = (host) => (host.querySelector("textarea") ?? host);
window._monaco_getEditorContentForElement = (host) => textareaOf(host).value;
window._monaco_setEditorContentForElement = (host, text) => {
  const textarea = textareaOf(host);
  write(textarea, text);
  if (!editors.has(textarea)) textarea.dispatchEvent(new Event("input", { bubbles: true }));
};
