import type { SignatureDemand } from './access.js'
import type { Instant } from './scalars.js'
import type { DeploymentRow, ListedDeployment } from './deployment.js'
import type { DiskFigures } from './machine.js'
import type { PlacedRelease } from './node.js'
import type { Project, ShownProject } from './project.js'
import type { Waiting } from './marks.js'

/** Statistics of the server (§2.9). @schema ServerStatus */
export interface ServerStatus {
  version: string
  uptime: string
  projectCount: number
  deploymentCount: number
  successCount: number
  failedCount: number
  /** Percentage of the finished deployments. 0 if none has finished. @number */
  successRate: number
  /** Whether the server can run the work of a project as another user (`runAs`). */
  switchesUsers: boolean
}

/** The SHA-256 of the archives that the server hands out. Null: this installation does not have it. */
export interface ArchiveSums {
  /** Of `GET /client.tgz`. */
  client: string | null
  /** Of `GET /agent.tgz`. */
  agent: string | null
}

/** The public health report (§2.10). @schema Health */
export interface HealthReport {
  /**
   * `starting` until the server has an admin token and has recovered from an interrupted run. `cut_off`: this hub
   * cannot follow its cluster; it still answers reads.
   */
  status: 'ok' | 'starting' | 'unhealthy' | 'cut_off'
  /** Seconds since the start of the server. @number */
  uptime: number
  version: string
  /** The role of this hub. Absent if the server is not a hub of a cluster. */
  cluster?: ClusterHealth
}

/** The detailed health report, for administrators. */
export interface HealthDetail {
  version: string
  runtime: { name: string; version: string }
  /** @number */
  uptimeSec: number
  serverTime: Instant
  db: {
    ok: boolean
    /** @number */
    latencyMs: number
    path: string
  }
  disk: DiskFigures
  /** The data directory. The API prescribes the name. */
  kiteHome: { path: string; writable: boolean; tmpWritable: boolean }
  /** `successRate`: the share of the finished ones, 0 to 1; null if none has finished. */
  deploy: {
    last5: RecentDeployment[]
    /** Share of the finished ones, 0 to 1. Null if none has finished. @number */
    successRate: number | null
  }
  /** Whether requests for other host names are refused. Absent in older servers. */
  hostNamesChecked?: boolean
  /**
   * Whether the secrets of all projects can be read, and if not, the reason and the unreadable ones (`project: NAME`, `second factor of NAME`).
   * Absent in older servers.
   */
  secrets?: { ok: boolean; why: string | null; unreadable: string[] }
  /** Whether the Merkle tree of the audit log is undamaged, and if not, since when and why. Absent in older servers. */
  audit?: {
    ok: boolean
    /** When the tree of the audit log was found damaged. */
    brokenSince: Instant | null
    why: string | null
    /** Why the key that signs the log and the receipts cannot be used. Null: it can. Absent in older servers. */
    keyProblem?: string | null
  }
  /** Deployments whose earlier files could not be put back yet. */
  revertsPending?: string[]
  /** Targets in which a deployment was interrupted, and which could not be finished or put back yet. */
  unfinishedTargets?: UnfinishedTarget[]
  /** When the kept archives were last read, and what was damaged. Absent in older servers. */
  archives?: ArchiveHealth
  /** Certificates in use that expire within 14 days or have expired. */
  certificates?: ExpiringCertificate[]
  /** Messages that notification targets have not accepted yet. */
  notifications?: {
    waiting: number
    oldestAt: Instant | null
    /** The names of the targets that refused the latest message for good. Absent in older servers. */
    refusing?: string[]
  }
  /** The latest restore: when the server started from it, and when its backup was made. Null: none is known. Absent in older servers. */
  restored?: { at: Instant; backupAt: Instant } | null
  /** The nodes of the fleet, and the rollouts of its projects. Absent if the server has no nodes. */
  fleet?: FleetHealth
  /** The cluster, as this hub sees it. Absent if the server is not a hub of one. */
  cluster?: ClusterStatus
  memoryMB: {
    /** @number */
    rss: number
    /** @number */
    heapUsed: number
  }
}

/** A target with an undo journal that nobody works with. */
export interface UnfinishedTarget {
  deployId: string
  /** Null if the journal does not say. */
  target: string | null
}

/** The result of the last check of the kept archives. */
export interface ArchiveHealth {
  /** Null: they were not checked yet. */
  checkedAt: Instant | null
  /** The deployments whose archives are damaged. */
  damaged: string[]
}

/** A certificate that expires soon or has expired; of a file with several, the first. */
export interface ExpiringCertificate {
  /** What it is, as the first words of a sentence. */
  name: string
  expiresAt: Instant
  /** What to do, as a sentence. */
  cure: string
}

/** The state of a fleet. */
export interface FleetHealth {
  nodes: number
  /** Nodes whose agent is connected. */
  connected: number
  /** Connected nodes whose agent has an earlier protocol. Update svc on them. */
  outdated: number
  /** Nodes whose identity two machines use. They get no orders. */
  shared: number
  /** Rollouts that are going on, or wait for their next wave. */
  going: number
  /** Projects whose last rollout was halted. */
  halted: number
}

type RecentDeployment = Pick<DeploymentRow, 'id' | 'projectId' | 'projectName' | 'status' | 'startTime' | 'duration'>

/** The state of the cluster, as one of its hubs sees it. @schema ClusterStatus */
export interface ClusterStatus {
  /** The name of the cluster. */
  name: string
  /** The hub that answers. */
  hub: string
  /** `alone`: it hears of no leader, so its reads may be old and nothing can be changed. */
  role: 'leader' | 'follower' | 'alone'
  /** The hub that leads; null: none that this hub hears of. */
  leader: ClusterHub | null
  /** How old a read of this hub may be. */
  staleSeconds: number
  /** The number of the last write that this hub has. */
  sequence: number
  /** Why this hub cannot follow or lead; null if it can. */
  problem: string | null
  /** The same for programs, such as `log_older` or `hub_removed`. */
  reason: string | null
  /** All hubs that have ever followed, by name, as etcd said last; empty if it never answered. */
  hubs: Array<
    ClusterHub & {
      /** The last write that the hub had when it was last seen. */
      applied: number
      /** How many writes it was behind this hub. */
      behind: number
      /** When it was last seen, by its own clock; null: never. */
      seenAt: Instant | null
    }
  >
}

/** What a hub knows of itself without asking anybody. */
export type HubState = Pick<ClusterStatus, 'role' | 'staleSeconds' | 'sequence' | 'problem' | 'reason'>

/** What the probe says of a hub to everybody: no names and no addresses. */
export type ClusterHealth = Pick<ClusterStatus, 'role' | 'staleSeconds'> & {
  /** Why the hub cannot follow or lead; absent if it can. */
  reason?: string
}

/** The cluster, as one of its hubs sees it. */
export interface ClusterView {
  state(): HubState
  /** Also asks for the other hubs. It does not fail if nobody answers. */
  status(): Promise<ClusterStatus>
  /** Gives the cluster a new key. `hubs` are those that the caller has seen: others do not get it. */
  rekey(hubs: readonly ClusterHub[]): Promise<void>
}

/** A hub and the address at which the others reach it. */
export interface ClusterHub {
  name: string
  url: string
}

/** The contents of the panel's first page, in one answer: the panel requests it every few seconds. */
export interface Overview {
  status: ServerStatus
  health: HealthReport
  runningCount: number
  /** Without those that wait for an approval or for their time. */
  queuedCount: number
  broken: BrokenProjects
  /** What waits for somebody, the longest wait first. */
  waiting: Waiting[]
  /** The latest deployments, newest first. */
  deployments: ListedDeployment[]
  /** The pinned projects. */
  pinned: PinnedProject[]
  /** The newest project. Null as soon as anything has been deployed. */
  newestProject: ShownProject | null
  /** Null unless the query `days` asks for them. */
  days: RecentDays | null
}

/** The projects whose newest finished deployment failed, also in the background. */
export interface BrokenProjects {
  total: number
  /** Those of production first, and of an environment those that broke last; not all of them if there are many. */
  items: BrokenProject[]
}

/** A project whose newest finished deployment failed. */
export interface BrokenProject {
  projectId: string
  projectName: string
  projectEnv: string
  /** Start of the first failure since the last success. */
  since: Instant
  /** The deployment that failed last. */
  failed: DeploymentBrief
  /** The newest successful deployment, or null. */
  lastGood: DeploymentBrief | null
  /** Whether the files of `lastGood` are still in the target. */
  isLastGoodLive: boolean
  /** The deployment whose files are in the target. Null: none is known, or the project is on nodes. */
  live: DeploymentBrief | null
  /** A queued or running deployment of the project, or null. */
  goingId: string | null
}

/** The fields of a deployment that one line about it needs. */
export type DeploymentBrief = Pick<
  ListedDeployment,
  | 'id'
  | 'status'
  | 'triggerSource'
  | 'message'
  | 'provenance'
  | 'startTime'
  | 'endTime'
  | 'errorMessage'
  | 'hasArtifact'
  | 'backgroundFailed'
>

/** The contents of a project's page in the panel, except for the project itself, in one answer. */
export interface ProjectOverview {
  /** The deployment whose files are in the target; null if none is known, or if the project is on nodes. */
  live: ListedDeployment | null
  /**
   * If `live` is a rollback, the deployment whose archive it deployed, unless that has been removed; null otherwise.
   */
  liveSource: ListedDeployment | null
  /** The current failure of the project, or null. */
  broken: BrokenProject | null
  /** The latest deployments, newest first. */
  deployments: ListedDeployment[]
  deploymentCount: number
  /** What the nodes of the project have, the release of the most nodes first. Empty: it is deployed on this server. */
  releases: PlacedRelease[]
  /** What the project, or the owner of the server, asks of the signatures of releases. Absent: nothing. */
  signatures?: Pick<SignatureDemand, 'require' | 'threshold' | 'sbom' | 'by'>
}

/** The results of the deployments of the last days. Days on which none finished are omitted. */
export interface RecentDays {
  /** The current date of the server (UTC): `2026-11-21`. */
  today: string
  items: DayCounts[]
}

/** The number of deployments of a day, by result. */
export interface DayCounts {
  date: string
  success: number
  failed: number
}

/** The fields of a pinned project that the panel shows. */
export type PinnedProject = Pick<Project, 'id' | 'name' | 'env' | 'status' | 'lastDeployAt'>

/** The topics that a page can follow. Each stands for tables of the store. */
export const changeTopics = {
  projects: ['projects', 'projectTags', 'categories', 'tags'],
  deployments: ['deployments', 'projects'],
  locks: ['locks', 'projects'],
  /** What waits for somebody. */
  marks: ['deployments', 'rollouts', 'locks', 'projects'],
  logSources: ['logSources', 'projects'],
  audit: ['audit'],
  settings: ['settings'],
  sessions: ['sessions']
} as const satisfies Record<string, readonly string[]>

/** The name of a topic. */
export type ChangeTopic = keyof typeof changeTopics

/**
 * The answer of `GET /api/changes`: a text for each topic. It differs from the previous text if something in the topic
 * may have changed.
 */
export type ChangeVersions = Record<ChangeTopic, string>
