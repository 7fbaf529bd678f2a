/*
 * Parses JSON that people write, with errors that name the file and the line. Only some versions of Node report the
 * position of a syntax error, so this module scans a rejected text again to find it.
 */

import { randomBytes } from 'node:crypto'
import { readdir, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Refusal } from '../base/errors.js'
import { withoutMark } from '../base/text.js'
import { hasEnded, ownMark } from '../base/runtime.js'

/** A JSON object with unchecked values. */
export type JsonObject = Record<string, unknown>

/**
 * Maximum length of a text in characters. Configuration files are shorter; a much longer text would take too much time
 * and memory.
 */
const maxTextLength = 4 * 1024 * 1024

/**
 * Parses a file's text as a JSON object; an empty text is `{}`. Refuses (`broken_config`) broken JSON and any other
 * value.
 */
export function parseJsonObject(text: string, path: string): JsonObject {
  if (text.length > maxTextLength) {
    throw new Refusal('invalid', 'broken_config', `Cannot read "${path}": longer than ${maxTextLength} characters`)
  }
  const bare = withoutMark(text)
  if (bare.trim() === '') return {}
  let value: unknown
  try {
    value = JSON.parse(bare)
  } catch (cause) {
    const { line, column, found } = whereItBreaks(bare)
    const sentence = `Cannot read "${path}": unexpected ${found} in line ${line}, column ${column}. Correct the JSON`
    throw new Refusal('invalid', 'broken_config', sentence, { cause })
  }
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    throw new Refusal('invalid', 'broken_config', `Cannot read "${path}": not a JSON object. Write it as "{ … }"`)
  }
  return value as JsonObject
}

const space = /[ \t\r\n]*/y
const string = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*"/y
const number = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/
const scalar = new RegExp(`${string.source}|${number.source}|true|false|null`, 'y')

/** The token that RFC 8259 allows next. The scan uses it to find the first token that is not allowed. */
type Expected = 'value' | 'value or ]' | 'key' | 'key or }' | 'colon' | 'comma or end'

function whereItBreaks(text: string): { line: number; column: number; found: string } {
  const open: string[] = []
  let expected: Expected = 'value'
  let at = 0
  for (;;) {
    at = match(space, text, at) ?? at
    const next = step(text, at, { expected, open })
    if (next === null) break
    ;[at, expected] = next
  }
  const before = text.slice(0, at).split('\n')
  const token = /^(?:[\w.+-]+|[^])/u.exec(text.slice(at))?.[0]
  const found = token === undefined ? 'end of file' : `"${token.slice(0, 20)}"`
  return { line: before.length, column: (before.at(-1) as string).length + 1, found }
}

interface State {
  expected: Expected
  /** The closing characters of the open objects and lists, the outermost first. */
  open: string[]
}

function step(text: string, at: number, { expected, open }: State): [number, Expected] | null {
  const character = text[at]
  const isKey = expected === 'key' || expected === 'key or }'
  if (expected === 'colon') return character === ':' ? [at + 1, 'value'] : null
  if (expected === 'comma or end' && character === ',' && open.length > 0) {
    return [at + 1, open.at(-1) === '}' ? 'key' : 'value']
  }
  if (expected !== 'value' && expected !== 'key' && character !== undefined && character === open.at(-1)) {
    open.pop()
    return [at + 1, 'comma or end']
  }
  if (expected === 'comma or end') return null
  if (!isKey && (character === '{' || character === '[')) {
    open.push(character === '{' ? '}' : ']')
    return [at + 1, character === '{' ? 'key or }' : 'value or ]']
  }
  const end = isKey && character !== '"' ? null : match(scalar, text, at)
  return end === null ? null : [end, isKey ? 'colon' : 'comma or end']
}

function match(pattern: RegExp, text: string, at: number): number | null {
  pattern.lastIndex = at
  return pattern.test(text) ? pattern.lastIndex : null
}

/*
 * A lock on a file, so that one process at a time changes it. Node has no flock(2). A lock file that is removed after
 * its owner died is a race: if two processes find it stale, the slower one removes the lock that the faster one has
 * just taken.
 *
 * So no process takes over another's file. Each process that wants the lock announces it with a file of its own, whose
 * name is never used again: `<path>.lock.<space>-<pid>-<start>-<random>`. A process that then sees no other
 * announcement has the lock. If two processes see each other, the first by name keeps waiting, and the other withdraws
 * until it sees none. Two processes cannot both see no other announcement, because each announced itself before it
 * looked.
 *
 * The announcement of a process that has ended is removed, which cannot harm another process. If the process id and
 * start time can be compared, they show whether the process has ended. They cannot be compared for another machine or
 * container, or on a system without /proc. Then an announcement is stale once this process has seen it for `staleMs`: a
 * change takes milliseconds. So neither a wrong clock nor the time of a file matters.
 */

/** The time limits of a lock. */
export interface LockOptions {
  /** Age in milliseconds after which an announcement is stale if its process cannot be checked. */
  staleMs?: number
  /** Maximum time to wait for the lock, in milliseconds, before it is refused. */
  waitMs?: number
}

interface Announcement {
  name: string
  /** That of its process (runtime.ts). */
  mark: string
  pid: number
}

const defaultStaleMs = 5_000
const defaultWaitMs = 10_000
/** Waits are random, so that processes that block each other retry at different times. */
const pollMs = { least: 2, most: 20 }
const mode = 0o600

/**
 * Runs `work` while no other process, and no other caller in this process, changes the file. Refuses (`unavailable`)
 * `file_locked`.
 */
export async function withLock<T>(path: string, work: () => Promise<T>, options: LockOptions = {}): Promise<T> {
  const release = await lock(path, options)
  try {
    return await work()
  } finally {
    await release()
  }
}

async function lock(
  path: string,
  { staleMs = defaultStaleMs, waitMs = defaultWaitMs }: LockOptions
): Promise<() => Promise<void>> {
  const own = `${basename(path)}.lock.${ownMark()}-${randomBytes(6).toString('hex')}`
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

/** Removes the announcements of processes that are known to have ended. Returns their paths. */
export async function removeEndedLocks(path: string): Promise<string[]> {
  const removed: string[] = []
  for (const name of await readdir(dirname(path))) {
    const found = parse(name, basename(path))
    if (found === null || hasEnded(found.mark) !== true) continue
    const left = join(dirname(path), name)
    await rm(left, { force: true })
    removed.push(left)
  }
  return removed
}

/** Returns the announcements of live processes and removes the stale ones. */
async function findOthers(
  path: string,
  own: string,
  { firstSeen, staleMs }: { firstSeen: Map<string, number>; staleMs: number }
): Promise<Announcement[]> {
  const living: Announcement[] = []
  for (const name of await readdir(dirname(path))) {
    const found = name === own ? null : parse(name, basename(path))
    if (found === null) continue
    const since = firstSeen.get(name) ?? performance.now()
    firstSeen.set(name, since)
    if (hasEnded(found.mark) ?? performance.now() - since > staleMs)
      await rm(join(dirname(path), name), { force: true })
    else living.push(found)
  }
  return living
}

function parse(name: string, file: string): Announcement | null {
  if (!name.startsWith(`${file}.lock.`)) return null
  const match = /^([0-9a-f]{12}-(\d+)-\d*)-[0-9a-f]{12}$/.exec(name.slice(file.length + '.lock.'.length))
  if (match === null) return null
  const [, mark, pid] = match as unknown as [string, string, string]
  return { name, mark, pid: Number(pid) }
}

function locked(path: string, { name, pid }: Announcement): Refusal {
  const sentence =
    `Cannot change "${path}": the process ${pid} has locked it ("${join(dirname(path), name)}"). ` +
    'Try again when that process has finished'
  return new Refusal('unavailable', 'file_locked', sentence)
}
