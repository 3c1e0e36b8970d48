import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { EditorView } from "@codemirror/view";
import { tags } from "@lezer/highlight";

/** The editor in the colours of the page, which are variables and so follow the theme by themselves. */
const LOOK = EditorView.theme({
  "&": { height: "100%", backgroundColor: "var(--page)", color: "var(--ink)", fontSize: "12.5px" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "20px", overflow: "auto" },
  ".cm-content": { padding: "8px 0", caretColor: "var(--ink)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-gutters": { backgroundColor: "var(--soft)", color: "var(--ink-quiet)", border: "0", borderRight: "1px solid var(--line)" },
  ".cm-lineNumbers .cm-gutterElement": { minWidth: "34px", padding: "0 8px 0 4px" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--hover)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "light-dark(#d9d9fb, #3a3a75)",
  },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--selected)", outline: "1px solid var(--line-strong)" },
  ".cm-lintRange-error": {
    backgroundImage: "none",
    textDecoration: "underline wavy var(--failed)",
    textDecorationSkipInk: "none",
    textUnderlineOffset: "3px",
  },
  ".cm-lint-marker-error": {
    content: "none",
    width: "8px",
    height: "8px",
    margin: "6px 2px",
    borderRadius: "50%",
    backgroundColor: "var(--failed)",
  },
  ".cm-gutter-lint": { width: "14px" },
  ".cm-foldGutter .cm-gutterElement": { cursor: "pointer", padding: "0 2px" },
  ".cm-foldPlaceholder": { backgroundColor: "var(--hover)", border: "0", color: "var(--ink-soft)", padding: "0 6px" },
  ".cm-tooltip": {
    backgroundColor: "var(--raised)",
    color: "var(--ink)",
    border: "0",
    borderRadius: "var(--radius)",
    boxShadow: "var(--float)",
  },
  ".cm-tooltip-lint .cm-diagnostic": {
    borderLeft: "3px solid var(--failed)",
    fontFamily: "var(--sans)",
    fontSize: "13px",
    padding: "6px 10px",
    maxWidth: "480px",
  },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": {
    borderRadius: "var(--radius)",
    fontFamily: "var(--mono)",
    fontSize: "12px",
    maxHeight: "240px",
  },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "3px 10px", lineHeight: "18px" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--selected)", color: "var(--ink)" },
  ".cm-completionDetail": { color: "var(--ink-quiet)", fontStyle: "normal", marginLeft: "12px" },
  ".cm-completionMatchedText": { textDecoration: "none", fontWeight: "600" },
  ".cm-tooltip.cm-completionInfo": {
    fontFamily: "var(--sans)",
    fontSize: "13px",
    padding: "8px 12px",
    width: "max-content",
    maxWidth: "300px",
  },
  ".cm-tooltip.cm-completionInfo.cm-completionInfo-right": { left: "100%", marginLeft: "6px" },
  ".cm-tooltip.cm-completionInfo.cm-completionInfo-left": { right: "100%", marginRight: "6px" },
});

const TOKENS = HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--ink)" },
  { tag: tags.string, color: "var(--succeeded)" },
  { tag: tags.number, color: "var(--running)" },
  { tag: [tags.bool, tags.null], color: "var(--waiting)" },
  { tag: [tags.separator, tags.squareBracket, tags.brace], color: "var(--ink-quiet)" },
]);

export const THEME = [LOOK, syntaxHighlighting(TOKENS)];
