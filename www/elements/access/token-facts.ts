import type { AccessRole, AccessToken, tokenLimits } from '../../../lib/model/access.js'
import { numberWords, t } from '../../words/t.js'

/* Facts about named tokens in words. Pure. */

const dayMs = 24 * 60 * 60 * 1000
const warningDays = 14

/** The limits of the server that forms state. */
export const limits: Pick<typeof tokenLimits, 'nameLength' | 'projects'> = { nameLength: 200, projects: 200 }

/** What each role may do, in a sentence. English; passed to t(). Each role also has the rights of those before it. */
export const roleRows: ReadonlyArray<{ role: AccessRole; words: string }> = [
  { role: 'viewer', words: 'Reads projects, deployments and logs. Changes nothing.' },
  {
    role: 'deployer',
    words: 'Also deploys, and cancels, confirms and reverts the deployments that it started.'
  },
  {
    role: 'operator',
    words: 'Also rolls back, repairs and locks, decides about every deployment, and reads the files of targets.'
  },
  { role: 'admin', words: 'Everything, including tokens, settings, scripts and the terminal.' }
]

/** The state of a token. `expiring`: it expires within 14 days. */
export type TokenState = 'valid' | 'expiring' | 'expired' | 'revoked'

/** Returns the state of a token. */
export function stateOf(
  { revokedAt, expiresAt }: Pick<AccessToken, 'revokedAt' | 'expiresAt'>,
  nowMs: number
): TokenState {
  if (revokedAt !== null) return 'revoked'
  const leftMs = Date.parse(expiresAt) - nowMs
  if (leftMs <= 0) return 'expired'
  return leftMs <= warningDays * dayMs ? 'expiring' : 'valid'
}

/** Returns the whole days until an instant. */
export function daysUntil(at: string, nowMs: number): number {
  return Math.max(0, Math.floor((Date.parse(at) - nowMs) / dayMs))
}

/** Returns the instant after a number of days, as ISO text. */
export function afterDays(days: number, nowMs: number): string {
  return new Date(nowMs + days * dayMs).toISOString()
}

/** Returns whether the earlier secret of a token is still valid after a rotation. */
export function isOverlapping({ oldExpiresAt }: Pick<AccessToken, 'oldExpiresAt'>, nowMs: number): boolean {
  return oldExpiresAt !== null && Date.parse(oldExpiresAt) > nowMs
}

/** Reads addresses that are separated by spaces, commas or lines. */
export function readAddresses(text: string): string[] {
  return [...new Set(text.split(/[\s,;，；]+/).filter(each => each !== ''))]
}

/**
 * Returns the tokens whose name, role or projects contain a text: those that expire soon, the other valid ones, and
 * those that have ended.
 */
export function findTokens(
  tokens: readonly AccessToken[],
  { text, nowMs, nameOf }: { text: string; nowMs: number; nameOf: (projectId: string) => string }
): AccessToken[] {
  const sought = text.trim().toLowerCase()
  const found = tokens.filter(({ name, role, projectIds }) =>
    [name, role, ...(projectIds ?? []).map(nameOf)].some(each => each.toLowerCase().includes(sought))
  )
  const inState = (state: TokenState): AccessToken[] => found.filter(token => stateOf(token, nowMs) === state)
  return [...inState('expiring'), ...inState('valid'), ...inState('expired'), ...inState('revoked')]
}

/** Returns what is wrong with a typed number of days, or null. */
export function daysProblem(text: string, maxDays: number): string | null {
  const days = Number(text)
  if (Number.isInteger(days) && days >= 1 && days <= maxDays) return null
  return t('The days until it expires must be a whole number from 1 to {count}.', { count: numberWords(maxDays) })
}
