import type { Instant } from '../../model/scalars.js'
import type { AuditCheckpoint, AuditEntry, ConsistencyProof, InclusionProof, RotatedKey } from '../../model/audit.js'
import type {
  ArchiveSums,
  ChangeVersions,
  ClusterStatus,
  HealthDetail,
  HealthReport,
  Overview,
  ServerStatus
} from '../../model/health.js'
import type {
  Cleaned,
  Heatmap,
  MachineHistory,
  Pm2Apps,
  Pm2Availability,
  Pm2Binding,
  ResourceSnapshot,
  StorageUsage,
  SuccessRates
} from '../../model/machine.js'
import type { Durations } from '../../operate/machine/history.js'
import type { IfUpdated, InParts, TerminalQuery, Upgraded } from './common.js'
import type {
  NotificationKind,
  NotificationTargetView,
  SettingDescription,
  TelemetryOverview
} from '../../model/setting.js'
import type { PlaceHome, PlaceListing } from '../../model/project.js'
import type { SearchResult } from '../../projects/search.js'
import type { TerminalAvailability } from '../../model/terminal.js'
import type { cleanFields, rekeyFields } from '../system.js'
import type { newTargetFields, reportFields, targetFields } from '../settings.js'

/** The result of a test message. */
export interface TestAnswer {
  success: boolean
  statusCode: number | null
  durationMs: number
  attempts: number
  error?: string
}

/** All notification targets, and the kind to suggest for each domain. */
export interface TargetList {
  items: NotificationTargetView[]
  domains: Array<{ domain: string; kind: NotificationKind }>
}

/** What a clean-up has removed, or would remove. */
export interface CleanAnswer extends Pick<Cleaned, 'dryRun' | 'unrecordedLeft' | 'freedBytes'> {
  success: true
  removed: Pick<Cleaned, 'archives' | 'temporaryFiles' | 'unrecordedFiles'>
}

/** How far back counts go. */
interface Days {
  /** Number of days, including today. Default: 30. Values above 366 are lowered to 366. @minimum 1 */
  days?: number
}

/** Health, settings, notifications, statistics, storage, PM2, search, telemetry and the terminal. */
export interface ServerRoutes {
  /** Get the health of the server. */
  'GET /api/health': {
    query: {
      /** `leader`: a hub that is cut off from its cluster answers 503. */
      check?: 'leader'
    }
    /** The server is healthy, or a hub that is cut off. */
    answer: HealthReport
    also: {
      /**
       * The server is starting or unhealthy.
       * @header Retry-After Seconds to wait before the next request. Not sent if the server is unhealthy.
       */
      503: HealthReport
    }
  }
  /** Get the health of the server in detail. */
  'GET /api/health/detail': {
    /** The server is healthy. */
    answer: HealthDetail
    also: {
      /** The server is unhealthy. */
      503: HealthDetail
    }
  }
  /** Get the OpenAPI document of this API. */
  'GET /api/openapi.json': {
    /** The document. */
    answer: Record<string, unknown>
  }
  /**
   * Get the version of each list.
   *
   * If the version of a list is the same as before, the list has not changed. With `If-None-Match`, the response is 304
   * until any version changes.
   */
  'GET /api/changes': {
    /** The versions. */
    answer: ChangeVersions
  }
  /** Get the overview of the server. @errors invalid_field */
  'GET /api/overview': {
    query: {
      /** Number of days to return results for. Values above 366 are lowered to 366. Default: none. @minimum 1 */
      days?: number
    }
    /** The overview. */
    answer: Overview
  }
  /** Get all settings. */
  'GET /api/settings': {
    /** The values by key. @header ETag The state of the settings, for `If-Match`. */
    answer: Record<string, string>
  }
  /** Describe the settings. */
  'GET /api/settings/schema': {
    /** The descriptions. */
    answer: { settings: SettingDescription[] }
  }
  /**
   * Change settings.
   *
   * Keys that are absent keep their values. If one value is invalid, no setting is changed.
   * @errors changed_since unknown_setting invalid_setting shuts_out_yourself
   */
  'PUT /api/settings': {
    headers: {
      /**
       * The ETag of `GET /api/settings`, in double quotes. If the current state differs, nothing changes and the status
       * is 412.
       */
      'If-Match'?: string
    }
    body: Record<string, string>
    /** The settings were saved. */
    answer: { success: true; message: string }
  }
  /** Get the version and the counts of the server. */
  'GET /api/settings/status': {
    /** The status. `archives`: the SHA-256 of what `GET /client.tgz` and `GET /agent.tgz` answer. */
    answer: ServerStatus & { archives: ArchiveSums }
  }
  /** Send a test message to the webhook_url of the settings. @errors no_webhook */
  'POST /api/settings/webhook-test': {
    /** The result of the delivery. */
    answer: TestAnswer
  }
  /**
   * List notification targets.
   *
   * The response contains no secrets, and addresses without their paths. The target that is configured in the settings
   * comes first.
   */
  'GET /api/notification-targets': {
    /** The targets, and the kind to suggest for each domain. */
    answer: TargetList
  }
  /** Create a notification target. @errors too_many_targets not_found */
  'POST /api/notification-targets': {
    body: typeof newTargetFields
    /** The notification target. */
    answer: { success: true; target: NotificationTargetView }
  }
  /**
   * Change a notification target.
   *
   * Fields that are absent keep their values. An empty `secret` removes the secret.
   * @errors not_found changed_since settings_target
   */
  'PUT /api/notification-targets/:id': {
    headers: IfUpdated
    body: typeof targetFields
    /** The notification target. */
    answer: { success: true; target: NotificationTargetView }
  }
  /** Delete a notification target. @errors not_found settings_target */
  'DELETE /api/notification-targets/:id': {
    /** The notification target was deleted. */
    answer: { success: true; message: string }
  }
  /** Send a test message to a notification target. @errors not_found no_webhook */
  'POST /api/notification-targets/:id/test': {
    /** The result of the delivery. */
    answer: TestAnswer
  }
  /**
   * Get the script that installs svc.
   *
   * For `curl -fsSL <address>/install.sh | sh`. It downloads `GET /client.tgz`, or `GET /agent.tgz` with `sh -s agent`, from the
   * address that it was requested from, and compares its SHA-256. It needs no root.
   * @errors not_found
   */
  'GET /install.sh': {
    /** A script for a POSIX shell. @example "#!/bin/sh\n" */
    media: 'text/plain'
    also: {
      /** Not modified: the client already has the current answer. */
      304: null
    }
  }
  /**
   * Download the client.
   *
   * An installation of the commands that talk to a server. Part of it with `Range`.
   * @errors not_found
   */
  'GET /client.tgz': {
    /** The archive. */
    media: 'application/gzip'
    also: InParts
  }
  /**
   * Download svc without its panel.
   *
   * For the nodes of a fleet, which run `svc agent`. Part of it with `Range`.
   * @errors not_found
   */
  'GET /agent.tgz': {
    /** The archive. */
    media: 'application/gzip'
    also: InParts
  }
  /** Get metrics for Prometheus. */
  'GET /metrics': {
    /** The metrics in version 0.0.4 of the Prometheus text format. @example "# TYPE svc_up gauge\nsvc_up 1\n" */
    media: 'text/plain'
  }
  /** Get machine usage and deployments of the last 24 hours. @errors invalid_field */
  'GET /api/system/history': {
    query: {
      /** Minutes per row. Default: 1. Values above 60 are lowered to 60. @minimum 1 */
      step?: number
    }
    /** The rows. Minutes in which the server did not run are missing. */
    answer: MachineHistory
  }
  /** List the audit log, newest first. @errors invalid_field */
  'GET /api/audit': {
    query: {
      /** Only entries with this action. */
      action?: string
      /** Only entries of this named token. */
      tokenId?: string
      /** Only entries of named tokens that had this name. */
      tokenName?: string
      /** Only entries of this project. */
      projectId?: string
      /** Only entries from this time on. */
      since?: Instant
      /** Only entries before this time. */
      until?: Instant
      /** Id of an entry. Lists only older ones. */
      before?: string
      /** Maximum number of items. Default: 100. Values above 500 are lowered to 500. @minimum 1 */
      limit?: number
    }
    /** The entries. */
    answer: { items: AuditEntry[] }
  }
  /**
   * Get a signed checkpoint of the audit log.
   *
   * A checkpoint covers all entries. Keep it elsewhere: later it proves that the log still begins with these entries.
   * Every valid token may read it.
   * @errors not_found server_key
   */
  'GET /api/audit/checkpoint': {
    /** The checkpoint. */
    answer: AuditCheckpoint
  }
  /** Prove that the audit log begins with an earlier state. @errors invalid_field history_gone */
  'GET /api/audit/proof': {
    query: {
      /** Size of the earlier tree. @minimum 0 */
      from: number
      /** Size of the later tree. Default: all entries. @minimum 0 */
      to?: number
    }
    /** The consistency proof. */
    answer: ConsistencyProof
  }
  /** Prove that an entry is in the audit log. @errors invalid_field not_found not_sealed history_gone server_key */
  'GET /api/audit/inclusion': {
    query: {
      /** Id of the entry. */
      id: string
    }
    /** The inclusion proof. */
    answer: InclusionProof
  }
  /**
   * Replace the key that signs checkpoints of the audit log.
   *
   * Requests must come through the Unix socket in the data directory. `svc keys rotate` uses this route. The old key
   * signs further checkpoints, too, so that witnesses learn the new one.
   * @errors server_key
   */
  'POST /api/audit/key': {
    /** The keys before and after. */
    answer: { success: true } & RotatedKey
  }
  /**
   * Export the audit log with what proves it.
   *
   * The answer is JSON lines: the entries, the hashes of those that were removed or not asked for, and a checkpoint at
   * the end that signs all lines. `svc audit verify` verifies it without a server.
   * @errors invalid_field not_found changed_meanwhile server_key
   */
  'GET /api/audit/export': {
    query: {
      /** Number of the first entry. Default: 1. @minimum 1 */
      from?: number
      /** Number of the last entry. Default: the newest. @minimum 1 */
      to?: number
    }
    /** The export. @example "{\"svcAudit\":2,\"key\":\"svc/9f2c4b1a7d3e5f60/audit+1c2d3e4f+AR…\"}\n" */
    media: 'application/x-ndjson'
  }
  /** Get the disk usage of svc and of the targets. */
  'GET /api/storage': {
    /** The usage. */
    answer: StorageUsage
  }
  /** Remove old archives, temporary files and files without a record. @errors not_found */
  'POST /api/storage/clean': {
    body: typeof cleanFields
    /** The removed files. */
    answer: CleanAnswer
  }
  /** Get the current resource usage of the machine and the server. */
  'GET /api/system/resources': {
    /** The resources. */
    answer: ResourceSnapshot
  }
  /**
   * Get the state of the cluster, as this hub sees it.
   *
   * A server that is not a hub of a cluster answers null.
   */
  'GET /api/cluster': {
    /** The cluster. */
    answer: { success: true; cluster: ClusterStatus | null }
  }
  /**
   * Replace the key of the cluster.
   *
   * Requests must come through the Unix socket in the data directory of the hub that leads. `svc cluster rekey` uses
   * this route. Each hub gets the new key before it is used; if one does not take it, nothing has changed.
   * @errors no_cluster hubs_changed hub_without_key write_unknown
   */
  'POST /api/cluster/key': {
    body: typeof rekeyFields
    /** The names of the hubs. */
    answer: { success: true; hubs: string[] }
  }
  /** Check whether PM2 is available. */
  'GET /api/pm2/available': {
    /** Whether PM2 is available, or why not. */
    answer: Pm2Availability
  }
  /** List PM2 applications. */
  'GET /api/pm2/apps': {
    /** The applications. */
    answer: Pm2Apps
  }
  /** Get the PM2 application of a project. @errors not_found */
  'GET /api/projects/:id/pm2': {
    /** The application. */
    answer: Pm2Binding
  }
  /** Get the number of deployments per day. @errors invalid_field */
  'GET /api/stats/heatmap': {
    query: {
      /** Number of days, including today. Default: 365. Values above 366 are lowered to 366. @minimum 1 */
      days?: number
    }
    /** The counts. */
    answer: Heatmap
  }
  /** Get the success rate per day. @errors invalid_field */
  'GET /api/stats/success-rate': {
    query: Days
    /** The rates. */
    answer: SuccessRates
  }
  /** Get the durations of deployment steps. @errors invalid_field not_found */
  'GET /api/stats/durations': {
    query: Days & {
      /** Only deployments of this project. */
      projectId?: string
    }
    /** The durations. */
    answer: Durations
  }
  /** Search projects, deployments, log sources, the audit log and settings. @errors invalid_field */
  'GET /api/search': {
    query: {
      /** Text to find, at most 200 characters. */
      q?: string
      /** Types of items to search, separated by commas. Default: all types. */
      types?: string
      /** Maximum number of items. Default: 5. Values above 50 are lowered to 50. @minimum 1 */
      limit?: number
    }
    /** The matching items, grouped by type. */
    answer: SearchResult
  }
  /** Get start directories for choosing a path on the server. */
  'GET /api/fs/home': {
    /** The directories. */
    answer: PlaceHome
  }
  /** List a directory of the server. @errors invalid_field invalid_path forbidden_path */
  'GET /api/fs/list': {
    query: {
      /** An absolute path. */
      path: string
      /** Whether to list directories, files or both. Default: "both". */
      include?: 'dirs' | 'files' | 'both'
    }
    /** The entries, directories first. */
    answer: PlaceListing
  }
  /** Send a telemetry report. @errors rate_limited */
  'POST /api/public/telemetry/report': {
    body: typeof reportFields
    /** The report was accepted. */
    answer: { success: true }
  }
  /** Get the counts of received telemetry reports. @errors rate_limited invalid_field */
  'GET /api/public/telemetry/overview': {
    query: Days
    /** The counts. */
    answer: TelemetryOverview
  }
  /** Check whether a terminal can be opened. */
  'GET /api/terminal/available': {
    /** Whether a terminal can be opened, and the reason if not. */
    answer: TerminalAvailability
  }
  /**
   * Open a terminal.
   *
   * Opens a WebSocket (RFC 6455). docs/streams.md describes its messages.
   * @errors invalid_field not_found upgrade_required invalid_handshake terminal_disabled terminal_unavailable
   * websocket_unavailable stopping foreign_origin
   */
  'GET /api/terminal/ws': {
    query: TerminalQuery
    also: Upgraded
  }
}
