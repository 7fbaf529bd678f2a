import { readFileSync } from 'node:fs'

/**
 * Processor time in seconds of this process and of its children that have ended; of this process alone without /proc.
 */
export function processorSeconds(): number {
  try {
    return secondsOf('self')
  } catch {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1e6
  }
}

/** Processor time in seconds of another process and of its children that have ended. Throws without /proc. */
export function secondsOf(pid: number | 'self'): number {
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const [user, system, childUser, childSystem] = text.slice(text.lastIndexOf(')')).split(' ').slice(12, 16).map(Number)
  // In hundredths of a second, on every Linux.
  return ((user ?? 0) + (system ?? 0) + (childUser ?? 0) + (childSystem ?? 0)) / 100
}
