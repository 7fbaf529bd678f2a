/**
 * The items of a list that is one word: between commas, but not those within braces, which a glob has of its own
 * (`*.{map,txt}`), nor those after a backslash. Items are trimmed; empty ones are dropped.
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
