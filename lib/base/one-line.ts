/*
 * Text that must stay on one line and look like what it is. A name that contains a newline can forge a log line. A name
 * that contains a bidirectional mark displays its letters in another order (CVE-2021-42574).
 */

/**
 * Control characters (C0, DEL, C1), line and paragraph separators, bidirectional marks, and halves of surrogate pairs.
 */
const unprintable =
  /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g

/** Returns the first character that is not allowed in text of one line, as `U+XXXX`, or null if there is none. */
export function unprintableIn(text: string): string | null {
  const [found] = text.match(unprintable) ?? []
  return found === undefined ? null : `U+${hexOf(found).toUpperCase()}`
}

const control = /[\u0000-\u001f\u007f-\u009f]/

/** Whether text contains a control character. svc does not read, write or print paths that contain one. */
export function hasControlCharacter(text: string): boolean {
  return control.test(text)
}

/** Returns the text with every such character escaped (`\n`, `\u202e`), so that it is always one line. */
export function oneLine(text: string): string {
  return text.replace(unprintable, found => shortEscapes[found] ?? `\\u${hexOf(found)}`)
}

const shortEscapes: Record<string, string> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }

function hexOf(character: string): string {
  return character.charCodeAt(0).toString(16).padStart(4, '0')
}
