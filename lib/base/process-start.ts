import { readFileSync, readlinkSync } from 'node:fs'
import { hostname } from 'node:os'

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
