/**
 * Returns how well the typed text matches a title, or null if it does not match. The beginning of the title ranks best,
 * then the beginning of a word, then any position, then its letters in order. Pure.
 */
export function matchRank(typed: string, title: string): number | null {
  const sought = typed.toLowerCase()
  const text = title.toLowerCase()
  if (sought === '') return 0
  if (text.startsWith(sought)) return 4
  if (text.includes(` ${sought}`)) return 3
  if (text.includes(sought)) return 2
  let at = 0
  for (const letter of text) if (letter === sought[at]) at++
  return at === sought.length ? 1 : null
}
