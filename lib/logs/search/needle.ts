/*
 * Finds a text in bytes, faster than byte by byte. For texts of up to six bytes, `Buffer.indexOf` uses memchr to stop
 * at each occurrence of their first byte; the bytes between two stops cost almost nothing. So this searches for a
 * short run of the text, and compares the whole text where the run is found. A sample of the file shows which run has
 * the fewest stops.
 *
 * If case is ignored, each spelling of the run is searched separately, so the run contains at most two letters.
 *
 * Costs are counted in stops of about 15 ns. measured: bench/search
 */
/** A text prepared for searching. */
export interface Needle {
  /** Returns a function that finds the first occurrence in `bytes` at or after `from`, or -1. */
  finder(bytes: Buffer): (from: number) => number
}

/** For longer texts `indexOf` does not use memchr. */
const maxRunBytes = 6
const maxRunLetters = 2
/** Cost of one call of `indexOf`, for each occurrence of the run. */
const callCost = 12
/** Number of bytes between stops that cost as much as one stop. */
const bytesAStop = 1600
/** A regular expression that ignores case costs one stop for this many bytes. */
const expressionBytesAStop = 64

interface Run {
  /** Position of the run in the text. */
  ways: Buffer[]
  /** Its place in the text. */
  offset: number
}

/**
 * Prepares a text for searching in files that resemble the sample. If case is ignored, only ASCII letters of the text
 * may have two cases. Returns null if a regular expression is faster then.
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
      // The next occurrence of each spelling. A rare one is not searched again at each occurrence of another one.
      const next = ways.map(() => -1)
      return from => {
        for (let start = from; ; start++) {
          for (const [index, way] of ways.entries()) {
            if ((next[index] as number) >= start + offset) continue
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
  for (const byte of sample) counts[byte] = (counts[byte] as number) + 1
  let cheapest = { ways: [text], offset: 0, cost: Infinity }
  for (let offset = 0; offset < text.length; offset++) {
    const ways = ignoresCase ? waysToWrite(text, offset) : [text.subarray(offset, offset + maxRunBytes)]
    let cost = 0
    for (const way of ways) {
      cost += sample.length / bytesAStop + (counts[way[0] as number] as number)
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
