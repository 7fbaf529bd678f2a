/**
 * How well what was typed names a title; null: not at all. Its beginning counts most, then the beginning of one of its
 * words, then any place, then its letters in their order. Pure.
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
