/*
 * Finding a text in bytes, faster than byte by byte. `Buffer.indexOf` looks for up to six bytes by stopping, with memchr,
 * at each of the first of them; everything between two stops costs next to nothing. So a short run of the text is looked
 * for, and the text where it was found. A sample of the file tells which run makes the fewest stops.
 *
 * Where case is ignored, each way to write the run is looked for by itself, and the run has two letters at most.
 *
 * The costs are in stops, some 15 ns. measured: bench/search
 */
export interface Needle {
  /** Gives what finds, in these bytes, the first place of the text from `from` on; -1: none. */
  finder(bytes: Buffer): (from: number) => number
}

/** Above it, `indexOf` does not use memchr. */
const maxRunBytes = 6
const maxRunLetters = 2
/** Of a call of `indexOf`, for each place of the run. */
const callCost = 12
/** Bytes between stops that cost as much as one. */
const bytesAStop = 1600
/** A regular expression that ignores case costs a stop for so many bytes. */
const expressionBytesAStop = 64

interface Run {
  /** The ways to write it. */
  ways: Buffer[]
  /** Its place in the text. */
  offset: number
}

/**
 * A text to be found in files like the sample. Where case is ignored, only letters of ASCII may have two; null then, where
 * a regular expression is the faster way.
 */
export function createNeedle(text: string, ignoresCase: boolean, sample: Buffer): Needle | null {
  const bytes = Buffer.from(text)
  const { ways, offset, cost } = cheapestRun(bytes, ignoresCase, sample)
  if (ignoresCase && cost * expressionBytesAStop > sample.length) return null
  const lower = text.toLowerCase()
  const isAll = ways.length === 1 && ways[0]?.length === bytes.length

  function isAt(block: Buffer, start: number): boolean {
    if (isAll) return true
    const end = start + bytes.length
    if (ignoresCase) return block.toString('utf8', start, end).toLowerCase() === lower
    return block.compare(bytes, 0, bytes.length, start, end) === 0
  }

  return {
    finder(block) {
      // Where each way is found next: one that is rare is not looked for again at each place of another.
      const next = ways.map(() => -1)
      return from => {
        for (let start = from; ; start++) {
          for (const [index, way] of ways.entries()) {
            if (next[index]! >= start + offset) continue
            const found = block.indexOf(way, start + offset)
            next[index] = found === -1 ? Infinity : found
          }
          start = Math.min(...next) - offset
          if (start + bytes.length > block.length) return -1
          if (isAt(block, start)) return start
        }
      }
    }
  }
}

function cheapestRun(text: Buffer, ignoresCase: boolean, sample: Buffer): Run & { cost: number } {
  const counts = new Uint32Array(256)
  for (const byte of sample) counts[byte]!++
  let cheapest = { ways: [text], offset: 0, cost: Infinity }
  for (let offset = 0; offset < text.length; offset++) {
    const ways = ignoresCase ? waysToWrite(text, offset) : [text.subarray(offset, offset + maxRunBytes)]
    let cost = 0
    for (const way of ways) {
      cost += sample.length / bytesAStop + counts[way[0] as number]!
      if (cost >= cheapest.cost) break
      cost += callCost * occurrences(way, sample)
    }
    if (cost < cheapest.cost) cheapest = { ways, offset, cost }
  }
  return cheapest
}

function waysToWrite(text: Buffer, offset: number): Buffer[] {
  let ways = ['']
  let letters = 0
  for (const character of text.toString('latin1', offset, offset + maxRunBytes)) {
    const both = /[a-z]/i.test(character) ? [character.toLowerCase(), character.toUpperCase()] : [character]
    letters += both.length - 1
    if (letters > maxRunLetters) break
    ways = ways.flatMap(way => both.map(one => way + one))
  }
  return ways.map(way => Buffer.from(way, 'latin1'))
}

function occurrences(bytes: Buffer, sample: Buffer): number {
  let count = 0
  for (let at = sample.indexOf(bytes); at !== -1; at = sample.indexOf(bytes, at + 1)) count++
  return count
}
