import type { Given } from '../../lib/api/map/call.js'
import { createCall } from './call.js'
import type { Client } from './client.js'

/** The fields of a named token. Without `expiresAt`: the server's default for a new token, unchanged for a known one. */
export type TokenFields = NonNullable<Given<'POST /api/tokens'>['body']>
/** The API of named tokens. Each function rejects as `Client.ask` does. */
export type TokenCalls = ReturnType<typeof createTokenCalls>

/** The longest lifetime of a token in days if the settings are not known. */
export const usualMaxDays = 365

/** Creates the calls. */
export function createTokenCalls(client: Pick<Client, 'ask'>) {
  const call = createCall(client)
  return {
    list: (signal?: AbortSignal) => call('GET /api/tokens', { signal }),
    /** Returns the token with its secret, which is not stored. */
    create: (body: TokenFields) => call('POST /api/tokens', { body }),
    update: async (id: string, body: TokenFields) => (await call('PATCH /api/tokens/:id', { id, body })).record,
    /** Returns the token with its new secret, which is not stored. */
    rotate: (id: string, body: Given<'POST /api/tokens/:id/rotate'>['body']) =>
      call('POST /api/tokens/:id/rotate', { id, body }),
    revoke: (id: string) => call('DELETE /api/tokens/:id', { id }),
    /** Removes the second factor of another token. */
    removeFactor: (id: string) => call('DELETE /api/tokens/:id/second-factor', { id }),
    /** Returns the longest lifetime of a token in days, as the settings say. */
    async maxDays(signal?: AbortSignal): Promise<number> {
      const { token_max_days: days } = await call('GET /api/settings', { signal })
      return Number(days) || usualMaxDays
    }
  }
}
