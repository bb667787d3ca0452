/**
 * The editor of the portal: CodeMirror over a textarea, which stays the field that a form sends.
 *
 *     import { createEditor } from "/_explorer/static/vendor/editor.js";
 *     const editor = createEditor(textarea, { language: "sql", nonce });
 *
 * The textarea is hidden and kept in step in both directions: typing writes its value and sends `input`, a reset of its form
 * writes the editor. Mod-Enter submits the form. Tab leaves the editor, so that a keyboard alone reaches what follows it.
 */
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { javascript } from "@codemirror/lang-javascript";
import { json, jsonParseLinter } from "@codemirror/lang-json";
import { sql } from "@codemirror/lang-sql";
import { bracketMatching, HighlightStyle, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { linter, lintKeymap } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState } from "@codemirror/state";
import { drawSelection, EditorView, keymap, lineNumbers, placeholder } from "@codemirror/view";
import { tags } from "@lezer/highlight";

import { CosmosSQL, YQL } from "./dialects.js";

const LANGUAGES = {
  sql: (schema) => sql({ dialect: CosmosSQL, schema, upperCaseKeywords: true }),
  yql: (schema) => sql({ dialect: YQL, schema, upperCaseKeywords: true }),
  json: () => [json(), linter(jsonErrors)],
  javascript: () => javascript(),
  text: () => [],
};

/** Each colour has a contrast of at least 4.5 with the background of its scheme. */
const COLOURS = {
  light: { keyword: "#8250df", string: "#0a5c36", number: "#0550ae", name: "#953800", comment: "#57606a", fault: "#b42318" },
  dark: { keyword: "#d2a8ff", string: "#7ee0a8", number: "#79c0ff", name: "#ffa657", comment: "#9aa4af", fault: "#ff8f85" },
};

const theme = EditorView.theme({
  "&": {
    color: "var(--text)", backgroundColor: "var(--background)", border: "1px solid var(--line)", borderRadius: "6px",
    fontSize: "13px",
  },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "1px" },
  ".cm-scroller": {
    fontFamily: 'ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace', minHeight: "inherit",
    maxHeight: "inherit",
  },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { color: "var(--muted)", backgroundColor: "var(--panel)", borderRight: "1px solid var(--line)" },
  ".cm-placeholder": { color: "var(--muted)" },
  ".cm-tooltip, .cm-panels": { color: "var(--text)", backgroundColor: "var(--panel)", border: "1px solid var(--line)" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { color: "var(--on-accent)", backgroundColor: "var(--accent)" },
});

/**
 * Put an editor in the place of `textarea` and return {view, value, focus(), setLanguage(), setSchema(), destroy()}.
 *
 * language: "sql" (Cosmos DB), "yql", "json", "javascript" or "text". nonce: that of the page's style-src.
 * schema: names that completion offers, as {container: [property, ...]}.
 */
export function createEditor(textarea, { language = "text", nonce = "", schema = {} } = {}) {
  const form = textarea.form;
  const [spoken, coloured] = [new Compartment(), new Compartment()];
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const fixed = textarea.readOnly || textarea.disabled;
  let [known, writing] = [schema, false];

  const view = new EditorView({
    state: EditorState.create({
      doc: textarea.value,
      extensions: [
        nonce ? EditorView.cspNonce.of(nonce) : [],
        lineNumbers(), history(), drawSelection(), indentOnInput(), bracketMatching(), closeBrackets(), autocompletion(),
        highlightSelectionMatches(), EditorView.lineWrapping, theme,
        coloured.of(colours(dark.matches)), spoken.of(languageOf(language)(known)),
        EditorState.readOnly.of(fixed), placeholder(textarea.placeholder),
        EditorView.contentAttributes.of(attributesOf(textarea)),
        keymap.of([
          { key: "Mod-Enter", run: () => Boolean(form?.requestSubmit()) || true },
          ...closeBracketsKeymap, ...defaultKeymap, ...searchKeymap, ...historyKeymap, ...completionKeymap, ...lintKeymap,
        ]),
        EditorView.updateListener.of((update) => update.docChanged && !writing && pass(update.state.doc.toString())),
      ],
    }),
  });

  function pass(text) {
    textarea.value = text;
    textarea.dispatchEvent(new Event("input", { bubbles: true }));
  }

  function take(text) {
    writing = true;
    view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
    writing = false;
  }

  // The form writes the textarea after this event.
  const reset = () => queueMicrotask(() => setTimeout(() => take(textarea.value)));
  const recolour = (event) => view.dispatch({ effects: coloured.reconfigure(colours(event.matches)) });
  form?.addEventListener("reset", reset);
  dark.addEventListener("change", recolour);
  textarea.after(view.dom);
  // A hidden field that must be filled would stop its form without a word.
  const required = textarea.required;
  textarea.required = false;
  textarea.hidden = true;

  const speak = (name) => view.dispatch({ effects: spoken.reconfigure(languageOf(name)(known)) });
  return {
    view,
    get value() { return view.state.doc.toString(); },
    set value(text) { take(text); pass(text); },
    focus: () => view.focus(),
    setLanguage: (name) => { language = name; speak(name); },
    setSchema: (names) => { known = names; speak(language); },
    destroy() {
      form?.removeEventListener("reset", reset);
      dark.removeEventListener("change", recolour);
      view.destroy();
      textarea.hidden = false;
      textarea.required = required;
    },
  };
}

function languageOf(name) {
  const language = LANGUAGES[name];
  if (!language) throw new Error(`no such language: ${name} (${Object.keys(LANGUAGES).join(", ")})`);
  return language;
}

/** The label of the textarea names the editor. */
function attributesOf(textarea) {
  const labels = [...textarea.labels].map((label) => label.textContent.trim()).join(" ");
  const attributes = { "aria-label": textarea.getAttribute("aria-label") ?? labels };
  const described = textarea.getAttribute("aria-describedby");
  return described ? { ...attributes, "aria-describedby": described } : attributes;
}

/** An empty field is no error yet. */
function jsonErrors(view) {
  return view.state.doc.toString().trim() ? jsonParseLinter()(view) : [];
}

function colours(isDark) {
  const c = isDark ? COLOURS.dark : COLOURS.light;
  const style = HighlightStyle.define([
    { tag: [tags.keyword, tags.operatorKeyword, tags.modifier, tags.definitionKeyword], color: c.keyword },
    { tag: [tags.string, tags.special(tags.string), tags.regexp], color: c.string },
    { tag: [tags.number, tags.bool, tags.null, tags.atom], color: c.number },
    { tag: [tags.propertyName, tags.typeName, tags.special(tags.name), tags.standard(tags.name)], color: c.name },
    { tag: tags.comment, color: c.comment, fontStyle: "italic" },
    { tag: tags.invalid, color: c.fault },
  ]);
  return [syntaxHighlighting(style), EditorView.darkTheme.of(isDark)];
}
