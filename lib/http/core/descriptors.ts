import { readFileSync } from 'node:fs'
import type { CrowdLimits } from './crowd.js'

/** Limit on systems that do not report how many descriptors a process may have. */
const assumedDescriptors = 4096
const mostConnections = 8192
const mostAnonymous = 1024
const mostAnonymousPerAddress = 128

/** Returns how many files and sockets this process may have open. Node has raised the limit to the system's maximum. */
export function descriptorLimit(): number {
  try {
    const found = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1'))?.[1]
    return found === undefined ? assumedDescriptors : Number(found)
  } catch {
    return assumedDescriptors
  }
}

/**
 * Returns the limits of connections for this number of descriptors. Half of them are for connections, the other half
 * for work: files, scripts, the database.
 */
export function crowdLimits(descriptors: number = descriptorLimit()): CrowdLimits {
  const maxConnections = Math.min(mostConnections, Math.floor(descriptors / 2))
  const maxAnonymous = Math.min(mostAnonymous, Math.floor(maxConnections / 2))
  return {
    maxConnections,
    maxAnonymous,
    maxAnonymousPerAddress: Math.min(mostAnonymousPerAddress, Math.floor(maxAnonymous / 2))
  }
}

/** Whether a failure is a lack of descriptors, of this process or of the whole system. */
export function isOutOfDescriptors(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException | null)?.code
  return code === 'EMFILE' || code === 'ENFILE'
}
