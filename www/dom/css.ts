const sheets = new Map<string, CSSStyleSheet>()

/** A sheet's text, tagged so that editors colour it. Values come from the tokens, never from outside. */
export function css(strings: TemplateStringsArray): string {
  return strings.join('')
}

/** Adds the text to the document as a constructed sheet, once however many elements ask. */
export function adopt(text: string): void {
  if (sheets.has(text)) return
  const sheet = new CSSStyleSheet()
  sheet.replaceSync(text)
  sheets.set(text, sheet)
  document.adoptedStyleSheets.push(sheet)
}
