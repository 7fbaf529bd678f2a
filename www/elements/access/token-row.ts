import type { AccessRole, AccessToken, ListedToken, tokenLimits } from '../../../lib/model/access.js'
import { countWords, numberWords, t } from '../../words/t.js'
import { html, icon, type Template } from '../../dom/html.js'
import { exactWords, roleWords } from '../base/words.js'

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

export function stateOf(
  { revokedAt, expiresAt }: Pick<AccessToken, 'revokedAt' | 'expiresAt'>,
  nowMs: number
): TokenState {
  if (revokedAt !== null) return 'revoked'
  const leftMs = Date.parse(expiresAt) - nowMs
  if (leftMs <= 0) return 'expired'
  return leftMs <= warningDays * dayMs ? 'expiring' : 'valid'
}

/** Returns the days until an instant, in days begun, as the commands count them. */
export function daysUntil(at: string, nowMs: number): number {
  return Math.max(0, Math.ceil((Date.parse(at) - nowMs) / dayMs))
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

export interface RowNeeds {
  nowMs: number
  /** Returns the name of a project; its id if it was deleted. */
  nameOf: (projectId: string) => string
  /** Called with the chosen action. */
  act: (action: 'edit' | 'rotate' | 'revoke' | 'factor') => void
  /** Whether somebody else uses the token. Only the owner removes the second factor with a code. */
  isForeign: boolean
}

const namedProjects = 3

/** A token that has just been created or changed has no advice yet. */
type ShownToken = AccessToken & Partial<Pick<ListedToken, 'advice'>>

/** Returns the content of a row: name and role, scope, expiry, last use, and its actions. */
export function tokenRow(token: ShownToken, { nowMs, nameOf, act, isForeign }: RowNeeds): Template {
  const { id, name, role, lastUsedAt, lastUsedIp, revokedAt, secondFactor } = token
  const button = (action: Parameters<typeof act>[0], words: string): Template =>
    html`<button type="button" class="quiet" aria-label="${`${words} ${name}`}" @click="${() => act(action)}">${words}</button>`
  return html`
    <div class="what">
      <b translate="no">${name}</b>
      <span>${t(roleWords[role])} · ${scopeOf(token, nameOf)}${extras(token)}</span>
    </div>
    <div class="when">
      ${expiryOf(token, nowMs)}
      <span>
        ${lastUsedAt === null ? t('Never used') : html`${t('Last used')} <svc-time at="${lastUsedAt}"></svc-time>`}
        ${lastUsedIp === null ? null : html` <span class="mono">${lastUsedIp}</span>`}
      </span>
      ${isOverlapping(token, nowMs) ? overlapOf(token) : null}
    </div>
    <div class="tools">
      <a href="audit?token=${id}" aria-label="${t('Audit entries of {name}', { name })}">${t('Audit entries')}</a>
      ${
        revokedAt === null
          ? [
              button('edit', t('Change…')),
              button('rotate', t('Rotate…')),
              secondFactor && isForeign ? button('factor', t('Remove second factor…')) : null,
              button('revoke', t('Revoke…'))
            ]
          : null
      }
    </div>`
}

function scopeOf({ projectIds }: AccessToken, nameOf: RowNeeds['nameOf']): Template {
  if (projectIds === null) return html`${t('all projects')}`
  const names = projectIds.map(nameOf)
  const more = names.length - namedProjects
  return html`<span translate="no" title="${names.join(', ')}">${names.slice(0, namedProjects).join(', ')}</span>${
    more > 0 ? ` ${t('and {count} more', { count: more })}` : null
  }`
}

/** Shows what else limits or extends a token, and what to do about it. */
function extras({ allowedIps, showScripts, role, secondFactor, advice = [] }: ShownToken): Template | null {
  const parts = [
    allowedIps.length === 0
      ? null
      : html`<span title="${allowedIps.join('\n')}">${t('from {count}', { count: countWords(allowedIps.length, 'network') })}</span>`,
    showScripts && (role === 'viewer' || role === 'deployer') ? html`${t('reads scripts')}` : null,
    secondFactor ? html`${t('second factor')}` : null,
    advice.includes('unused') ? html`<span class="overlap">${t('not used for 90 days')}</span>` : null,
    advice.includes('rotate') ? html`<span class="overlap">${t('old secret')}</span>` : null
  ].filter(part => part !== null)
  return parts.length === 0 ? null : html`${parts.map(part => html` · ${part}`)}`
}

function expiryOf({ expiresAt, revokedAt }: AccessToken, nowMs: number): Template {
  const state = stateOf({ expiresAt, revokedAt }, nowMs)
  if (state === 'revoked')
    return html`<span class="ended">${t('Revoked')} <svc-time at="${revokedAt}"></svc-time></span>`
  if (state === 'expired')
    return html`<span class="ended">${t('Expired')} <svc-time at="${expiresAt}"></svc-time></span>`
  const days = daysUntil(expiresAt, nowMs)
  const words = days === 1 ? t('Expires within a day') : t('Expires in {days}', { days: countWords(days, 'day') })
  return state === 'expiring'
    ? html`<span class="soon" title="${exactWords(expiresAt)}">${icon('warning')}${words}</span>`
    : html`<span title="${exactWords(expiresAt)}">${words}</span>`
}

/** Shows until when the earlier secret is valid, and whether anybody still uses it. */
function overlapOf({ oldExpiresAt, oldLastUsedAt }: AccessToken): Template {
  return html`
    <span class="overlap">
      ${t('Earlier secret valid until')} <svc-time at="${oldExpiresAt}"></svc-time>,
      ${oldLastUsedAt === null ? t('not used since the rotation') : html`${t('last used')} <svc-time at="${oldLastUsedAt}"></svc-time>`}
    </span>`
}
