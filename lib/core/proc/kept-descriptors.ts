/*
 * Descriptors of this process that no program may inherit. Node marks its own (O_CLOEXEC), but node-pty does not mark
 * the terminals that it opens. A program that inherits a terminal can read its input and output, type into its shell,
 * and prevent the hangup when svc ends. Node cannot mark descriptors later, so each program gets /dev/null in their
 * place.
 */
import { closeSync, openSync } from 'node:fs'

const kept = new Map<number, symbol>()

/**
 * Withholds a descriptor from programs from now on. Returns a function that ends this. If the descriptor is closed
 * before, that does no harm. If it was assigned again in the meantime, it stays withheld: a stream reports its close a
 * moment after its number was reassigned.
 */
export function keepBack(fd: number): () => void {
  const holder = Symbol(`descriptor ${fd}`)
  kept.set(fd, holder)
  return () => {
    if (kept.get(fd) === holder) kept.delete(fd)
  }
}

/** Calls `start` with the `stdio` for spawn, extended by /dev/null for each withheld descriptor. */
export function withoutKept<Stdio, Result>(
  stdio: readonly Stdio[],
  start: (stdio: Array<Stdio | number | undefined>) => Result
): Result {
  const hidden = [...kept.keys()].filter(fd => fd >= stdio.length)
  if (hidden.length === 0) return start([...stdio])
  const nothing = openSync('/dev/null', 'r+')
  try {
    const all: Array<Stdio | number | undefined> = [...stdio]
    for (const fd of hidden) all[fd] = nothing
    return start(Array.from(all))
  } finally {
    closeSync(nothing)
  }
}

/** The number of the first of `descriptors` in a helper process; Node's channel is 3. */
export const firstDescriptor = 4
