import { chmodSync, readFileSync, statSync, type Stats } from 'node:fs'
import { countOf, withoutMark } from '../base/text.js'
import type { Ids } from '../base/digests.js'
import { Refusal, invalid } from '../base/errors.js'
import { type Home, writeConfig } from '../base/config/home.js'
import { createComparison } from './secret.js'

/** Minimum length of a new admin token. */
const minTokenLength = 8 // §8: a new admin token
const maxTokenLength = 1024
const minStrongLength = 24 // §5.6
const minDistinctCharacters = 8 // §5.6

/** Returns why a token violates the strength policy (§5.6), or null if it does not. */
export function weaknessOf(token: string): string | null {
  if (token.length < minStrongLength)
    return `it has ${countOf(token.length, 'character')}; at least ${minStrongLength} are required`
  if (!/[a-z]/i.test(token)) return 'it contains no letter'
  if (!/[0-9]/.test(token)) return 'it contains no digit'
  const distinct = new Set(token).size
  if (distinct >= minDistinctCharacters) return null
  return `it has ${countOf(distinct, 'different character')}; at least ${minDistinctCharacters} are required`
}

/** Generates a token that passes the strength policy. About one in some hundred million random tokens needs a retry. */
export function strongToken(ids: Pick<Ids, 'token'>): string {
  for (;;) {
    const token = ids.token()
    if (weaknessOf(token) === null) return token
  }
}

/** Refuses a token that is too short, too long, or cannot be sent in an `Authorization` header. */
export function checkNewToken(token: string, field: string): void {
  if (token.length < minTokenLength) {
    throw invalid(field, `The new token is too short: at least ${minTokenLength} characters are required`)
  }
  if (token.length > maxTokenLength) {
    throw invalid(field, `The new token is too long: at most ${maxTokenLength} characters are allowed`)
  }
  if (!/^[\x21-\x7e]+$/.test(token)) {
    throw invalid(field, 'The new token contains an invalid character: use visible ASCII characters without spaces')
  }
}

/** The admin token of a running server. */
export interface AdminToken {
  /** Whether this start generated the token, so that nobody knows it yet. */
  isNew: boolean
  /** Returns the valid token. Checks the file for every request, but reads it only if it has changed. */
  current(): string
  /** Compares a token in constant time. */
  verify(token: string): boolean
  /** Writes another token to config.json. Refuses: 400 naming `newToken`. */
  change(newToken: string): Promise<void>
  /**
   * Sets or removes the override. The same value changes nothing: a token written to the file since then stays valid.
   */
  override(token: string | undefined): Promise<void>
}

/**
 * Opens the admin token of a data directory: `adminToken` in its config.json (mode 0600). The first start generates
 * one. An `override` (ADMIN_TOKEN) takes precedence until the token in the file changes while the server runs. Such a
 * change is deliberate, so the file's token then applies.
 */
export async function openAdminToken(options: {
  home: Pick<Home, 'directory' | 'configFile'>
  ids: Pick<Ids, 'token'>
  override?: string | undefined
}): Promise<AdminToken> {
  const { home, ids } = options
  let { override } = options
  const watched = watchToken(home.configFile)

  async function keep(adminToken: string): Promise<void> {
    try {
      await writeConfig(home, config => void (config.adminToken = adminToken))
    } catch (error) {
      // If the file contains the token, it applies, whatever failed afterwards.
      watched.lookAgain()
      if (watched.read() !== adminToken) throw error
    }
    watched.lookAgain()
  }

  const isNew = watched.read() === null && !override
  if (isNew) await keep(strongToken(ids))
  hideFromOthers(home.configFile)
  let overridden = watched.read()

  function current(): string {
    const kept = watched.read()
    if (override && kept === overridden) return override
    if (kept === null) throw noToken(home.configFile)
    return kept
  }

  return {
    isNew,
    current,
    verify: createTokenVerifier(current),
    async change(newToken) {
      checkNewToken(newToken, 'newToken')
      await keep(newToken)
    },
    async override(token) {
      if (token === override) return
      if (watched.read() === null && !token) await keep(strongToken(ids))
      override = token
      overridden = watched.read()
    }
  }
}

/** Returns a function that compares tokens with the current one, in constant time. */
export function createTokenVerifier(current: () => string): (token: string) => boolean {
  let known = ''
  let isSame = createComparison(known)
  return token => {
    const now = current()
    if (now !== known) isSame = createComparison((known = now))
    return isSame(token)
  }
}

function noToken(configFile: string): Refusal {
  return new Refusal('unavailable', 'no_admin_token', `Cannot log in: "${configFile}" contains no adminToken`)
}

/** Removes other users' access to the file, because it contains secrets. An editor may have granted it. */
function hideFromOthers(configFile: string): void {
  const stat = statSync(configFile, { throwIfNoEntry: false })
  if (stat !== undefined && (stat.mode & 0o077) !== 0) chmodSync(configFile, 0o600)
}

/** A file read within this time of its last change may change again with the same time stamp. */
const racyMs = 1000

/**
 * Returns a reader of `adminToken` that reads the file again only if its stamp has changed. If the file is missing,
 * incomplete or without a token, the last token stays valid: an editor that saves in two steps changes nothing.
 *
 * Requests that arrive together share one stat call, which is a tenth of the cost of a small request (bench/api). All
 * of them arrived before the call, so its result is recent enough for each.
 */
function watchToken(configFile: string): { read(): string | null; lookAgain(): void } {
  let token: string | null = null
  let stamp: Stamp | null = null
  let isFresh = false

  function look(): void {
    const stat = statSync(configFile, { throwIfNoEntry: false })
    if (stat === undefined || (stamp !== null && isSameStamp(stat, stamp))) return
    token = readToken(configFile) ?? token
    const { ino, size, mtimeMs, ctimeMs } = stat
    stamp = Math.abs(Date.now() - mtimeMs) > racyMs ? { ino, size, mtimeMs, ctimeMs } : null
  }

  return {
    read() {
      if (isFresh) return token
      look()
      isFresh = true
      setImmediate(() => void (isFresh = false))
      return token
    },
    lookAgain: () => void (isFresh = false)
  }
}

type Stamp = Pick<Stats, 'ino' | 'size' | 'mtimeMs' | 'ctimeMs'>

function isSameStamp(one: Stamp, other: Stamp): boolean {
  const isSameFile = one.ino === other.ino && one.size === other.size
  return isSameFile && one.mtimeMs === other.mtimeMs && one.ctimeMs === other.ctimeMs
}

function readToken(configFile: string): string | null {
  try {
    const config: unknown = JSON.parse(withoutMark(readFileSync(configFile, 'utf8')))
    const token = typeof config === 'object' && config !== null ? (config as { adminToken?: unknown }).adminToken : null
    return typeof token === 'string' && token !== '' ? token : null
  } catch {
    return null
  }
}
