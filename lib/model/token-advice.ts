import type { AccessToken, TokenAdvice } from './access.js'

/** A reminder that a token ends soon. */
export interface TokenReminder {
  token: Pick<AccessToken, 'id' | 'name' | 'role' | 'projectIds' | 'expiresAt'>
  /** Whole days until it ends, rounded up. */
  daysLeft: number
}

/** A token that accepts no code of its second factor for a while: too many were wrong. */
export interface TokenLock extends Pick<TokenReminder, 'token'> {
  lockedUntil: string
}

/** Days before the end of a token at which a reminder is sent, the later one last. */
export const reminderDays = [14, 1] as const
/** Days without use after which a token is reported. */
export const unusedDays = 90

const dayMs = 86_400_000

/** The fields of a token that decide about advice. */
type Advised = Pick<AccessToken, 'createdAt' | 'expiresAt' | 'lastUsedAt' | 'rotatedAt' | 'revokedAt'>

/** Returns whether a token is valid: neither revoked nor expired. */
export function isValidToken(
  { revokedAt, expiresAt }: Pick<Advised, 'revokedAt' | 'expiresAt'>,
  nowMs: number
): boolean {
  return revokedAt === null && Date.parse(expiresAt) > nowMs
}

/** Returns the whole days until a token ends, rounded up; 0 if it has ended. */
export function daysLeftOf({ expiresAt }: Pick<Advised, 'expiresAt'>, nowMs: number): number {
  return Math.max(0, Math.ceil((Date.parse(expiresAt) - nowMs) / dayMs))
}

/** Returns the whole days since the secret of a token was made. */
export function secretDaysOf(
  { createdAt, rotatedAt }: Pick<Advised, 'createdAt' | 'rotatedAt'>,
  nowMs: number
): number {
  return Math.max(0, Math.floor((nowMs - Date.parse(rotatedAt ?? createdAt)) / dayMs))
}

/** Returns the advice about a token; nothing for one that has ended. `rotateDays` 0 means that secrets may be old. */
export function adviceOf(token: Advised, { nowMs, rotateDays }: { nowMs: number; rotateDays: number }): TokenAdvice[] {
  if (!isValidToken(token, nowMs)) return []
  const idleMs = nowMs - Date.parse(token.lastUsedAt ?? token.createdAt)
  const advice: TokenAdvice[] = []
  if (dueReminder(token, nowMs) !== null) advice.push('expires_soon')
  if (idleMs >= unusedDays * dayMs) advice.push('unused')
  if (rotateDays > 0 && secretDaysOf(token, nowMs) >= rotateDays) advice.push('rotate')
  return advice
}

/**
 * Returns the reminder that is due for a token: the number of days of `reminderDays` that has been reached last. Null:
 * none is. A token that lives no longer than that number of days needs no reminder that many days before its end.
 */
export function dueReminder(token: Advised, nowMs: number): number | null {
  if (!isValidToken(token, nowMs)) return null
  const endMs = Date.parse(token.expiresAt)
  const lifeMs = endMs - Date.parse(token.rotatedAt ?? token.createdAt)
  const due = reminderDays.filter(days => endMs - nowMs <= days * dayMs && lifeMs > days * dayMs)
  return due.at(-1) ?? null
}
