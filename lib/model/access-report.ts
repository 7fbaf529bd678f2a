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
  /** Whether it needs a code of an authenticator, so it opens the panel only. */
  secondFactor: boolean
  advice: TokenAdvice[]
}

/** A token without a name. It does not expire, and `allowedIps` of the settings limits it. */
export interface ReportedBuiltIn extends Pick<BuiltInToken, 'kind' | 'projectId'> {
  /** Its newest entry in the audit log; null: there is none. */
  lastUsedAt: string | null
}

/** The tokens that can deploy to a project. */
export interface ReportedProject {
  id: string
  name: string
  /** Whether an upload may contain scripts: then each of these tokens can run commands as the user of svc. */
  clientScripts: boolean
  /** The user that scripts run as; null: the user of svc. */
  runAs: string | null
  /** The ids of the named tokens that may deploy to it, also of those that are not limited to projects. */
  tokenIds: string[]
}

/** The answer of `GET /api/access/report`: which tokens can deploy where. */
export interface AccessReport {
  at: string
  /** The setting `token_rotate_days`; 0: secrets may be old. */
  rotateDays: number
  /** The setting `allowed_ips`: the addresses that may deploy at all; empty: all. */
  allowedIps: string[]
  /** The valid named tokens of every role, by name. */
  tokens: ReportedToken[]
  builtIn: ReportedBuiltIn[]
  projects: ReportedProject[]
}
