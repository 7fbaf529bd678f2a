/*
 * Who may change a file: one process at a time. Node has no flock(2), and a lock file that is removed when its owner has
 * died is a race: of two who find it stale, the slower one removes the lock that the quicker one has just taken.
 *
 * So nobody takes a file of another one. Each who wants the lock announces it with a file of its own, whose name is never
 * used again: `<path>.lock.<space>-<pid>-<start>-<random>`. Who then sees no other announcement has the lock. Of two who
 * see each other, the first by name goes on waiting, and the other withdraws until it sees none. Two cannot both see
 * nobody: each announced itself before it looked.
 *
 * An announcement of a process that has ended is removed, which can harm no other one. Whether it has ended, its number and
 * start say where these can be compared. Where they cannot (another machine or container, a system without /proc), one that
 * has been there for `staleMs` of this process's own time has been left behind: a change takes milliseconds. So no clock
 * that was set, and no time of a file, counts.
 */
import { createHash, randomBytes } from 'node:crypto'
import { readdir, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { processSpace, processStart } from '../base/process-start.js'
import { Refusal } from '../base/refusal.js'

export interface LockOptions {
  /** After so long, an announcement whose process cannot be looked at was left behind. */
  staleMs?: number
  /** After so long it is refused. */
  waitMs?: number
}

interface Announcement {
  name: string
  space: string
  pid: number
  start: string
}

const defaultStaleMs = 5_000
const defaultWaitMs = 10_000
/** Those who meet come again at different times. */
const pollMs = { least: 2, most: 20 }
const mode = 0o600

/** Runs `work` while no other process, and nobody else in this one, changes the file. Refuses (`unavailable`): file_locked. */
export async function withLock<T>(path: string, work: () => Promise<T>, options: LockOptions = {}): Promise<T> {
  const release = await lock(path, options)
  try {
    return await work()
  } finally {
    await release()
  }
}

async function lock(path: string, { staleMs = defaultStaleMs, waitMs = defaultWaitMs }: LockOptions): Promise<() => Promise<void>> {
  const own = `${basename(path)}.lock.${shortSpace()}-${process.pid}-${processStart(process.pid) ?? ''}-${randomBytes(6).toString('hex')}`
  const place = join(dirname(path), own)
  const withdraw = (): Promise<void> => rm(place, { force: true })
  const firstSeen = new Map<string, number>()
  const giveUpAt = performance.now() + waitMs
  let isAnnounced = false
  try {
    for (;;) {
      const others = await findOthers(path, own, { firstSeen, staleMs })
      if (others.length === 0) {
        if (isAnnounced) return withdraw
        await writeFile(place, '', { flag: 'wx', mode })
        isAnnounced = true
        continue
      }
      if (performance.now() >= giveUpAt) throw locked(path, others[0] as Announcement)
      if (isAnnounced && others.some(({ name }) => name < own)) {
        await withdraw()
        isAnnounced = false
      }
      await sleep(pollMs.least + Math.random() * (pollMs.most - pollMs.least))
    }
  } catch (error) {
    await withdraw().catch(() => {})
    throw error
  }
}

/** Removes the announcements of processes that are known to have ended. Returns the paths. */
export async function removeEndedLocks(path: string): Promise<string[]> {
  const removed: string[] = []
  for (const name of await readdir(dirname(path))) {
    const found = parse(name, basename(path))
    if (found === null || hasEnded(found) !== true) continue
    const left = join(dirname(path), name)
    await rm(left, { force: true })
    removed.push(left)
  }
  return removed
}

/** The announcements of those who live; removes the others. */
async function findOthers(
  path: string, own: string, { firstSeen, staleMs }: { firstSeen: Map<string, number>; staleMs: number }
): Promise<Announcement[]> {
  const living: Announcement[] = []
  for (const name of await readdir(dirname(path))) {
    const found = name === own ? null : parse(name, basename(path))
    if (found === null) continue
    const since = firstSeen.get(name) ?? performance.now()
    firstSeen.set(name, since)
    if (hasEnded(found) ?? performance.now() - since > staleMs) await rm(join(dirname(path), name), { force: true })
    else living.push(found)
  }
  return living
}

function parse(name: string, file: string): Announcement | null {
  if (!name.startsWith(`${file}.lock.`)) return null
  const match = /^([0-9a-f]{12})-(\d+)-(\d*)-[0-9a-f]{12}$/.exec(name.slice(file.length + '.lock.'.length))
  if (match === null) return null
  const [, space, pid, start] = match as unknown as [string, string, string, string]
  return { name, space, pid: Number(pid), start }
}

/** null: that cannot be known here. */
function hasEnded({ space, pid, start }: Announcement): boolean | null {
  if (space !== shortSpace()) return null
  if (!isThere(pid)) return true
  const now = processStart(pid)
  return now === null || start === '' ? null : now !== start
}

/** Of a process of another user, the system may say nothing more. */
function isThere(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

let space: string | undefined
function shortSpace(): string {
  return (space ??= createHash('sha256').update(processSpace()).digest('hex').slice(0, 12))
}

function locked(path: string, { name, pid }: Announcement): Refusal {
  const sentence = `"${path}" could not be changed: the process ${pid} has been changing it for a while ` +
    `("${join(dirname(path), name)}"); try again when it has ended`
  return new Refusal('unavailable', 'file_locked', sentence)
}
