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

/** A named token, as `GET /api/tokens` lists it. Instants are ISO text. */
export interface AccessToken {
  id: string
  /** Unique, whatever the case of its letters. */
  name: string
  role: AccessRole
  /** The projects that the token is limited to; null: none, so it concerns the whole server. */
  projectIds: string[] | null
  /** Addresses and CIDR blocks that may use the token; empty: all. */
  allowedIps: string[]
  /** Whether a viewer or deployer may read the scripts of its projects. */
  showScripts: boolean
  createdAt: string
  /** The actor that created it, as in the audit log. */
  createdBy: string
  expiresAt: string
  /** Accurate to a minute; null: never used. */
  lastUsedAt: string | null
  lastUsedIp: string | null
  /** When the secret was replaced last; null: never. */
  rotatedAt: string | null
  /** The end of the overlap: until then the earlier secret is valid, too. Null: no earlier secret is valid. */
  oldExpiresAt: string | null
  /** When the earlier secret was used last; null: not since the rotation. */
  oldLastUsedAt: string | null
  revokedAt: string | null
  /** Whether the token needs a code of an authenticator. It then only opens sessions of the panel. */
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

/** A token of the list. */
export interface ListedToken extends AccessToken {
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
  /** The secret, `svc_<8>_<43>_<6>`. It is not stored. */
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
