import type { SessionKey } from '../access/session-key.js'
import type { Clock } from '../base/clock.js'
import type { Ids } from '../base/digests.js'
import type { Environment, Home } from '../base/config/home.js'
import { isSwitchedOn } from '../base/config/precedence.js'
import type { ServerKeys } from '../cluster/keys.js'
import type { Store } from '../core/store/database.js'
import type { ArchiveCopies, DeployNeeds } from '../deploy/needs.js'
import type { ExpiryWarnings } from '../http/tls/expiry.js'
import type { DeploymentRow } from '../model/deployment.js'
import type { ClusterView } from '../model/health.js'

/** What the services need from the process that runs them. */
export interface World {
  store: Store
  home: Home
  clock: Clock
  ids: Ids
  /** Environment that scripts and shells inherit, without its secrets. */
  environment: Environment
  /** Whether terminals are allowed at all, independent of the settings. */
  terminal: boolean
  /** Whether targets may be in system directories (`--allow-system-paths`). */
  allowSystemPaths: boolean
  /** Whether every release must be signed by a key in `keys/allowed_signers` (`--require-signatures`). */
  requireSignatures?: boolean
  /** Paths of keys and passwords that were given to the server. They are never shown, wherever they are. */
  secretFiles?: readonly string[]
  version: string
  /** Base path of the server, as `normaliseBase` returns it. */
  base: string
  /** Public URL of the server, for links; null if it is not configured. */
  publicUrl: string | null
  /** Returns the URL at which this process listens; null, or absent: at none. */
  ownUrl?: () => string | null
  /** The secret that marks requests which the agent of this server relays; absent: there is no agent. */
  relaySecret?: string | undefined
  /** The certificates in use: warns of those that expire soon or have expired. */
  expiry?: Pick<ExpiryWarnings, 'look' | 'list'> | undefined
  /** The cluster; undefined: the server is not a hub of one. */
  cluster?: ClusterView | undefined
  /** Returns the addresses of all hubs; undefined: the server is not a hub of a cluster. */
  hubUrls?: (() => string[]) | undefined
  /** Archives on other hubs; undefined: the server is not a hub of a cluster. */
  copies?: ArchiveCopies | undefined
  /** As in `DeployNeeds`. */
  giveUpOn?: DeployNeeds['giveUpOn']
  /** The keys, if they are not files of the data directory. */
  keys?: ServerKeys | undefined
  /** The key of browser sessions, if the start has read it. */
  sessionKey?: SessionKey
  /** Called after each recorded end of a deployment. */
  deploymentEnded?: ((row: DeploymentRow) => void) | undefined
  /** Reports an internal error to the operator. */
  log(message: string, error?: unknown): void
}

/* What the owner of the machine says about signatures, by an option of the start or by the environment. */

/** Returns whether every release must be signed by a key in `keys/allowed_signers` of the data directory. */
export function requiresSignatures({
  requireSignatures = false,
  environment
}: {
  requireSignatures?: boolean | undefined
  environment: Environment
}): boolean {
  return requireSignatures || isSwitchedOn(environment, 'SVC_REQUIRE_SIGNATURES')
}

/** Returns whether the clock of the machine is right, although the server has recorded later times. */
export const trustsClock = (environment: Environment): boolean => isSwitchedOn(environment, 'SVC_TRUST_CLOCK')
