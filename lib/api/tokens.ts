import type { NamedTokens } from '../auth/named-tokens.js'
import { flag, instant, integer, line, list, name, nullable, oneOf, optional, readFields } from '../base/fields.js'
import { notFound, Refusal } from '../base/errors.js'
import { json } from '../http/core/route.js'
import {
  type AccessReport,
  accessRoles,
  type AccessToken,
  type BuiltInToken,
  type NewToken,
  type TokenAdvice,
  tokenLimits,
  type TokenList
} from '../model/access.js'
import { type Handler, param } from './route.js'

const projectIds = optional(nullable(list(line({ min: 1, max: 100 }), { max: tokenLimits.projects })))
const allowedIps = optional(list(line({ min: 1, max: 100 }), { max: tokenLimits.addresses }))
const role = oneOf(accessRoles)
const expiresAt = optional(instant)

/** Fields of `POST /api/tokens`. */
export const newTokenFields = {
  /** Name of the token, unique whatever the case of its letters. */
  name,
  /** Rights of the token. */
  role,
  /** The projects that the token is limited to. Null: none. */
  projectIds,
  /** When the token expires. Default: 90 days from now. */
  expiresAt,
  /** Addresses and CIDR blocks that may use the token. Empty: all. */
  allowedIps,
  /** Whether a viewer or deployer may read the scripts of its projects. */
  showScripts: optional(flag)
}
/** Fields of `PATCH /api/tokens/:id`. */
export const tokenFields = {
  ...newTokenFields,
  name: optional(name),
  role: optional(role),
  /** When the token expires. */
  expiresAt
}
/** Fields of `POST /api/tokens/:id/rotate`. */
export const rotateFields = {
  /** How long the earlier secret stays valid. Default: 0. */
  overlapSeconds: optional(integer(0, tokenLimits.overlapSeconds)),
  /** When the new secret expires. Default: as long from now as the earlier one was valid. */
  expiresAt
}

/** Dependencies of the handlers of named tokens. */
export interface TokensNeeds {
  named: Omit<NamedTokens, 'callerOf' | 'callerById' | 'signIn' | 'flush' | 'close'>
  /** Returns the tokens that are not named. */
  builtIn(): BuiltInToken[]
  /** Returns what to do about a token. */
  advice(token: AccessToken): TokenAdvice[]
}

/** Handlers of named tokens. Only the answers of `create` and `rotate` contain a secret. */
export function tokenHandlers({ named, builtIn, advice }: TokensNeeds) {
  return {
    /** `GET /api/tokens`: the named tokens by name, and the built-in ones. */
    list() {
      const items = named.list().map(token => ({ ...token, advice: advice(token) }))
      return json({ items, builtIn: builtIn() } satisfies TokenList)
    },

    /** `GET /api/tokens/self`: the named token of the request. */
    self({ actor }) {
      if (actor.token === undefined) throw notFound('Token', actor.name)
      return json(named.get(actor.token.id))
    },

    /** `POST /api/tokens`: creates a token. */
    create: async request => {
      const fields = readFields(await request.json(), newTokenFields)
      return json({ success: true, ...(await named.create(fields, request.actor)) } satisfies NewToken)
    },

    /** `PATCH /api/tokens/:id`: changes the fields that are present. Sessions of the token end. */
    update: async request => {
      const fields = readFields(await request.json(), tokenFields)
      return json({ success: true, record: await named.update(idOf(request), present(fields), request.actor) })
    },

    /** `POST /api/tokens/:id/rotate {overlapSeconds?, expiresAt?}`: replaces the secret. Sessions of the token end. */
    rotate: async request => {
      const { overlapSeconds = 0, expiresAt } = readFields(await request.json(), rotateFields)
      const minted = await named.rotate(idOf(request), { overlapSeconds, expiresAt }, request.actor)
      return json({ success: true, ...minted } satisfies NewToken)
    },

    /** `DELETE /api/tokens/:id`: revokes a token at once. It stays in the list for 90 days. */
    revoke: async request => json({ success: true, record: await named.revoke(idOf(request), request.actor) })
  } satisfies Record<string, Handler>
}

/** Returns the id in the path. Refuses: 409 `last_admin` for the admin token, which is changed in another way. */
function idOf(request: Parameters<Handler>[0]): string {
  const id = param(request, 'id')
  if (id !== 'admin') return id
  const sentence = 'The admin token cannot be revoked or rotated here: change it in the settings'
  throw new Refusal('conflict', 'last_admin', sentence)
}

/** Removes the fields that are undefined, because an absent field keeps its value. */
function present<T extends object>(fields: T): { [Key in keyof T]?: Exclude<T[Key], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [Key in keyof T]?: Exclude<T[Key], undefined>
  }
}

/** Handler of `GET /api/access/report`: which tokens can deploy where (model/access.ts). */
export function accessReportHandlers({ report }: { report(): AccessReport }) {
  return { read: () => json(report()) } satisfies Record<string, Handler>
}
