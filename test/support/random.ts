/** Numbers that only look random: the same ones for the same seed. */
export interface Random {
  /** Returns a whole number from 0 to below the limit. */
  below(limit: number): number
  oneOf<T>(list: readonly T[]): T
  /** Returns up to `max` results of `make`. */
  some<T>(max: number, make: () => T): T[]
}

export function createRandom(seed: number): Random {
  let state = Math.imul(seed, 2654435761) >>> 0
  return randomOf(limit => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * limit)
  })
}

/** The same for seeds that take millions of numbers each: sfc32, whose period is not so short that they would overlap. */
export function createLongRandom(seed: number): Random {
  let [a, b, c, counter] = [seed | 0, 0x9e3779b9 | 0, 0x243f6a88, 1]
  const below = (limit: number): number => {
    const sum = (((a + b) | 0) + counter) | 0
    counter = (counter + 1) | 0
    a = b ^ (b >>> 9)
    b = (c + (c << 3)) | 0
    c = (((c << 21) | (c >>> 11)) + sum) | 0
    return Math.floor(((sum >>> 0) / 2 ** 32) * limit)
  }
  for (let at = 0; at < 12; at++) below(1)
  return randomOf(below)
}

function randomOf(below: Random['below']): Random {
  return {
    below,
    oneOf: list => list[below(list.length)] as (typeof list)[number],
    some: (max, make) => Array.from({ length: below(max + 1) }, make)
  }
}

/** Returns a text that differs from a given one in a few places, as a hostile peer would try. */
export function changedText(random: Random, text: string): string {
  const at = random.below(text.length)
  const rest = text.slice(at + 1)
  const other = String.fromCharCode(text.charCodeAt(at) ^ (1 << random.below(7)))
  const changed = random.oneOf([
    text.slice(0, at) + other + rest,
    text.slice(0, at) + rest,
    text.slice(0, at),
    text.slice(0, at) + text.charAt(at) + text.slice(at),
    text.slice(0, at) + random.oneOf(['\0', '\n', '"', '{', '[', '.', '-1', '__proto__', '\u2028', '\ud800']) + rest,
    rest + text.slice(0, at + 1),
    text + text
  ])
  return changed === text ? changedText(random, text) : changed
}

/** The same for bytes: one is changed, removed or repeated, or the end is missing. */
export function changedBytes(random: Random, bytes: Uint8Array): Buffer {
  const at = random.below(bytes.length)
  const other = Buffer.of((bytes[at] as number) ^ (1 << random.below(8)))
  const [before, from, after] = [bytes.subarray(0, at), bytes.subarray(at), bytes.subarray(at + 1)]
  return Buffer.concat(
    random.oneOf([[before, other, after], [before, after], [before], [bytes.subarray(0, at + 1), from]])
  )
}
