import type { SignaturePolicy } from './policy.js'
import type { Bytes, Instant } from './scalars.js'
import type { Project } from './project.js'
import type { RolloutAhead, RolloutPolicy } from './rollout.js'

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
const tokenAdvices = ['expires_soon', 'unused', 'rotate'] as const
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

/** A valid named token of the report. */
export interface ReportedToken
  extends Pick<
    AccessToken,
    'id' | 'name' | 'role' | 'projectIds' | 'allowedIps' | 'createdBy' | 'expiresAt' | 'lastUsedAt' | 'lastUsedIp'
  > {
  /** Days until it expires, rounded up. */
  daysLeft: number
  /** Days since its secret was made. */
  secretDays: number
  /** Whether it needs a code, so it opens the panel only. */
  secondFactor: boolean
  /** expires_soon: replace it; unused: not used for 90 days; rotate: its secret is older than token_rotate_days. */
  advice: TokenAdvice[]
}

/** A token without a name. It does not expire, and `allowedIps` of the settings limits it. */
export interface ReportedBuiltIn extends Pick<BuiltInToken, 'kind' | 'projectId'> {
  /** Its newest entry in the audit log. Null: there is none. */
  lastUsedAt: Instant | null
}

/** The tokens that can deploy to a project. */
export interface ReportedProject {
  id: string
  name: string
  /** Whether an upload may contain scripts. */
  clientScripts: boolean
  /** The user that its scripts run as. Null: the user of svc. */
  runAs: string | null
  /** The named tokens that may deploy to it. */
  tokenIds: string[]
}

/** The answer of `GET /api/access/report`: which tokens can deploy where. @schema AccessReport */
export interface AccessReport {
  at: Instant
  /** The setting token_rotate_days. */
  rotateDays: number
  /** The setting allowed_ips. Empty: all addresses. */
  allowedIps: string[]
  /** The valid named tokens of every role. */
  tokens: ReportedToken[]
  builtIn: ReportedBuiltIn[]
  projects: ReportedProject[]
}

/** One browser session of the panel, as `GET /api/sessions` lists it. */
export interface BrowserSession {
  id: string
  createdAt: Instant
  /** Time of the last request, accurate to a minute. */
  lastUsedAt: Instant
  /** The latest end of the session. */
  expiresAt: Instant
  /** Whether the browser keeps the session after it is closed. */
  remember: boolean
  /** The client address of the login. */
  ip: string | null
  userAgent: string | null
  /** The named token of the session. Null: the admin token. */
  tokenId: string | null
  /** When the token was entered last. */
  provenAt: Instant | null
}

/** A session in the list. `current` marks the session of this request. */
export interface ListedSession extends BrowserSession {
  /** Whether the request uses this session. */
  current: boolean
  /** The name of the token; null for the admin token. */
  tokenName: string | null
}

/** The caller, as `GET /api/auth/session` describes it. Without a session `id`, `csrf` and the instants are null. */
export interface SignedIn {
  /** admin, operator, deployer or viewer. */
  role: string
  /** The actor in the audit log. */
  name: string
  /** The named token. Null for the admin token. */
  token: { id: string; name: string } | null
  /** The projects that the token is limited to. Null: none. */
  projects: string[] | null
  /** The id of the session. Null for a bearer token. */
  id: string | null
  /** The value of the header X-Svc-Csrf, which changes with the session need. */
  csrf: string | null
  /** When the session ends. */
  expiresAt: Instant | null
  /** Until when requests are accepted that ask for the token again. Null: without an end, or no session. */
  provenUntil: Instant | null
  /** Whether requests that ask for the token again are refused to the session now. */
  needsProof: boolean
  /** Whether the server has nodes, or machines may become nodes. */
  fleet: boolean
}

/** Minimum length of a deploy token in characters (§8). */
const minTokenLength = 8
/** Maximum length of a deploy token in characters. */
const maxTokenLength = 1024

/**
 * Returns why a text cannot be a deploy token, as the end of a sentence; null if it can. A token must fit in a header.
 */
export function tokenFault(token: string): string | null {
  if (token.length < minTokenLength) return `at least ${minTokenLength} characters are needed`
  if (token.length > maxTokenLength) return `at most ${maxTokenLength} characters are allowed`
  if (!/^[\x21-\x7e]+$/.test(token))
    return 'use only visible ASCII characters without spaces, because the token is sent in a header'
  return null
}

/** A reminder that a token ends soon. */
export interface TokenReminder {
  token: Pick<AccessToken, 'id' | 'name' | 'role' | 'projectIds' | 'expiresAt'>
  /** Whole days until it ends, rounded up. */
  daysLeft: number
}

/** A token that accepts no code of its second factor for a while: too many were wrong. */
export interface TokenLock extends Pick<TokenReminder, 'token'> {
  lockedUntil: string
}

/** Days before the end of a token at which a reminder is sent, the later one last. */
export const reminderDays = [14, 1] as const
/** Days without use after which a token is reported. */
export const unusedDays = 90

const dayMs = 86_400_000

/** The fields of a token that decide about advice. */
type Advised = Pick<AccessToken, 'createdAt' | 'expiresAt' | 'lastUsedAt' | 'rotatedAt' | 'revokedAt'>

/** Returns whether a token is valid: neither revoked nor expired. */
export function isValidToken(
  { revokedAt, expiresAt }: Pick<Advised, 'revokedAt' | 'expiresAt'>,
  nowMs: number
): boolean {
  return revokedAt === null && Date.parse(expiresAt) > nowMs
}

/** Returns the whole days until a token ends, rounded up; 0 if it has ended. */
export function daysLeftOf({ expiresAt }: Pick<Advised, 'expiresAt'>, nowMs: number): number {
  return Math.max(0, Math.ceil((Date.parse(expiresAt) - nowMs) / dayMs))
}

/** Returns the whole days since the secret of a token was made. */
export function secretDaysOf(
  { createdAt, rotatedAt }: Pick<Advised, 'createdAt' | 'rotatedAt'>,
  nowMs: number
): number {
  return Math.max(0, Math.floor((nowMs - Date.parse(rotatedAt ?? createdAt)) / dayMs))
}

/** Returns the advice about a token; nothing for one that has ended. `rotateDays` 0 means that secrets may be old. */
export function adviceOf(token: Advised, { nowMs, rotateDays }: { nowMs: number; rotateDays: number }): TokenAdvice[] {
  if (!isValidToken(token, nowMs)) return []
  const idleMs = nowMs - Date.parse(token.lastUsedAt ?? token.createdAt)
  const advice: TokenAdvice[] = []
  if (dueReminder(token, nowMs) !== null) advice.push('expires_soon')
  if (idleMs >= unusedDays * dayMs) advice.push('unused')
  if (rotateDays > 0 && secretDaysOf(token, nowMs) >= rotateDays) advice.push('rotate')
  return advice
}

/**
 * Returns the reminder that is due for a token: the number of days of `reminderDays` that has been reached last. Null:
 * none is. A token that lives no longer than that number of days needs no reminder that many days before its end.
 */
export function dueReminder(token: Advised, nowMs: number): number | null {
  if (!isValidToken(token, nowMs)) return null
  const endMs = Date.parse(token.expiresAt)
  const lifeMs = endMs - Date.parse(token.rotatedAt ?? token.createdAt)
  const due = reminderDays.filter(days => endMs - nowMs <= days * dayMs && lifeMs > days * dayMs)
  return due.at(-1) ?? null
}

/** The rights of a token, as `GET /api/auth/whoami` describes them. */
export interface TokenHolder {
  /** admin, local, project (a deploy token) or global (the deploy token of every project). */
  role: string
  /** The name of the caller in the audit log. */
  name: string
  /** The project of a deploy token; null for every other role. */
  project: Pick<Project, 'id' | 'name' | 'env' | 'status' | 'lastDeployAt'> | null
  /** The named token. Null for other kinds. */
  token?: { id: string; name: string; expiresAt: Instant } | null
  /** The projects that a named token is limited to. Null: none. */
  projects?: Array<Pick<Project, 'id' | 'name'>> | null
}

/** What a server tells the owner of its data directory, as `POST /api/auth/local` answers. */
export interface LocalLogin {
  success: true
  /** The URLs of the server, the one at which it listens first. Empty: it listens on a Unix socket only. */
  addresses: string[]
  /** The admin token. */
  token: string
}

/**
 * What an upload may ask for besides its files: `confirm` is the field `confirmSeconds`, `startAt` that field, `pieces` the
 * field `uploadId`, `signatures` the fields `statement` and `signature`, `patches` that field.
 */
export const uploadFeatures = ['confirm', 'startAt', 'pieces', 'signatures', 'patches'] as const
/** One of them. */
export type UploadFeature = (typeof uploadFeatures)[number]

/** The limits of an upload, as `GET /api/deploy/check` returns them. */
export interface UploadPermit {
  success: true
  project: Pick<Project, 'id' | 'name' | 'env'>
  /** Number of queued and running deployments of the project. */
  deploymentsAhead?: number
  /** The rollout that the deployment would wait for. */
  rolloutAhead?: RolloutAhead
  /** The newest deployment of the project. Null: there is none. A client that gets no answer to its upload looks after it. */
  newest?: string | null
  /** Maximum size of the archive in bytes. */
  maxUploadBytes: Bytes
  /** Maximum uncompressed size of the archive in bytes. */
  maxExtractedBytes: Bytes
  /** What an upload may ask for besides its files. */
  features: UploadFeature[]
  /** The named token of the request. Absent for a deploy token. */
  token?: Pick<AccessToken, 'name' | 'expiresAt'>
  /** The rollout that the upload would begin. Null: the server deploys the project itself. */
  rollout?: PlannedRollout | null
  /** The addresses of the hubs of the cluster. Absent on a server alone. */
  hubs?: string[]
  /** The release that an upload of changes can build on. Null: none is kept. Absent: the server takes whole archives only. */
  base?: KeptBase | null
  /** What the project, or the owner of the server, asks of releases. */
  signatures?: SignatureDemand
}

/** What is asked of releases. @schema SignatureDemand */
export interface SignatureDemand {
  /** What happens to a release without the signatures. */
  require: SignaturePolicy['require']
  /** The number of keys that must sign. */
  threshold: number
  sbom: SignaturePolicy['sbom']
  /** Whether the project demands it, or the owner of the server. */
  by: 'server' | 'project'
  /** The names of the keys that may sign. */
  keys: string[]
}

/** An upload that comes in pieces, and is not complete or not deployed yet. @schema OpenUpload */
export interface OpenUpload {
  uploadId: string
  /** Number of bytes that have arrived. The next piece begins there. */
  offset: Bytes
  /** Size of the whole. */
  bytes: Bytes
  /** When the server removes it, unless it is used before. */
  expiresAt: Instant
  /** Size of a first piece that proxies pass on with their defaults. */
  pieceBytes: Bytes
}

/** A release whose whole archive is kept. */
export interface KeptBase {
  deployId: string
  /** SHA-256 checksum of the list of its files. */
  treeSha256: string
}

/** A rollout that has not begun. */
export interface PlannedRollout {
  /** Number of nodes, without drained ones. */
  nodes: number
  waves: number
  /** The policy of the project, without what the upload sets. */
  policy: RolloutPolicy
}
