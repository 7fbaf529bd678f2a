/**
 * Splits a list at its commas, except for commas within braces, as in the glob `*.{map,txt}`, and after a backslash.
 * Trims the items and drops empty ones.
 */
export function splitList(text: string): string[] {
  const items = ['']
  let depth = 0
  for (const [piece] of text.matchAll(/\\[^]|[^]/g)) {
    if (piece === '{') depth++
    else if (piece === '}') depth = Math.max(0, depth - 1)
    if (piece === ',' && depth === 0) items.push('')
    else items[items.length - 1] += piece
  }
  return items.map(item => item.trim()).filter(Boolean)
}
