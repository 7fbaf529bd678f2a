import { readFileSync, readlinkSync } from 'node:fs'
import { hostname } from 'node:os'

/**
 * When a process started, in clock ticks since boot, so that its number means no other one; '' when it has ended and only
 * waits for its parent; null: the system does not say. proc(5)
 */
export function processStart(pid: number): string | null {
  try {
    // `pid (name) state …`; the name may hold anything. The start is field 22.
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return fields[0] === 'Z' || fields[0] === 'X' ? '' : (fields[19] ?? null)
  } catch {
    return null
  }
}

/** Where numbers of processes mean the same: this boot of this machine, in this container. */
export function processSpace(): string {
  try {
    return `${readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim()} ${readlinkSync('/proc/self/ns/pid')}`
  } catch {
    return hostname()
  }
}
