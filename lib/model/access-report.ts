import type { Instant } from './scalars.js'
import type { AccessToken, BuiltInToken, TokenAdvice } from './access.js'

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
