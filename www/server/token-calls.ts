import type { AccessRole, AccessToken, NewToken, TokenList } from '../../lib/model/access.js'
import type { Client } from './client.js'

/** The fields of a named token. */
export interface TokenFields {
  name: string
  role: AccessRole
  projectIds: string[] | null
  allowedIps: string[]
  showScripts: boolean
  /** As ISO text. Absent: the server's default for a new token, and unchanged for a known one. */
  expiresAt?: string
}

/** The rotation of a token. */
export interface Rotation {
  overlapSeconds: number
  /** As ISO text. Absent: as long as before. */
  expiresAt?: string
}

/** The API of named tokens. Each function rejects as `Client.ask` does. */
export interface TokenCalls {
  list(signal?: AbortSignal): Promise<TokenList>
  /** Returns the token with its secret, which is not stored. */
  create(fields: TokenFields): Promise<NewToken>
  update(id: string, fields: TokenFields): Promise<AccessToken>
  /** Returns the token with its new secret, which is not stored. */
  rotate(id: string, rotation: Rotation): Promise<NewToken>
  revoke(id: string): Promise<void>
  /** Removes the second factor of another token. */
  removeFactor(id: string): Promise<void>
  /** Returns the longest lifetime of a token in days, as the settings say. */
  maxDays(signal?: AbortSignal): Promise<number>
}

/** The longest lifetime of a token in days if the settings are not known. */
export const usualMaxDays = 365

/** Creates the calls. */
export function createTokenCalls({ ask }: Pick<Client, 'ask'>): TokenCalls {
  const path = (id: string): string => `api/tokens/${encodeURIComponent(id)}`
  return {
    list: signal => ask('GET', 'api/tokens', { signal }),
    create: body => ask('POST', 'api/tokens', { body }),
    async update(id, body) {
      return (await ask<{ record: AccessToken }>('PATCH', path(id), { body })).record
    },
    rotate: (id, body) => ask('POST', `${path(id)}/rotate`, { body }),
    async revoke(id) {
      await ask('DELETE', path(id))
    },
    async removeFactor(id) {
      await ask('DELETE', `${path(id)}/second-factor`)
    },
    async maxDays(signal) {
      const { token_max_days: days } = await ask<Record<string, string>>('GET', 'api/settings', { signal })
      return Number(days) || usualMaxDays
    }
  }
}
