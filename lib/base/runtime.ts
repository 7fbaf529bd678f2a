import { createHash } from 'node:crypto'
import { readFileSync, readlinkSync } from 'node:fs'
import { homedir, hostname } from 'node:os'
import { hasCode } from './errors.js'

/** Version of Bun, which identifies itself as Node; undefined in Node. */
export const bunVersion: string | undefined = process.versions['bun']

export function describeRuntime(): { name: string; version: string } {
  return bunVersion === undefined
    ? { name: process.release.name, version: process.version }
    : { name: 'bun', version: `v${bunVersion}` }
}

/**
 * Features that svc lacks in this runtime, whatever is installed, each with a message. (For functions that older
 * versions of Node lack, svc has alternatives: CRC-32 in digests.ts, digests in core/install/found-entry.ts and access/secret.ts,
 * ASCII words in operate/logs/search/scan.ts, free disk space in operate/machine/resources.ts.)
 */
export const missingInRuntime: { terminal: string | null } = {
  terminal:
    bunVersion === undefined
      ? null
      : 'The terminal needs Node: node-pty does not work in Bun (start with "--runtime node")'
}

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

/** Returns the id of this boot of the machine. Throws if the system does not report it. */
function bootId(): string {
  return readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim()
}

/** Returns the id of this boot of the machine; null if the system does not report it. */
export function thisBoot(): string | null {
  try {
    return bootId()
  } catch {
    return null
  }
}

/** Returns the scope in which process numbers are unique: this boot of this machine, in this container. */
export function processSpace(): string {
  try {
    return `${bootId()} ${readlinkSync('/proc/self/ns/pid')}`
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

/** Below a file there is nothing to read and nothing can be created. */
const nowhere = '/dev/null'

/**
 * Returns the home directory of this process's user. A container may run as a user without HOME and without an entry in
 * /etc/passwd: then Node throws, and this is a place where nothing exists.
 */
export function userHome(): string {
  try {
    return homedir() || nowhere
  } catch {
    return nowhere
  }
}

/** Time between two looks at how much was done. */
const lookMs = 30_000
/** So few calls between two looks are rest: a panel that asks now and then, a probe. */
const restfulCalls = 30
/** Less is not worth a collection, which stops everything for a tenth of a second. */
const worthBytes = 16e6

interface RestOptions {
  ms?: number
  collect?: () => Promise<void>
  rssBytes?: () => number
}

/**
 * Returns a function to call after each piece of work. V8 collects when it allocates, so a server that has nothing to do
 * would keep for hours what its last busy minute left. When work has become rare, everything is collected once, if memory
 * has grown since the last time. Keeps nothing alive, and sets no timer at rest.
 */
export function createRest({
  ms = lookMs,
  collect = collectGarbage,
  rssBytes = process.memoryUsage.rss
}: RestOptions = {}): () => void {
  let calls = 0
  let timer: NodeJS.Timeout | null = null
  let keptBytes = rssBytes()

  const wait = (): void => void (timer = setTimeout(() => void look(), ms).unref())

  async function look(): Promise<void> {
    const isBusy = calls > restfulCalls
    calls = 0
    if (isBusy) return wait()
    timer = null
    if (rssBytes() < keptBytes + worthBytes) return
    await collect()
    keptBytes = rssBytes()
  }

  return () => {
    calls++
    if (timer === null) wait()
  }
}

/** Collects all garbage of this thread, and gives free pages back to the system. A Node without an inspector cannot. */
export async function collectGarbage(): Promise<void> {
  try {
    const { Session } = await import('node:inspector')
    const session = new Session()
    session.connect()
    await new Promise<void>(resolve => session.post('HeapProfiler.collectGarbage', () => resolve()))
    session.disconnect()
  } catch {
    // Then V8 collects when it allocates again.
  }
}
