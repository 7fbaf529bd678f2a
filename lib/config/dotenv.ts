/*
 * Reads and writes the keys of §2.13 in `.env.local` of the working directory. Other tools (frameworks) read the same
 * file, so svc ignores lines that it does not understand, and a write changes one line only.
 *
 * Syntax: `KEY=value` or `export KEY=value`, with optional blanks around `=`. A value in single quotes is literal. A
 * value in double quotes knows the escapes \n \r \t \\ \" \$. Both may span several lines. A bare value ends at ` #` or
 * at the end of the line. Line ends are LF or CRLF. The last assignment of a key wins. Unlike in a shell, variables are
 * not expanded. A byte order mark at the beginning is not part of the first name.
 */
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { loosenessOf, replaceFile, trustedUsers } from '../base/files.js'
import { Refusal } from '../base/errors.js'
import { closest, readText, readTextIfAny, withoutMark } from '../base/text.js'

/**
 * The keys that svc reads from `.env.local` (§2.13), and the origin that `init --token-store local` binds its token to.
 */
export const dotenvKeys = [
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
  /** Sentences about keys that look like svc's and are not. */
  warnings: string[]
}

const newFileMode = 0o600
const root = 0
const name = /^[ \t]*(?:export[ \t]+)?([A-Za-z_][\w.]*)[ \t]*=[ \t]*/
const value = /'([^']*)'|"((?:[^"\\]|\\[^])*)"|((?:(?![ \t]#)[^\r\n])*)/
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

/**
 * Returns the text with `key` set to `value`. The last assignment of the key is replaced in place; if there is none, a
 * line is appended.
 */
export function setDotenv(text: string, key: string, value: string): string {
  const last = [...text.matchAll(assignment)].filter(match => match[1] === key).at(-1)
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
 * Reads `.env.local` of a directory. The result is empty if the file does not exist or cannot be read. Refuses UTF-16
 * (`not_utf8`), and (`unsafe_dotenv`) a file that sets one of svc's keys and that another user could change. A `client` often runs in a
 * checkout that another user owns, so it refuses that owner only as root. For a client, the user's private group may
 * have write access (umask 002).
 */
export async function readDotenv(directory: string, reader: 'server' | 'client'): Promise<Dotenv> {
  const path = join(directory, '.env.local')
  const all = parseDotenv(await readTextIfAny(path))
  const values = Object.fromEntries(dotenvKeys.flatMap(key => (all[key] ? [[key, all[key]]] : [])))
  if (Object.keys(values).length > 0) await refuseLoose(path, reader)
  const known: readonly string[] = dotenvKeys
  const unknown = Object.keys(all).filter(key => /^SVC_/i.test(key) && !known.includes(key))
  return { path, values, warnings: unknown.map(key => warningOf(path, key)) }
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
