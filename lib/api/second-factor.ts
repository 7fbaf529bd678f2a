import type { NamedTokens } from '../auth/named-tokens.js'
import type { FactorOwner, SecondFactors } from '../auth/second-factor.js'
import { line, readFields } from '../base/fields.js'
import { Refusal } from '../base/errors.js'
import { parseHost } from '../http/core/headers.js'
import { json } from '../http/core/route.js'
import { param, type ApiRequest, type Handler } from './route.js'

const code = line({ min: 1, max: 100 })

/** Fields of `POST /api/auth/second-factor/confirm`. */
export const codeFields = {
  /** A code of the authenticator. */
  code
}
/** Fields of `DELETE /api/auth/second-factor`. */
export const removalFields = {
  /** A code of the authenticator or a recovery code. */
  code
}

/** Dependencies of the handlers. */
export interface SecondFactorNeeds {
  factors: SecondFactors
  named: Pick<NamedTokens, 'get'>
}

/** Handlers of second factors. Each user manages that of the own token; an admin can remove others. */
export function secondFactorHandlers({ factors, named }: SecondFactorNeeds) {
  return {
    /** `POST /api/auth/second-factor`: begins an enrolment. */
    begin: async request => {
      const { link, secret } = await factors.begin(ownerOf(request), {
        issuer: issuerOf(request),
        actor: request.actor
      })
      return json({ success: true, secret, link })
    },

    /** `POST /api/auth/second-factor/confirm {code}`: the first code completes the enrolment. */
    confirm: async request => {
      const { code } = readFields(await request.json(), codeFields)
      const given = { code, origin: request, actor: request.actor }
      return json({ success: true, recoveryCodes: await factors.confirm(ownerOf(request), given) })
    },

    /** `DELETE /api/auth/second-factor {code}`: removes the second factor of the own token. */
    remove: async request => {
      const { code } = readFields(await request.json(), removalFields)
      const owner = ownerOf(request)
      await factors.check(owner, { code, origin: request, actor: request.actor })
      await factors.remove(owner, request.actor)
      return json({ success: true, message: 'The second factor was removed' })
    },

    /** `DELETE /api/tokens/:id/second-factor`: removes that of another token, whose owner lost the authenticator. */
    reset: async request => {
      const owner = named.get(param(request, 'id'))
      if (owner.id === request.actor.token?.id) {
        throw new Refusal('forbidden', 'forbidden', 'Removing the second factor of your own token needs a code of it')
      }
      await factors.remove(owner, request.actor)
      return json({ success: true, message: 'The second factor was removed' })
    }
  } satisfies Record<string, Handler>
}

/** Returns the named token of a request. Refuses: 409 `no_named_token`. */
function ownerOf({ actor }: ApiRequest): FactorOwner {
  if (actor.token !== undefined) return actor.token
  const sentence = 'The admin token has no second factor. Sign in with a named token to add one to it'
  throw new Refusal('conflict', 'no_named_token', sentence)
}

/** Returns the name of the server that an authenticator shows. */
function issuerOf({ headers }: ApiRequest): string {
  const name = parseHost(headers.host ?? '')?.name ?? ''
  return name === '' ? 'svc' : `svc ${name}`
}
