import type { Answered } from '../../lib/api/map/call.js'
import { createCall } from './call.js'
import type { Client } from './client.js'

/** A second factor that was begun: its secret, which is shown once, also as an `otpauth:` address. */
export type BegunFactor = Omit<Answered<'POST /api/auth/second-factor'>, 'success'>
/** The API of the second factor of the own token. Each function rejects as `Client.ask` does. */
export type SecondFactorCalls = ReturnType<typeof createSecondFactorCalls>

/** Creates the calls. */
export function createSecondFactorCalls(client: Pick<Client, 'ask'>) {
  const call = createCall(client)
  return {
    /** Returns whether the own token has a second factor. */
    isOn: async (signal?: AbortSignal) => (await call('GET /api/tokens/self', { signal })).secondFactor,
    begin: (): Promise<BegunFactor> => call('POST /api/auth/second-factor'),
    /** Confirms by a code of the authenticator. Returns the recovery codes, which are not stored. */
    confirm: async (code: string): Promise<readonly string[]> =>
      (await call('POST /api/auth/second-factor/confirm', { body: { code } })).recoveryCodes,
    /** Removes it. `code` is one of the authenticator, or a recovery code. */
    remove: (code: string) => call('DELETE /api/auth/second-factor', { body: { code } })
  }
}
