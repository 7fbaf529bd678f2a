/*
 * Descriptors of this process that no program it starts may have. Node marks its own (O_CLOEXEC), node-pty does not mark the
 * terminals it opens: who inherits one reads what is typed and shown there, can type into its shell, and keeps it from
 * being hung up when svc is gone. Node cannot mark them later, so each program gets /dev/null in their place.
 */
import { closeSync, openSync } from 'node:fs'

const kept = new Map<number, symbol>()

/**
 * Keeps a descriptor back from now on; returns what ends that. A descriptor that is closed by then does no harm, and one
 * that has its number since stays kept: a stream tells that it is closed a moment after its number was given away.
 */
export function keepBack(fd: number): () => void {
  const holder = Symbol(`descriptor ${fd}`)
  kept.set(fd, holder)
  return () => {
    if (kept.get(fd) === holder) kept.delete(fd)
  }
}

/** Calls `start` with the `stdio` for spawn, added to as is needed. */
export function withoutKept<Stdio, Result>(stdio: readonly Stdio[], start: (stdio: Array<Stdio | number | undefined>) => Result): Result {
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
