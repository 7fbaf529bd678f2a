import type { AccessToken } from '../../lib/model/access.js'
import type { Client } from './client.js'

/** A second factor that was begun. The secret is shown once. */
export interface BegunFactor {
  /** In base32, to be typed into an authenticator. */
  secret: string
  /** The same as an `otpauth:` address. */
  link: string
}

/** The API of the second factor of the own token. Each function rejects as `Client.ask` does. */
export interface SecondFactorCalls {
  /** Returns whether the own token has a second factor. */
  isOn(signal?: AbortSignal): Promise<boolean>
  begin(): Promise<BegunFactor>
  /** Confirms by a code of the authenticator. Returns the recovery codes, which are not stored. */
  confirm(code: string): Promise<readonly string[]>
  /** Removes it. `code` is one of the authenticator, or a recovery code. */
  remove(code: string): Promise<void>
}

/** Creates the calls. */
export function createSecondFactorCalls({ ask }: Pick<Client, 'ask'>): SecondFactorCalls {
  const path = 'api/auth/second-factor'
  return {
    async isOn(signal) {
      return (await ask<AccessToken>('GET', 'api/tokens/self', { signal })).secondFactor
    },
    begin: () => ask('POST', path, { body: {} }),
    async confirm(code) {
      return (await ask<{ recoveryCodes: string[] }>('POST', `${path}/confirm`, { body: { code } })).recoveryCodes
    },
    async remove(code) {
      await ask('DELETE', path, { body: { code } })
    }
  }
}
