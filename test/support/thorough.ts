/*
 * Tests that repeat themselves (random histories, crashes at every call, products of widths and themes) run a few
 * repetitions with a fixed seed in `make test`. With THOROUGH=1, as test/soak/thorough.ts sets it, they run all of
 * them.
 */
export const isThorough = process.env['THOROUGH'] === '1'

/** Repetitions of a loop that can be as long as anybody likes: `REPETITIONS=1000 THOROUGH=1 node pairs.test.js`. */
const wished = Number(process.env['REPETITIONS'] ?? 0)

/** Returns the first number in `make test` and the second in `make soak`. */
export function repetitions(few: number, all: number): number {
  return isThorough ? all : few
}

/** The same for a loop of random cases, which has as many as were wished for. */
export function randomCases(few: number, all: number): number {
  return isThorough ? wished || all : few
}

/** The first seed of tests with hostile peers. test/soak/hostile.ts gives others. */
export const firstSeed = Number(process.env['FIRST_SEED'] ?? 1)
