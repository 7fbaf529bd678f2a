import type { Keeper } from '../core/audit/keeper.js'
import type { Proofs } from '../core/audit/export.js'
import type { Limiter } from '../access/limiter.js'
import type { NamedTokens } from '../access/named-tokens.js'
import type { NodeRequests } from '../access/node-requests.js'
import type { Proof, SecondFactors } from '../access/second-factor.js'
import type { Tickets } from '../access/secret.js'
import type { Sessions } from '../access/sessions.js'
import type { Backups } from '../carry/backup/backup.js'
import type { Spool } from '../base/budget.js'
import type { Door } from '../base/async.js'
import type { Clock } from '../base/clock.js'
import type { Deployer } from '../deploy/deployer.js'
import type { ListedDeployments } from '../deploy/record.js'
import type { Pieces } from '../deploy/pieces.js'
import type { Fleet } from '../fleet/hub/fleet.js'
import type { HubAgents } from '../fleet/hub/hub.js'
import type { HubRelays } from '../fleet/relay/hub-relays.js'
import type { Secrets } from '../operate/logs/read/open.js'
import type { LogSources } from '../operate/logs/sources.js'
import type { LogViewer } from '../operate/logs/viewer.js'
import type { Broken, Health } from '../operate/machine/health.js'
import type { History, Stats } from '../operate/machine/history.js'
import type { Metrics } from '../operate/machine/metrics.js'
import type { Places } from '../operate/machine/places.js'
import type { Resources } from '../operate/machine/resources.js'
import type { Quota, Storage } from '../operate/machine/storage.js'
import type { AccessReport, AccessToken, BuiltInToken, ProjectScope, TokenAdvice } from '../model/access.js'
import type { Actor, AuditEntry, AuditEvent } from '../model/audit.js'
import type { AuditFilter } from '../core/store/tables/audit.js'
import type { BulkAction, BulkOutcome, Project, RecentScripts } from '../model/project.js'
import type { DeploymentRow } from '../model/deployment.js'
import type { Family } from '../model/family.js'
import type { ClusterView, ServerStatus } from '../model/health.js'
import type { FleetNode, PlacedRelease } from '../model/node.js'
import type { Targets as NotificationTargets } from '../operate/notify/targets.js'
import type { Marks } from '../model/marks.js'
import type { Webhook } from '../operate/notify/webhook.js'
import type { Pm2 } from '../operate/pm2.js'
import type { Labels, Projects } from '../projects/projects.js'
import type { Targets } from '../projects/targets.js'
import type { SigningKeys } from '../projects/signing-keys.js'
import type { Variables } from '../projects/variables.js'
import type { Components, Search } from '../projects/search.js'
import type { Settings } from '../projects/settings.js'
import type { Collector } from '../operate/telemetry.js'
import type { Terminals } from '../operate/terminal/sessions.js'
import type { Transfer } from '../carry/transfer/transfer.js'
import type { Records } from './records.js'
import type { ProjectLookup } from './route.js'

/** The services that handlers of routes call. `server/services.ts` provides them; a handler names those that it takes. */
export interface ApiServices {
  clock: Clock
  settings: Settings
  /** Returns the version of these tables of the store. */
  version(tables: readonly string[]): string
  /** Returns the state of the server, for a caller that sees these projects. */
  status(scope?: ProjectScope): ServerStatus
  publicUrl: string | null
  /** Returns the URL at which this process listens; null: at no port. */
  ownUrl(): string | null
  /** The path below which the server is reached (`normaliseBase`). */
  base: string

  admin: { current(): string; verify(token: string): boolean; change(newToken: string): Promise<void> }
  allowList: { check(address: string): void }
  named: NamedTokens
  factors: SecondFactors
  proof: Proof
  limiter: Limiter
  sessions: Sessions
  tickets: Pick<Tickets, 'issue'>
  accessReport(): AccessReport
  builtInTokens(): BuiltInToken[]
  adviceOf(token: AccessToken): TokenAdvice[]
  /** Returns when a named token expires. */
  expiryOf(tokenId: string): string

  audit: { record(event: AuditEvent): Promise<void> }
  listAudit(query: AuditFilter): AuditEntry[]
  proofs: Door<Proofs>
  keeper: Pick<Keeper, 'rotateKey'>

  /** Finds the projects of records. */
  lookup: ProjectLookup
  projects: Projects
  findProject(id: string): Project | undefined
  /** Returns the pinned projects, newest first. */
  pinnedProjects(scope: ProjectScope): Project[]
  newestProject(scope: ProjectScope): Project | undefined
  /** Deletes, moves or labels several projects, each on its own. */
  bulk(action: BulkAction, ids: string[], actor: Actor): Promise<BulkOutcome>
  /** Returns the scripts that the client sent in the newest deployments with some. Refuses an unknown id with 404. */
  recentScripts(projectId: string): RecentScripts
  variables: Variables
  signingKeys: Door<SigningKeys>
  categories: Labels
  tags: Labels
  targets: Door<Targets>
  search: Door<Search>

  deployer: Deployer
  /** The uploads that come in pieces. */
  pieces: Pieces
  deployments: ListedDeployments
  /** Returns the deployment whose files are in the target of a project. */
  liveDeployment(projectId: string): DeploymentRow | undefined
  /** Returns what the nodes of a project have; nothing if it is on no node. */
  releasesOnNodes(projectId: string): PlacedRelease[]
  /** Returns the families among the projects that a scope contains. */
  families(scope?: ProjectScope): Promise<Family[]>
  /** Finds where a component is in place. */
  components: Door<Components>
  records: Records
  /** Returns the address of a deployment's page, or null without a public URL. */
  pageOf(id: string): string | null
  /** Whether a deployment of a project, or the return to one of its deployments, may run a command. */
  runsCommand(projectId: string, deployId?: string): boolean
  /** Whether results of deployments wait in memory for the database. */
  hasUnwritten(): boolean
  /** Returns what waits for somebody, and what failed in the background, in a scope. */
  readMarks(scope?: ProjectScope): Omit<Marks, 'locks'>
  quota: Quota
  /** Keeps the bodies of large plans on the disk. */
  spool: Spool

  health: Health
  stats: Stats
  history: Pick<History, 'read'>
  resources: Resources
  metrics: Metrics
  storage: Storage
  broken: Broken
  pm2: Door<Pm2>
  /** The log files of projects, and what may be read of the disk. */
  logs: Door<{ sources: LogSources; viewer: LogViewer; secrets: Secrets; places: Places }>
  terminals: Door<Terminals>
  notificationTargets: NotificationTargets
  webhook: Webhook
  telemetry: {
    collector: Collector
    /** Maximum number of days of an overview. */
    maxDays: number
    /** Limits of requests by network. */
    reports: { take(key: string): void }
    overviews: { take(key: string): void }
  }
  transfer: Door<Transfer>
  backups: Door<Backups>

  /** Returns the fleet, which is loaded at its first use. */
  fleet(): Promise<Fleet>
  /** Returns the relays to the nodes. */
  relays(): Promise<HubRelays>
  agents(): Promise<HubAgents>
  nodeRequests: Pick<NodeRequests, 'begin'>
  /** Returns the path of an archive, once this hub has it. */
  archivePath(deployId: string, signal: AbortSignal): Promise<string>
  /** Returns the nodes that a project is placed on. */
  nodesOf(projectId: string): FleetNode[]
  /** Refuses 409 `project_is_placed`. */
  refusePlaced(projectId: string): void
  /** Undefined on a server that is no hub of a cluster. */
  cluster: Pick<ClusterView, 'status' | 'rekey'> | undefined
  /** Returns the addresses of the hubs of the cluster. */
  hubs: (() => string[]) | undefined
  /** Whether this server has nodes. */
  hasFleet(): boolean
}
