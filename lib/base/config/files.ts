/*
 * Parses JSON that people write, with errors that name the file and the line. Only some versions of Node report the
 * position of a syntax error, so this module scans a rejected text again to find it.
 */

import { randomBytes } from 'node:crypto'
import { readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { hasCode, reasonOf, Refusal } from '../errors.js'
import { JsonFault, strictJson } from '../json.js'
import { closest, decodeLoosely, decodeText, readText, withoutMark } from '../text.js'
import { hasEnded, ownMark } from '../runtime.js'
import { loosenessOf, replaceFile, trustedUsers } from '../files.js'

/** A JSON object with unchecked values. */
export type JsonObject = Record<string, unknown>

/**
 * Maximum length of a text in characters. Configuration files are shorter; a much longer text would take too much time
 * and memory.
 */
const maxTextLength = 4 * 1024 * 1024

/**
 * Parses a file's text as a JSON object; an empty text is `{}`. Refuses (`broken_config`) broken JSON, any other
 * value, and what other readers would read in another way (base/json.ts).
 */
export function parseJsonObject(text: string, path: string): JsonObject {
  if (text.length > maxTextLength) {
    throw new Refusal('invalid', 'broken_config', `Cannot read "${path}": longer than ${maxTextLength} characters`)
  }
  const bare = withoutMark(text)
  if (bare.trim() === '') return {}
  const value = readConfig(bare, path)
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    throw new Refusal('invalid', 'broken_config', `Cannot read "${path}": not a JSON object. Write it as "{ … }"`)
  }
  return value as JsonObject
}

function readConfig(text: string, path: string): unknown {
  try {
    return strictJson(text)
  } catch (fault) {
    if (!(fault instanceof JsonFault)) throw fault
    throw new Refusal('invalid', 'broken_config', `Cannot read "${path}": ${wordsOf(fault, text)}`, { cause: fault })
  }
}

function wordsOf({ kind, message }: JsonFault, text: string): string {
  if (kind !== 'syntax') return message
  const { line, column, found } = whereItBreaks(text)
  return `unexpected ${found} in line ${line}, column ${column}. Correct the JSON`
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
  /** That of its process (base/runtime.ts). */
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

/*
 * Reads and writes the keys of §2.13 in `.env.local` of the working directory. Other tools (frameworks) read the same
 * file, so svc ignores lines that it does not understand, and a write changes one line only.
 *
 * Syntax: `KEY=value` or `export KEY=value`, with optional blanks around `=`. A value in single quotes is literal. A
 * value in double quotes knows the escapes \n \r \t \\ \" \$. Both may span several lines. A bare value ends at ` #` or
 * at the end of the line. Line ends are LF or CRLF. The last assignment of a key wins. Unlike in a shell, variables are
 * not expanded. A byte order mark at the beginning is not part of the first name.
 */

/**
 * The keys that svc reads from `.env.local` (§2.13), and the origin that `init --token-store local` binds its token to.
 */
const dotenvKeys = [
  'SVC_SERVER_URL',
  'SVC_DEPLOY_TOKEN',
  'SVC_DEPLOY_TOKEN_ORIGIN',
  'SVC_TOKEN',
  'SVC_POST_DEPLOY_ASYNC',
  'SVC_PROJECT_ID',
  'SVC_OUTPUT_DIR',
  'SVC_PRE_DEPLOY',
  'SVC_POST_DEPLOY',
  'SVC_DEPLOY_COMMAND',
  'ADMIN_TOKEN'
] as const
/** A key that svc reads from `.env.local`. */
export type DotenvKey = (typeof dotenvKeys)[number]

/** The values of `.env.local`. */
export interface Dotenv {
  path: string
  values: Partial<Record<DotenvKey, string>>
  /** Why the file cannot be read; null: it can, or there is none. */
  problem: string | null
  /** The problem, and sentences about keys that look like svc's and are not, or are there twice. */
  warnings: string[]
}

const newFileMode = 0o600
const root = 0
const name = /^[ \t]*(?:export[ \t]+)?([A-Za-z_][\w.]*)[ \t]*=[ \t]*/
const value = /'([^']*)'|"((?:[^"\\]|\\[^])*)"|((?:(?![ \t]#)[^\r\n])*)/
/** The first word of a line that assigns nothing to it. */
const firstWord = /^[ \t]*(?:export[ \t]+)?([A-Za-z_]\w*)(?=[ \t:\r]|$)/gm
const assignment = new RegExp(`${name.source}(?:${value.source})[^\\r\\n]*$`, 'gm')

/** Returns the assignments of a text; for a repeated key, the last value. */
export function parseDotenv(text: string): Record<string, string> {
  const values: Record<string, string> = Object.create(null)
  for (const [, key, single, double, bare] of withoutMark(text).matchAll(assignment)) {
    values[key as string] = single ?? (double === undefined ? cleanBare(bare as string) : unescape(double))
  }
  return values
}

/** A bare value that begins with `#` is a comment, so the value is empty. */
function cleanBare(bare: string): string {
  return bare.startsWith('#') ? '' : bare.trim()
}

const escapes: Record<string, string> = { n: '\n', r: '\r', t: '\t' }

function unescape(text: string): string {
  return text.replace(/\\([nrt\\"$])/g, (_, letter: string) => escapes[letter] ?? letter)
}

/** Returns the assignments of a key, in their order. */
function assignmentsOf(text: string, key: string): RegExpMatchArray[] {
  return [...text.matchAll(assignment)].filter(match => match[1] === key)
}

/**
 * Returns the text with `key` set to `value`. The last assignment of the key is replaced in place; if there is none, a
 * line is appended.
 */
export function setDotenv(text: string, key: string, value: string): string {
  const last = assignmentsOf(text, key).at(-1)
  const isExported = last !== undefined && /^[ \t]*export[ \t]/.test(last[0])
  const line = `${isExported ? 'export ' : ''}${key}=${quote(value)}`
  if (last !== undefined) return text.slice(0, last.index) + line + text.slice((last.index as number) + last[0].length)
  const end = text.includes('\r\n') ? '\r\n' : '\n'
  return text + (text === '' || text.endsWith('\n') ? '' : end) + line + end
}

function quote(value: string): string {
  if (/^[\w./:@%+,=-]*$/.test(value)) return value
  return `"${value
    .replace(/[\\"$]/g, '\\$&')
    .replace(/\n/g, '\\n')
    .replace(/\r/g, '\\r')}"`
}

/**
 * Reads `.env.local` of a directory. The result is empty if the file does not exist or, with a warning, cannot be read. Refuses UTF-16
 * and a value of svc that is not UTF-8 (`not_utf8`), and (`unsafe_dotenv`) a file that sets one of svc's keys and that another user could change. A `client`
 * often runs in a checkout that another user owns, so it refuses that owner only as root. For a client, the user's
 * private group may have write access (umask 002).
 */
export async function readDotenv(directory: string, reader: 'server' | 'client'): Promise<Dotenv> {
  const path = join(directory, '.env.local')
  let problem: string | null = null
  const bytes = await readFile(path).catch((error: unknown) => {
    // ENOTDIR: the directory is none.
    if (!hasCode(error, 'ENOENT', 'ENOTDIR')) problem = `Cannot read "${path}", so it sets nothing: ${reasonOf(error)}`
    return Buffer.alloc(0)
  })
  const text = decodeLoosely(bytes, `"${path}"`)
  const all = parseDotenv(text)
  const values = Object.fromEntries(dotenvKeys.flatMap(key => (all[key] ? [[key, all[key]]] : [])))
  // Other lines are of other programs.
  if (Object.values(values).some(value => value.includes('\ufffd'))) decodeText(bytes, `"${path}"`)
  if (Object.keys(values).length > 0) await refuseLoose(path, reader)
  const known: readonly string[] = dotenvKeys
  const unknown = Object.keys(all).filter(key => /^SVC_/i.test(key) && !known.includes(key))
  const repeated = dotenvKeys.filter(key => new Set(assignmentsOf(text, key).map(([whole]) => whole)).size > 1)
  const named = new Set([...text.matchAll(firstWord)].map(([, word]) => word))
  const unset = dotenvKeys.filter(key => !Object.hasOwn(all, key) && named.has(key))
  const warnings = [
    ...(problem === null ? [] : [problem]),
    ...unset.map(key => `"${path}" names ${key} without "=", so it sets nothing: write ${key}=value`),
    ...unknown.map(key => warningOf(path, key)),
    ...repeated.map(key => `"${path}" sets ${key} more than once: the last value counts`)
  ]
  return { path, values, problem, warnings }
}

function warningOf(path: string, key: string): string {
  const near = closest(key, dotenvKeys)
  return `"${path}" sets ${key}, which svc does not read from this file${near === undefined ? '' : `. Did you mean ${near}?`}`
}

async function refuseLoose(path: string, reader: 'server' | 'client'): Promise<void> {
  const stats = await stat(path)
  const trusted = trustedUsers()
  const isClient = reader === 'client'
  if (trusted.length === 0) return
  const owners = isClient && trusted[0] !== root ? [...trusted, stats.uid] : trusted
  const loose = loosenessOf(path, stats, { owners, privateGroup: isClient })
  if (loose === null) return
  throw new Refusal(
    'unavailable',
    'unsafe_dotenv',
    `Cannot use "${path}": ${loose.why}. ${loose.cure}, or remove svc's keys from it`
  )
}

/**
 * Sets one key in `.env.local` and returns the file's path. A new file gets mode 0600; an existing file keeps its mode.
 */
export async function writeDotenv(directory: string, key: DotenvKey, value: string): Promise<string> {
  const path = join(directory, '.env.local')
  const old = await stat(path).catch(() => null)
  const text = old === null ? '' : await readText(path)
  await replaceFile(path, setDotenv(text, key, value), old === null ? newFileMode : old.mode & 0o777)
  return path
}
