import { createHash } from 'node:crypto'
import { readFileSync, readlinkSync } from 'node:fs'
import { hostname } from 'node:os'
import { hasCode } from './system-error.js'

/**
 * Returns the start time of a process in clock ticks since boot, which distinguishes it from others with the same
 * number. Returns '' for a zombie, and null if the system does not report it. See proc(5).
 */
export function processStart(pid: number): string | null {
  try {
    // `pid (name) state …`. The name may contain anything. The start time is field 22.
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return fields[0] === 'Z' || fields[0] === 'X' ? '' : (fields[19] ?? null)
  } catch {
    return null
  }
}

/** Returns the scope in which process numbers are unique: this boot of this machine, in this container. */
export function processSpace(): string {
  try {
    return `${readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim()} ${readlinkSync('/proc/self/ns/pid')}`
  } catch {
    return hostname()
  }
}

/** Returns the mark of this process for names of what it leaves if it is killed. No other process ever has the same. */
export function ownMark(): string {
  return `${shortSpace()}-${process.pid}-${processStart(process.pid) ?? ''}`
}

/** Returns whether the process of a mark has ended; null if this cannot be determined here. */
export function hasEnded(mark: string): boolean | null {
  const [space, pid = '', start] = mark.split('-')
  if (space !== shortSpace()) return null
  if (!isThere(Number(pid))) return true
  const now = processStart(Number(pid))
  return now === null || start === '' ? null : now !== start
}

/** EPERM means that the process exists and belongs to another user. */
function isThere(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return hasCode(error, 'EPERM')
  }
}

let space: string | undefined
function shortSpace(): string {
  return (space ??= createHash('sha256').update(processSpace()).digest('hex').slice(0, 12))
}
