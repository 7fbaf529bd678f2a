import type { Instant } from './scalars.js'

/** The roles of named tokens. Each includes the rights of those before it. */
export const accessRoles = ['viewer', 'deployer', 'operator', 'admin'] as const
export type AccessRole = (typeof accessRoles)[number]

/** Returns whether a role has the rights of another one. */
export function includesRole(role: AccessRole, wanted: AccessRole): boolean {
  return accessRoles.indexOf(role) >= accessRoles.indexOf(wanted)
}

/** The projects that a caller is limited to; null or undefined: none, so it may see all. */
export type ProjectScope = readonly string[] | null | undefined

/** Returns whether a project is in a scope. */
export function isInScope(scope: ProjectScope, projectId: string): boolean {
  return scope == null || scope.includes(projectId)
}

/** A named token, as `GET /api/tokens` lists it. Instants are ISO text. @schema AccessToken */
export interface AccessToken {
  id: string
  /** Unique, whatever the case of its letters. */
  name: string
  /** Each role includes the rights of those before it. */
  role: AccessRole
  /** The projects that the token is limited to. Null: none. */
  projectIds: string[] | null
  /** Addresses and blocks that may use it. Empty: all. */
  allowedIps: string[]
  /** Whether a viewer or deployer may read scripts. */
  showScripts: boolean
  createdAt: Instant
  /** The actor that created it. */
  createdBy: string
  expiresAt: Instant
  /** Accurate to a minute. Null: never. */
  lastUsedAt: Instant | null
  lastUsedIp: string | null
  /** When the secret was replaced last. */
  rotatedAt: Instant | null
  /** Until then the secret before the rotation is valid, too. */
  oldExpiresAt: Instant | null
  /** When the secret before the rotation was used last. */
  oldLastUsedAt: Instant | null
  revokedAt: Instant | null
  /** Whether signing in also needs a code. */
  secondFactor: boolean
}

/** A token that is not named: the admin token, the global deploy token, or the deploy token of a project. */
export interface BuiltInToken {
  kind: 'admin' | 'global' | 'project'
  /** The project of a deploy token; null for the others. */
  projectId: string | null
  projectName: string | null
}

/**
 * What an operator should do about a named token: `expires_soon`: replace it, since a reminder is due; `unused`: revoke it, since
 * nobody used it for 90 days; `rotate`: replace its secret, which is older than the setting `token_rotate_days`.
 */
export const tokenAdvices = ['expires_soon', 'unused', 'rotate'] as const
export type TokenAdvice = (typeof tokenAdvices)[number]

/** A token of the list. @schema ListedToken */
export interface ListedToken extends AccessToken {
  /** expires_soon: replace it; unused: not used for 90 days; rotate: its secret is older than token_rotate_days. */
  advice: TokenAdvice[]
}

/** The answer of `GET /api/tokens`. */
export interface TokenList {
  items: ListedToken[]
  builtIn: BuiltInToken[]
}

/** The answer of `POST /api/tokens` and of a rotation: the only one that contains the secret. */
export interface NewToken {
  success: true
  /** The secret. */
  token: string
  record: AccessToken
}

/** Limits of named tokens. */
export const tokenLimits = {
  tokens: 1000,
  projects: 200,
  nameLength: 200,
  addresses: 100,
  overlapSeconds: 86_400
} as const
