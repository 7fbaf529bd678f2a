/*
 * `.env.local` of the working directory: the keys of §2.13 in it. The file is other tools' too (frameworks read it), so
 * what is not understood is read past, never refused, and a change touches one line.
 *
 * Read: `KEY=value`, `export KEY=value`, blanks around `=`; a value in single quotes as it stands, in double quotes
 * with \n \r \t \\ \" \$, both over several lines; bare, up to a ` #` or the end of the line. LF and CRLF. Later lines win.
 * Differences from a shell: nothing is expanded.
 */
import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { loosenessOf, trustedUsers } from '../base/permissions.js'
import { Refusal } from '../base/refusal.js'
import { replaceFile } from './replace-file.js'

/** The keys svc knows in `.env.local` (§2.13), and the origin that `init --token-store local` binds its token to. */
export const dotenvKeys = [
  'SVC_SERVER_URL',
  'SVC_DEPLOY_TOKEN',
  'SVC_DEPLOY_TOKEN_ORIGIN',
  'SVC_TOKEN',
  'SVC_POST_DEPLOY_ASYNC',
  'ADMIN_TOKEN'
] as const
export type DotenvKey = (typeof dotenvKeys)[number]

export interface Dotenv {
  path: string
  values: Partial<Record<DotenvKey, string>>
}

const newFileMode = 0o600
const root = 0
const name = /[ \t]*(?:export[ \t]+)?([A-Za-z_][\w.]*)[ \t]*=[ \t]*/
const value = /'([^']*)'|"((?:[^"\\]|\\[^])*)"|((?:(?![ \t]#)[^\r\n])*)/
const assignment = new RegExp(`^${name.source}(?:${value.source})[^\\r\\n]*$`, 'gm')

/** The assignments of a text, in order. */
export function parseDotenv(text: string): Record<string, string> {
  const values: Record<string, string> = Object.create(null)
  for (const [, key, single, double, bare] of text.matchAll(assignment)) {
    values[key as string] = single ?? (double === undefined ? cleanBare(bare as string) : unescape(double))
  }
  return values
}

/** A bare value that begins with `#` is a comment. */
function cleanBare(bare: string): string {
  return bare.startsWith('#') ? '' : bare.trim()
}

const escapes: Record<string, string> = { n: '\n', r: '\r', t: '\t' }

function unescape(text: string): string {
  return text.replace(/\\([nrt\\"$])/g, (_, letter: string) => escapes[letter] ?? letter)
}

/** A text with `key` set to `value`: its last assignment replaced where it stands, else a line at the end. */
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
  return `"${value.replace(/[\\"$]/g, '\\$&').replace(/\n/g, '\\n').replace(/\r/g, '\\r')}"`
}

/**
 * What `.env.local` of a directory says; empty if there is no such file, or it cannot be read. Refuses (`unsafe_dotenv`) a
 * file that sets one of the keys and that another user could change. A `client` is often run in a checkout that another
 * user owns: it refuses that only as root; a user's private group may write (umask 002).
 */
export async function readDotenv(directory: string, reader: 'server' | 'client'): Promise<Dotenv> {
  const path = join(directory, '.env.local')
  const all = parseDotenv(await readFile(path, 'utf8').catch(() => ''))
  const values = Object.fromEntries(dotenvKeys.flatMap(key => (all[key] ? [[key, all[key]]] : [])))
  if (Object.keys(values).length > 0) await refuseLoose(path, reader)
  return { path, values }
}

async function refuseLoose(path: string, reader: 'server' | 'client'): Promise<void> {
  const stats = await stat(path)
  const trusted = trustedUsers()
  const isClient = reader === 'client'
  if (trusted.length === 0) return
  const owners = isClient && trusted[0] !== root ? [...trusted, stats.uid] : trusted
  const loose = loosenessOf(path, stats, { owners, privateGroup: isClient })
  if (loose === null) return
  throw new Refusal('unavailable', 'unsafe_dotenv', `Cannot use "${path}": ${loose.why}. ${loose.cure}, or remove svc's keys from it`)
}

/** Sets one key in `.env.local`; a new file is its owner's alone, an old one keeps its mode. Answers the path. */
export async function writeDotenv(directory: string, key: DotenvKey, value: string): Promise<string> {
  const path = join(directory, '.env.local')
  const old = await stat(path).catch(() => null)
  const text = old === null ? '' : await readFile(path, 'utf8')
  await replaceFile(path, setDotenv(text, key, value), old === null ? newFileMode : old.mode & 0o777)
  return path
}
