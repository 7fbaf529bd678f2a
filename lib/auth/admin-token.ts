import { chmodSync, readFileSync, statSync } from 'node:fs'
import type { Stats } from 'node:fs'
import { countOf } from '../base/count.js'
import type { Ids } from '../base/ids.js'
import { Refusal, invalid } from '../base/refusal.js'
import { writeConfig } from '../config/home.js'
import type { Home } from '../config/home.js'
import { createComparison } from './secret.js'

export const minTokenLength = 8 // §8: a new admin token
const maxTokenLength = 1024
const minStrongLength = 24 // §5.6
const minDistinctCharacters = 8 // §5.6

/** What is weak about a token by the strength policy (§5.6); null: nothing. */
export function weaknessOf(token: string): string | null {
  if (token.length < minStrongLength) return `it has ${countOf(token.length, 'character')} of at least ${minStrongLength}`
  if (!/[a-z]/i.test(token)) return 'it has no letter'
  if (!/[0-9]/.test(token)) return 'it has no digit'
  const distinct = new Set(token).size
  if (distinct >= minDistinctCharacters) return null
  return `it has ${countOf(distinct, 'different character')} of at least ${minDistinctCharacters}`
}

/** A token that passes the strength policy. 32 random bytes fail it once in some hundred million times: then again. */
export function strongToken(ids: Pick<Ids, 'token'>): string {
  for (;;) {
    const token = ids.token()
    if (weaknessOf(token) === null) return token
  }
}

/** Refuses what could not be typed into an `Authorization` header, or is too short to be a token. */
export function checkNewToken(token: string, field: string): void {
  if (token.length < minTokenLength) {
    throw invalid(field, `The new token is too short: at least ${minTokenLength} characters are needed`)
  }
  if (token.length > maxTokenLength) {
    throw invalid(field, `The new token is too long: at most ${maxTokenLength} characters are taken`)
  }
  if (!/^[\x21-\x7e]+$/.test(token)) {
    throw invalid(field, 'The new token cannot be used: it must be of visible ASCII characters, without spaces')
  }
}

export interface AdminToken {
  /** Whether this start has generated the token, so that nobody knows it yet. */
  isNew: boolean
  /** The token that is valid now. The file is looked at for every request, and read only when it has changed. */
  current(): string
  /** In constant time. */
  verify(token: string): boolean
  /** Keeps another token in config.json. Refuses: 400 naming `newToken`. */
  change(newToken: string): Promise<void>
  /** Another override from now on, or none. The same one again changes nothing: a token kept since goes on counting. */
  override(token: string | undefined): Promise<void>
}

/**
 * The admin token of a data directory: `adminToken` in its config.json (mode 0600). The first start generates one.
 * An `override` (ADMIN_TOKEN) counts instead, until the file gets another token while the server runs: who resets or
 * changes it then means it.
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
      // Once the file has the token, it is in force, whatever fails afterwards.
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
    verify: createVerifier(current),
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

/** Compares with the token of the moment. */
function createVerifier(current: () => string): (token: string) => boolean {
  let known = ''
  let isSame = createComparison(known)
  return token => {
    const now = current()
    if (now !== known) isSame = createComparison((known = now))
    return isSame(token)
  }
}

function noToken(configFile: string): Refusal {
  return new Refusal('unavailable', 'no_admin_token', `Nobody can log in: there is no adminToken in "${configFile}"`)
}

/** The file holds secrets: what others may do with it is taken away (an editor may have let them). */
function hideFromOthers(configFile: string): void {
  const stat = statSync(configFile, { throwIfNoEntry: false })
  if (stat !== undefined && (stat.mode & 0o077) !== 0) chmodSync(configFile, 0o600)
}

/** A file changed within this time of being read may change again without its stamp changing. */
const racyMs = 1000

/**
 * Reads `adminToken`, again only when the file's stamp differs. A file that is gone, half-written or without a token
 * leaves the last one valid: nobody is locked out, or let in, by an editor that saves in two steps.
 *
 * Requests that arrived together share one stat (a tenth of what a small request costs: bench/api): what it sees is
 * not older than any of them, since all had arrived before it was made.
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
    const config: unknown = JSON.parse(readFileSync(configFile, 'utf8'))
    const token = typeof config === 'object' && config !== null ? (config as { adminToken?: unknown }).adminToken : null
    return typeof token === 'string' && token !== '' ? token : null
  } catch {
    return null
  }
}
