/*
 * Text that has to stay on one line and mean what it shows. A name with a newline in it forges a line of a log; one with
 * a bidirectional mark shows its letters in another order than it has them (CVE-2021-42574).
 */

/** Control characters (C0, DEL, C1), line and paragraph separators, bidirectional marks, and halves of surrogate pairs. */
const unprintable =
  /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g

/** Returns the first character that has no place in text of one line, as `U+XXXX`; null: there is none. */
export function unprintableIn(text: string): string | null {
  const [found] = text.match(unprintable) ?? []
  return found === undefined ? null : `U+${hexOf(found).toUpperCase()}`
}

const control = /[\u0000-\u001f\u007f-\u009f]/

/** Whether text has a control character: a path that has one is nothing that svc reads, writes or says. */
export function hasControlCharacter(text: string): boolean {
  return control.test(text)
}

/** The text with every such character as an escape (`\n`, `\u202e`): one line, whatever it held. */
export function oneLine(text: string): string {
  return text.replace(unprintable, found => shortEscapes[found] ?? `\\u${hexOf(found)}`)
}

const shortEscapes: Record<string, string> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }

function hexOf(character: string): string {
  return character.charCodeAt(0).toString(16).padStart(4, '0')
}
