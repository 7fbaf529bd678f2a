import { readFileSync } from 'node:fs'
import type { CrowdLimits } from './crowd.js'

/** Of systems that do not say how many descriptors a process may have. */
const assumedDescriptors = 4096
const mostConnections = 8192
const mostAnonymous = 1024
const mostAnonymousPerAddress = 128

/** How many files and sockets this process may have open at a time; Node has raised it to what the system allows. */
export function descriptorLimit(): number {
  try {
    const found = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1'))?.[1]
    return found === undefined ? assumedDescriptors : Number(found)
  } catch {
    return assumedDescriptors
  }
}

/** Half of the descriptors are for connections, the other half for work: files, scripts, the database. */
export function crowdLimits(descriptors: number = descriptorLimit()): CrowdLimits {
  const maxConnections = Math.min(mostConnections, Math.floor(descriptors / 2))
  const maxAnonymous = Math.min(mostAnonymous, Math.floor(maxConnections / 2))
  return { maxConnections, maxAnonymous, maxAnonymousPerAddress: Math.min(mostAnonymousPerAddress, Math.floor(maxAnonymous / 2)) }
}

/** Whether a failure is the lack of descriptors: of this process, or of the whole system. */
export function isOutOfDescriptors(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException | null)?.code
  return code === 'EMFILE' || code === 'ENFILE'
}
