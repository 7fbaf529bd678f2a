import type { Client } from './client/client.js'
import { resolve } from 'node:path'
import { reasonOf, Refusal } from '../base/errors.js'
import { writeNew } from '../base/files.js'
import { countOf, oneLine } from '../base/text.js'
import { type AccessToken, daysLeftOf, type ListedToken, type TokenAdvice, unusedDays } from '../model/access.js'
import { isSameName } from '../model/project.js'
import { findProject, nearOr } from './client/named-project.js'
import { type AdminOptions, openAdmin } from './client/session.js'
import { type Context, option } from './command.js'
import { relativeTime } from './terminal/words.js'

export const tokenOperand = { required: true, help: 'name or id of the token' } as const

/** The option that keeps a secret out of the terminal. */
export const outOption = option(
  'file',
  'write the secret to a new file that only you can read, instead of the terminal'
)

/** Returns the option that names any number of projects. */
export const projectsOption = (help: string) => option('project', help, { repeatable: true, complete: 'projects' })

/** Opens the API and finds a token by its name or id. Refuses: `no_such_token`. */
export async function openToken(
  context: Context,
  options: AdminOptions,
  word: string
): Promise<{ client: Client; token: AccessToken }> {
  const { client } = await openAdmin(context, options)
  return { client, token: await findNamedToken(client, word) }
}

/** Returns the token with a name or an id. Refuses: `no_such_token`. */
export async function findNamedToken(client: Client, word: string): Promise<AccessToken> {
  const { items } = await client.call('GET /api/tokens')
  const token = items.find(({ id, name }) => id === word || isSameName(name, word))
  if (token !== undefined) return token
  const names = items.map(({ name }) => name)
  const advice = nearOr(word, names, '"svc token list" shows the names')
  throw new Refusal('not_found', 'no_such_token', oneLine(`Token not found: "${word}". ${advice}`))
}

/** Returns the ids of projects that a command line names; null if it names none. */
export async function projectIdsOf(client: Client, words: readonly string[]): Promise<string[] | null> {
  if (words.length === 0) return null
  const ids: string[] = []
  for (const word of words) ids.push((await findProject(client, word)).id)
  return ids
}

/** Prints a secret on standard output, or writes it to a new file. */
export async function handOver(secret: string, file: string | undefined, { output, cwd }: Context): Promise<void> {
  if (file === undefined) {
    output.note('The server does not store the secret. It is shown only now:')
    output.print(secret)
    return
  }
  try {
    await writeNew(resolve(cwd, file), `${secret}\n`, 0o600)
  } catch (error) {
    // The token exists, and nobody would know its secret.
    output.warn(`The secret could not be written to ${file}: ${reasonOf(error)}. It is shown instead:`)
    output.print(secret)
    return
  }
  output.note(`The secret is in ${file}`)
}

const dayMs = 24 * 60 * 60_000

/** Returns the end of a token, seen from now, in days begun: `expires in 88 days`, `revoked`. */
export function endOf({ expiresAt, revokedAt }: Pick<AccessToken, 'expiresAt' | 'revokedAt'>, nowMs: number): string {
  if (revokedAt !== null) return `revoked ${relativeTime(revokedAt, nowMs)}`
  const leftMs = Date.parse(expiresAt) - nowMs
  if (leftMs <= 0) return `expired ${relativeTime(expiresAt, nowMs)}`
  if (leftMs < dayMs) return `expires at ${expiresAt.slice(11, 16)} UTC`
  return `expires in ${countOf(daysLeftOf({ expiresAt }, nowMs), 'day')}`
}

/** Returns the last use of a token: `4m ago from 10.0.0.7`. */
export function useOf(
  { lastUsedAt, lastUsedIp }: Pick<AccessToken, 'lastUsedAt' | 'lastUsedIp'>,
  nowMs: number
): string {
  if (lastUsedAt === null) return 'never'
  return lastUsedIp === null ? relativeTime(lastUsedAt, nowMs) : `${relativeTime(lastUsedAt, nowMs)} from ${lastUsedIp}`
}

const adviceWords: Readonly<Record<TokenAdvice, string>> = {
  expires_soon: 'expires soon',
  unused: `unused for ${unusedDays} days`,
  rotate: 'old secret'
}

/** Returns what is remarkable about a token: a second factor, a near end, no use, an old secret. */
export function remarksOf({ advice, secondFactor }: Pick<ListedToken, 'advice' | 'secondFactor'>): string {
  return [...(secondFactor ? ['second factor'] : []), ...advice.map(each => adviceWords[each])].join(', ')
}

/** Returns the projects of a token. `names` maps ids to names; a removed project is shown by its id. */
export function scopeOf({ projectIds }: Pick<AccessToken, 'projectIds'>, names: ReadonlyMap<string, string>): string {
  if (projectIds === null) return 'all projects'
  return oneLine(projectIds.map(id => names.get(id) ?? id).join(', '))
}
