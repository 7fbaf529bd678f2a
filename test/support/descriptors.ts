import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { setTimeout as sleep } from 'node:timers/promises'

/** The changes of this process's descriptors during a test. */
export interface DescriptorWatch {
  /** Closes of numbers that were not open, and warnings of Node. Empty unless a descriptor was closed twice. */
  readonly faults: readonly string[]
  /**
   * What is open now and was not when the watch began, and the other way round. Waits for closes that are still under
   * way, so it answers at once if there is no difference.
   */
  difference(): Promise<string[]>
  stop(): void
}

/** Number of polls of `difference`, and the milliseconds between them. */
const maxPolls = 200
const pollMs = 20

/**
 * Begins to watch. A number that is closed twice may belong to another file by then, whose own close fails later: each
 * second close ends in one that finds nothing open.
 */
export function watchDescriptors(): DescriptorWatch {
  const faults: string[] = []
  const { close, closeSync } = fs
  const note = (error: NodeJS.ErrnoException | null | undefined): void => {
    if (error?.code === 'EBADF') faults.push(error.stack ?? error.message)
  }
  fs.closeSync = fd => {
    try {
      closeSync(fd)
    } catch (error) {
      note(error as NodeJS.ErrnoException)
      throw error
    }
  }
  fs.close = ((fd: number, callback?: fs.NoParamCallback) =>
    close(fd, error => {
      note(error)
      callback?.(error)
    })) as typeof fs.close
  syncBuiltinESMExports()
  const onWarning = (warning: Error): void => void faults.push(`${warning.name}: ${warning.message}`)
  process.on('warning', onWarning)
  const before = openFiles()
  return {
    faults,
    async difference() {
      let found = compareLists(before, openFiles())
      for (let polls = 0; found.length > 0 && polls < maxPolls; polls++) {
        await sleep(pollMs)
        found = compareLists(before, openFiles())
      }
      return found
    },
    stop() {
      Object.assign(fs, { close, closeSync })
      syncBuiltinESMExports()
      process.off('warning', onWarning)
    }
  }
}

/** Waits until this process has opened and closed nothing for half a second: an earlier test may still be closing. */
export async function steadyDescriptors(): Promise<void> {
  for (let before = openFiles(), same = 0; same < 25; ) {
    await sleep(pollMs)
    const now = openFiles()
    same = compareLists(before, now).length === 0 ? same + 1 : 0
    before = now
  }
}

/** Returns where each descriptor of a process leads (Linux only). */
export function openFiles(pid: number | 'self' = 'self'): string[] {
  const directory = `/proc/${pid}/fd`
  return fs
    .readdirSync(directory)
    .flatMap(number => {
      try {
        return [fs.readlinkSync(`${directory}/${number}`)]
      } catch {
        return [] // the descriptor that listed the directory
      }
    })
    .sort()
}

/** Returns how many of each descriptor were added or removed. */
export function compareLists(before: readonly string[], now: readonly string[]): string[] {
  const count = (list: readonly string[], one: string): number => list.filter(other => other === one).length
  return [...new Set([...before, ...now])].flatMap(one => {
    const more = count(now, one) - count(before, one)
    return more === 0 ? [] : [`${more > 0 ? '+' : ''}${more} ${one}`]
  })
}
