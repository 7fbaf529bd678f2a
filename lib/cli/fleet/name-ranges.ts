/*
 * Names of nodes on one line. Names that differ only in a number at their end, one after the other, are joined: web-2,
 * web-3 and web-4 become web-2…4.
 */

/** Maximum number of ranges in a line. */
const maxRanges = 6

interface Range {
  prefix: string
  first: string
  last: string
  count: number
}

/** Returns names as one text, with ranges, and the number of those that are left out. */
export function nameRanges(names: readonly string[]): string {
  const ranges: Range[] = []
  for (const name of [...names].sort(byNumber)) {
    const [, prefix = name, number = ''] = /^(.*?)(\d{1,9})$/.exec(name) ?? []
    const before = ranges.at(-1)
    const isNext = before !== undefined && number !== '' && before.prefix === prefix && follows(before.last, number)
    if (isNext) {
      before.last = number
      before.count++
    } else ranges.push({ prefix, first: number, last: number, count: 1 })
  }
  const shown = ranges.slice(0, maxRanges).map(textOf)
  const hidden = ranges.slice(maxRanges).reduce((sum, { count }) => sum + count, 0)
  return [...shown, ...(hidden > 0 ? [`${hidden} more`] : [])].join(', ')
}

/** Whether a number is the next one, with as many digits if it has leading zeros. */
function follows(last: string, number: string): boolean {
  return last !== '' && Number(number) === Number(last) + 1 && (!last.startsWith('0') || last.length === number.length)
}

function textOf({ prefix, first, last, count }: Range): string {
  if (count === 1) return prefix + first
  return count === 2 ? `${prefix}${first}, ${prefix}${last}` : `${prefix}${first}…${last}`
}

function byNumber(a: string, b: string): number {
  return a.localeCompare(b, 'en', { numeric: true })
}
