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
  const below = (limit: number): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * limit)
  }
  return {
    below,
    oneOf: list => list[below(list.length)] as (typeof list)[number],
    some: (max, make) => Array.from({ length: below(max + 1) }, make)
  }
}
