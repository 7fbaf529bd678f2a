import type { AccessToken, ListedToken } from '../../../lib/model/access.js'
import { html, icon, type Template } from '../../dom/html.js'
import { countWords, t } from '../../words/t.js'
import { roleWords } from '../base/role-words.js'
import { exactWords } from '../base/words.js'
import { daysUntil, isOverlapping, stateOf } from './token-facts.js'

/** What a row needs besides its token. */
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
  const words = days === 0 ? t('Expires within a day') : t('Expires in {days}', { days: countWords(days, 'day') })
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
