import { readFileSync } from 'node:fs'

/**
 * Processor time in seconds of this process and of its children that have ended; of this process alone without /proc.
 */
export function processorSeconds(): number {
  try {
    const text = readFileSync('/proc/self/stat', 'utf8')
    const [user, system, childUser, childSystem] = text
      .slice(text.lastIndexOf(')'))
      .split(' ')
      .slice(12, 16)
      .map(Number)
    // In hundredths of a second, on every Linux.
    return ((user ?? 0) + (system ?? 0) + (childUser ?? 0) + (childSystem ?? 0)) / 100
  } catch {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1e6
  }
}
