/* The records that the API answers, as schemas; each name is that of the record's type. */
import type { AuditEntry } from '../../model/audit.js'
import { type BulkOutcome } from '../../model/bulk.js'
import { changeTopics, type ChangeVersions } from '../../model/changes.js'
import { stepNames, type Deployment, type DeploymentStep, type RanScript } from '../../model/deployment.js'
import type { FileContent, FileEntry } from '../../model/file-entry.js'
import type { HealthDetail, HealthReport, ServerStatus } from '../../model/health.js'
import { labelColors, type Label } from '../../model/label.js'
import { logKinds, type LogSource, type LogSourceMeta, type LogWindow } from '../../model/log-source.js'
import type { ContainerFigures, DiskFigures, MachineHistory, MachineMinute, MemoryFigures, ResourceSnapshot } from '../../model/machine.js'
import type { Changes, ManifestFile } from '../../model/manifest.js'
import type { BrokenProject, DayCounts, DeploymentBrief, Overview, PinnedProject, ProjectOverview, RecentDays } from '../../model/overview.js'
import { notificationKinds, type NotificationTargetView } from '../../model/notification-target.js'
import type { PlaceEntry, PlaceHome, PlaceListing } from '../../model/place.js'
import type { Pm2App, Pm2Binding, Pm2Details } from '../../model/pm2.js'
import type { Project, RecentScripts } from '../../model/project.js'
import type { CiRun, Provenance } from '../../model/provenance.js'
import type { ListedSession, SignedIn } from '../../model/session.js'
import type { SettingDescription } from '../../model/setting.js'
import type { Heatmap, SuccessRates } from '../../model/stats.js'
import type { FoundBytes, ProjectUsage, StorageUsage } from '../../model/storage.js'
import type { TelemetryCounts, TelemetryOverview } from '../../model/telemetry.js'
import type { TokenHolder } from '../../model/token-holder.js'
import { strategies, type BroughtProject, type Finding, type ImportBrings, type ImportResult, type PartResult } from '../../model/transfer.js'
import type { UploadPermit } from '../../model/upload-permit.js'
import type { Variable } from '../../model/variable.js'
import { searchTypes, type SearchItem, type SearchResult } from '../../system/search.js'
import type { Durations } from '../../system/stats.js'
import type { DatabaseState } from '../../transfer/verify.js'
import {
  anyOf, boolean, constant, dictionary, instant, integer, list, named, nullable, nullableInstant, number, oneOf, optional, record, schema, text
} from './schema.js'

const projectId = text('proj_1a2b3c4d5e6f7a8b')
const deployId = text('dep_1a2b3c4d5e6f7a8b')
const nullableText = nullable(text('text'), null)
const bytes = integer(1024, { minimum: 0, description: 'Bytes' })
const nullableBytes = nullable(bytes)
const statuses = ['queued', 'running', 'success', 'failed'] as const
const env = text('production')
const deployPath = text('/srv/shop')
const sha256 = text('9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08')
const message = text('The project was deleted')

export const success = constant(true)

/** An answer `{success: true, message}`. */
export const done = record<{ success: true; message: string }>({ success, message })

export const project = named('Project', record<Project>({
  id: projectId, name: text('Shop'), description: text(''), deployPath,
  token: text('9c1185a5c5e9fc54612808977ee8f548', { description: 'The deploy token of the project. A secret.' }),
  preDeployScript: text(''), postDeployScript: text('systemctl restart shop'), postDeployAsync: boolean(false),
  allowClientScripts: nullable(boolean(true, { description: 'Null follows the setting allow_client_scripts.' }), null),
  allowedEnv: list(text('NODE_ENV')), runAs: nullable(text('www-data'), null), umask: nullable(text('027'), null),
  maxDiskMb: nullable(integer(1000), null),
  scriptTimeoutSeconds: nullable(integer(600), null), scriptShell: nullable(text('/bin/bash'), null), scriptDirectory: nullable(text('current'), null),
  env, categoryId: nullable(text('cat_1a2b3c4d5e6f7a8b'), null),
  pm2AppName: nullable(text('shop'), null), pinned: boolean(false), tagIds: list(text('tag_1a2b3c4d5e6f7a8b')),
  status: oneOf(['idle', 'running', 'success', 'failed']), lastDeployAt: nullableInstant, createdAt: instant, updatedAt: instant
}))

const holderProject = record<NonNullable<TokenHolder['project']>>({
  id: projectId, name: text('Shop'), env, status: oneOf(['idle', 'running', 'success', 'failed'], 'success'), lastDeployAt: nullableInstant
})
export const tokenHolder = record<TokenHolder>({
  role: text('project', { description: 'admin, local, project (a deploy token) or global (the deploy token of every project)' }),
  name: text('project:proj_1a2b3c4d5e6f7a8b'), project: nullable(holderProject)
})
export const uploadPermit = record<UploadPermit>({
  success, project: record<UploadPermit['project']>({ id: projectId, name: text('Shop'), env }), maxUploadBytes: bytes, maxExtractedBytes: bytes
})

export const recentScripts = record<RecentScripts>({
  deployId: nullable(deployId), preDeployScript: text(''), postDeployScript: text('systemctl restart shop')
})

export const bulkOutcome = { done: integer(2), failed: list(record<BulkOutcome['failed'][number]>({ id: projectId, error: text('Not found') })) }

const step = record<DeploymentStep>({
  name: oneOf(stepNames), status: oneOf(['success', 'running', 'failed', 'skipped']), startedAt: instant, endedAt: nullableInstant,
  exitCode: optional(nullable(integer(0)))
})
const ranScript = record<RanScript>({
  step: oneOf(['preDeploy', 'postDeploy']), source: oneOf(['platform', 'client']), script: text('npm ci'), async: boolean(false)
})
const ciRun = record<CiRun>({ system: text('GitHub Actions'), run: nullableText, url: nullableText, actor: nullableText })

export const provenance = named('Provenance', record<Provenance>({
  source: oneOf(['cli', 'panel']), commit: nullable(text('4b825dc642cb6eb9a060e54bf8d69288fbee4904')), branch: nullable(text('main')), tag: nullableText,
  author: nullable(text('Ada')), subject: nullable(text('New prices')), dirty: nullable(boolean(false)),
  repository: nullable(text('https://git.example.org/shop.git')), ci: nullable(ciRun), by: nullableText
}))

/** In lists, `output` may be left out. */
type DeploymentAnswer = Omit<Deployment, 'output'> & { output?: string }

export const deployment = named('Deployment', record<DeploymentAnswer>({
  id: deployId, projectId, projectName: text('Shop'), status: oneOf(statuses, 'success'), triggerSource: oneOf(['cli', 'rollback']),
  startTime: instant, endTime: nullableInstant, duration: nullable(text('1.2s')), rollbackOf: nullable(deployId, null),
  message: nullable(text('New prices')), env, hasArtifact: boolean(true), archiveBytes: nullableBytes, archiveSha256: nullable(sha256),
  fileCount: nullable(integer(12)), errorMessage: nullableText, actorIp: nullable(text('192.0.2.7')), claimedIp: nullableText,
  placed: nullable(integer(3)), provenance: nullable(provenance), steps: list(step), scripts: list(ranScript),
  backgroundFailed: optional(constant(true)), commitUrl: optional(text('https://git.example.org/shop/commit/4b825dc6')), output: optional(text('→ Extracting 12 files\n')), outputTruncated: optional(boolean(true))
}))

export const manifestFile = record<ManifestFile>({
  path: text('index.html'), size: bytes, mode: integer(0o100644), sha256,
  before: nullable(record<NonNullable<ManifestFile['before']>>({ size: bytes, mode: integer(0o100644), sha256 }), null)
})
export const changes = record<Changes>({ added: list(text('new.html')), changed: list(text('index.html')), removed: list(text('old.html')) })

export const label = named('Label', record<Label>({
  id: text('cat_1a2b3c4d5e6f7a8b'), name: text('Websites'), color: oneOf(labelColors), sortOrder: integer(0), projectCount: integer(3),
  createdAt: instant, updatedAt: instant
}))

export const fileEntry = record<FileEntry>({ name: text('index.html'), path: text('index.html'), isDir: boolean(false), size: bytes, mtime: instant })
export const fileContent = anyOf<FileContent[]>(
  record<Extract<FileContent, { type: 'text' }>>({ type: constant('text'), content: text('<!doctype html>'), language: text('html') }) as never,
  record<Extract<FileContent, { type: 'binary' }>>({ type: constant('binary'), size: bytes, message }) as never
)

export const auditEntry = named('AuditEntry', record<AuditEntry>({
  id: text('aud_1a2b3c4d5e6f7a8b'), at: instant, action: text('project.create'), actor: text('admin'), ip: nullable(text('192.0.2.7')),
  claimedIp: nullableText, projectId: nullable(projectId), target: nullableText, detail: nullableText, ok: boolean(true),
  failures: nullable(integer(3), null)
}))

const logSourceFields = { id: text('lsrc_1a2b3c4d5e6f7a8b'), label: text('Shop'), filePath: text('/var/log/shop.log'), kind: oneOf(logKinds) }
export const logSource = named('LogSource', record<LogSource>({
  ...logSourceFields, projectId, sortOrder: integer(0), createdAt: instant, updatedAt: instant
}))
export const logSourceMeta = record<LogSourceMeta>({ ...logSourceFields, resolvedPath: text('/var/log/shop.log'), size: bytes })
export const logWindow = record<LogWindow>({
  startOffset: bytes, endOffset: bytes, fileSize: bytes, lines: list(text('GET /')), truncatedHead: boolean(true), truncatedTail: boolean(false),
  binary: boolean(false)
})

export const serverStatus = named('ServerStatus', record<ServerStatus>({
  version: text('1.0.0'), uptime: text('3h 4m'), projectCount: integer(3), deploymentCount: integer(120), successCount: integer(118),
  failedCount: integer(2), successRate: number(98.3)
}))
export const healthReport = named('Health', record<HealthReport>({
  status: oneOf(['ok', 'starting', 'unhealthy']), uptime: number(11045, { description: 'Seconds' }), version: text('1.0.0')
}))
const disk = named('Disk', record<DiskFigures>({ freeBytes: nullableBytes, totalBytes: nullableBytes, percentUsed: nullable(number(41.5)) }))
export const healthDetail = record<HealthDetail>({
  version: text('1.0.0'), runtime: record<HealthDetail['runtime']>({ name: text('node'), version: text('20.11.0') }), uptimeSec: number(11045),
  serverTime: instant, db: record<HealthDetail['db']>({ ok: boolean(true), latencyMs: number(0.1), path: text('/var/lib/svc/svc.db') }), disk,
  kiteHome: record<HealthDetail['kiteHome']>({ path: text('/var/lib/svc'), writable: boolean(true), tmpWritable: boolean(true) }),
  deploy: record<HealthDetail['deploy']>({
    last5: list(record<HealthDetail['deploy']['last5'][number]>({
      id: deployId, projectId, projectName: text('Shop'), status: oneOf(statuses, 'success'), startTime: instant, duration: nullable(text('1.2s'))
    })),
    successRate: nullable(number(98.3))
  }),
  hostNamesChecked: optional(boolean(true)),
  secrets: optional(record<NonNullable<HealthDetail['secrets']>>({ ok: boolean(true), why: nullableText, unreadable: list(text('Shop: API_KEY')) })),
  memoryMB: record<HealthDetail['memoryMB']>({ rss: number(63), heapUsed: number(14) })
})

export const settingDescription = record<SettingDescription>({
  key: text('max_upload_size'), type: oneOf(['text', 'secret', 'number', 'flag', 'list'], 'number'), unit: nullable(text('MB')), default: text('500'),
  help: text('Maximum size of an archive.'), choices: optional(schema<readonly string[]>({ type: 'array', items: { type: 'string' } }, ['deploy_success']))
})
export const settingValues = dictionary(text('500'), { max_upload_size: '500' })

const memory = record<MemoryFigures>({ totalBytes: bytes, freeBytes: bytes, availableBytes: bytes, usedBytes: bytes, percentUsed: number(37.5) })
const container = record<ContainerFigures>({ memoryLimitBytes: nullableBytes, memoryUsedBytes: nullableBytes, cpuLimit: nullable(number(1.5)) })
export const resources = record<ResourceSnapshot>({
  collectedAt: instant,
  host: record<ResourceSnapshot['host']>({
    hostname: text('web1'), platform: text('linux'), arch: text('x64'), cpuModel: text('Example CPU'), cpuCount: integer(2), loadAvg: list(number(0.2)),
    uptimeSec: number(86400)
  }),
  cpu: record<ResourceSnapshot['cpu']>({ percent: number(3.5) }), memory, disk,
  process: record<ResourceSnapshot['process']>({
    pid: integer(1234), runtime: text('node'), runtimeVersion: text('20.11.0'), uptimeSec: number(11045), cpuPercent: number(0.1),
    memoryRssBytes: bytes, memoryHeapUsedBytes: bytes
  }),
  container: nullable(container, null)
})

export const machineHistory = record<MachineHistory>({
  stepMinutes: integer(1), to: instant,
  items: list(record<MachineMinute>({
    at: instant, cpuPercent: number(3.5), processCpuPercent: number(0.2), memoryUsedBytes: bytes, memoryTotalBytes: bytes, memoryRssBytes: bytes,
    diskUsedPercent: nullable(number(41.5)), diskFreeBytes: nullableBytes, load: number(0.2), succeeded: integer(1), failed: integer(0)
  }))
})

const dayCounts = record<DayCounts>({ date: text('2030-01-02'), success: integer(5), failed: integer(0) })
const pinned = record<PinnedProject>({
  id: projectId, name: text('Shop'), env, status: oneOf(['idle', 'running', 'success', 'failed'], 'success'), lastDeployAt: nullableInstant
})
const brief = record<DeploymentBrief>({
  id: deployId, triggerSource: oneOf(['cli', 'rollback']), startTime: instant, endTime: nullableInstant, message: nullable(text('New prices')),
  status: oneOf(statuses, 'failed'), hasArtifact: boolean(true), errorMessage: nullableText, provenance: nullable(provenance), backgroundFailed: optional(constant(true))
})
const broken = record<BrokenProject>({
  projectId, projectName: text('Shop'), projectEnv: env, since: instant, failed: brief, lastGood: nullable(brief), isLastGoodLive: boolean(false),
  goingId: nullable(deployId, null)
})
export const projectOverview = record<ProjectOverview>({
  live: nullable(deployment as never), liveSource: nullable(deployment as never, null), broken: nullable(broken, null),
  deployments: list(deployment) as never, deploymentCount: integer(12)
})
export const overview = record<Overview>({
  broken: record<Overview['broken']>({ total: integer(0), items: list(broken) }),
  status: serverStatus, health: healthReport, runningCount: integer(0), queuedCount: integer(0), deployments: list(deployment) as never, pinned: list(pinned),
  newestProject: nullable(project, null), days: nullable(record<RecentDays>({ today: text('2030-01-02'), items: list(dayCounts) }))
})

export const heatmap = record<Heatmap>({
  days: integer(365), cells: list(record<Heatmap['cells'][number]>({ date: text('2030-01-02'), count: integer(5), failed: integer(0) }))
})
export const successRates = record<SuccessRates>({
  days: integer(30),
  points: list(record<SuccessRates['points'][number]>({ date: text('2030-01-02'), success: integer(5), failed: integer(0), rate: nullable(number(100)) }))
})
const stepMs = record<Durations['recent'][number]['steps'][number]>({ name: oneOf(stepNames, 'extract'), ms: number(120) })
export const durations = record<Durations>({
  days: integer(30), projectId: nullable(projectId, null), deployments: integer(12),
  steps: list(record<Durations['steps'][number]>({
    name: oneOf(stepNames, 'extract'), count: integer(12), medianMs: number(120), p95Ms: number(300), maxMs: number(350)
  })),
  recent: list(record<Durations['recent'][number]>({ id: deployId, startTime: instant, status: oneOf(statuses, 'success'), steps: list(stepMs) }))
})

const pm2Fields = { name: text('shop'), pmId: integer(0), status: text('online') }
export const pm2App = record<Pm2App>(pm2Fields)
export const pm2Binding = anyOf<Pm2Binding[]>(
  record<Pm2Details>({
    ...pm2Fields, bound: constant(true), found: constant(true), pid: nullable(integer(1234)), uptimeMs: number(60000), restarts: integer(0),
    unstableRestarts: integer(0), cpuPercent: number(0.3), memoryBytes: bytes, execMode: text('fork_mode'), instances: integer(1),
    errorLogPath: nullableText, outLogPath: nullableText, createdAt: nullable(integer(1_893_553_445_678))
  }) as never,
  record<{ bound: true; found: false; name: string }>({ bound: constant(true), found: constant(false), name: text('shop') }) as never,
  record<{ bound: false; message: string }>({ bound: constant(false), message }) as never
)

export const searchResult = record<SearchResult>({
  q: text('shop'),
  groups: list(record<SearchResult['groups'][number]>({
    type: oneOf(searchTypes), total: integer(1),
    items: list(record<SearchItem>({ id: projectId, title: text('Shop'), subtitle: deployPath, href: text('/projects/proj_1a2b3c4d5e6f7a8b') }))
  }))
})

export const placeHome = record<PlaceHome>({ home: text('/root'), cwd: text('/srv'), sep: text('/'), roots: list(text('/')) })
export const placeListing = record<PlaceListing>({
  path: text('/srv'), parent: nullable(text('/')), exists: boolean(true), isDir: boolean(true), truncated: boolean(false),
  entries: list(record<PlaceEntry>({ name: text('shop'), path: deployPath, isDir: boolean(true), isSymlink: boolean(false), isHidden: boolean(false) }))
})

export const foundBytes = record<FoundBytes>({ name: text('1a2b3c.zip'), bytes })
export const storageUsage = record<StorageUsage>({
  home: record<StorageUsage['home']>({ path: text('/var/lib/svc'), bytes, freeBytes: nullableBytes, totalBytes: nullableBytes, percentUsed: nullable(number(41.5)) }),
  totals: record<StorageUsage['totals']>({ archives: bytes, logs: bytes, tmp: bytes, database: bytes }),
  projects: list(record<ProjectUsage>({ projectId, archiveCount: integer(10), archiveBytes: bytes, logBytes: bytes, deployPathBytes: nullableBytes }))
})
export const cleaned = {
  dryRun: boolean(false),
  removed: record<{ archives: Array<{ deployId: string; projectId: string; bytes: number }>; temporaryFiles: FoundBytes[]; unrecordedFiles: FoundBytes[] }>({
    archives: list(record<{ deployId: string; projectId: string; bytes: number }>({ deployId, projectId, bytes })),
    temporaryFiles: list(foundBytes), unrecordedFiles: list(foundBytes)
  }),
  unrecordedLeft: list(foundBytes),
  freedBytes: bytes
}

const counts = { instances: integer(3), startups: integer(4), pushes: integer(12) }
export const telemetryOverview = record<TelemetryOverview>({
  days: integer(30), totals: record<TelemetryCounts>(counts),
  daily: list(record<TelemetryOverview['daily'][number]>({ ...counts, date: text('2030-01-02') })),
  versions: list(record<TelemetryOverview['versions'][number]>({ version: text('1.0.0'), count: integer(3) })),
  platforms: list(record<TelemetryOverview['platforms'][number]>({ os: text('linux'), arch: text('x64'), count: integer(3) }))
})

const targetId = text('ntgt_1a2b3c4d5e6f7a8b')
const ids = list(text('proj_1a2b3c4d5e6f7a8b'))
const part = { created: ids, replaced: ids, skipped: ids }
const partResult = named('PartResult', record<PartResult>(part))
const brought = record<BroughtProject>({
  id: projectId, name: text('Shop'), deployPath, preDeployScript: text(''), postDeployScript: text(''), postDeployAsync: boolean(false),
  allowClientScripts: nullable(boolean(true), null), allowedEnv: list(text('NODE_ENV')), runAs: nullableText, scriptShell: nullableText, scriptDirectory: nullableText,
  variables: list(record<BroughtProject['variables'][number]>({ name: text('API_KEY'), value: nullableText })), hasArtifact: boolean(true)
})
/** The fields of an import's result, which its answer has beside `success`. */
export const importResult = {
  strategy: oneOf(strategies), dryRun: boolean(false), settings: partResult, categories: partResult, tags: partResult, projects: partResult,
  logSources: partResult, notificationTargets: partResult, deployments: partResult,
  artifacts: record<ImportResult['artifacts']>({ ...part, failed: list(record<{ id: string; error: string }>({ id: projectId, error: text('No space') })) }),
  brings: record<ImportBrings>({
    settings: list(record<ImportBrings['settings'][number]>({ key: text('webhook_url'), value: nullableText })), projects: list(brought),
    logSources: list(record<ImportBrings['logSources'][number]>({ id: logSourceFields.id, projectId, filePath: logSourceFields.filePath })),
    notificationTargets: list(record<ImportBrings['notificationTargets'][number]>({ id: targetId, name: text('Team'), address: text('https://hooks.slack.com/…') }))
  }),
  notes: list(text('The package has no archives.'))
}

const finding = record<Finding>({
  check: oneOf(['database', 'deployments', 'deployPath', 'token', 'serverUrl', 'server']), level: oneOf(['ok', 'warning', 'error']), id: nullableText,
  message: text('The database has 3 projects'), next: nullableText
})
export const inspection = record<DatabaseState & { findings: Finding[] }>({
  missingTables: list(text('projects')),
  projects: list(record<DatabaseState['projects'][number]>({ id: projectId, name: text('Shop'), deployPath, token: text('…'), status: oneOf(['idle', 'running', 'success', 'failed']) })),
  deploymentCount: integer(120), orphans: list(record<DatabaseState['orphans'][number]>({ id: deployId, projectId })), findings: list(finding)
})

export const variable = record<Variable>({
  name: text('API_KEY'), value: nullable(text('k-123'), null), secret: boolean(true), hasValue: boolean(true), updatedAt: instant
})

const view = {
  id: targetId, name: text('Team'), kind: oneOf(notificationKinds, 'slack'), events: list(oneOf(['deploy_success', 'deploy_failure'])), projectIds: list(projectId),
  enabled: boolean(true), address: text('https://hooks.slack.com/…'), hasSecret: boolean(false), isFromSettings: boolean(false), createdAt: nullableInstant,
  updatedAt: nullableInstant
}
export const notificationTarget = named('NotificationTarget', record<NotificationTargetView>(view))

export const signedIn = record<SignedIn>({
  role: text('admin'), name: text('admin'), id: nullable(text('ses_1a2b3c4d5e6f7a8b')), csrf: nullable(text('b6589fc6ab0dc82c')), expiresAt: nullableInstant
})
export const listedSession = record<ListedSession>({
  id: text('ses_1a2b3c4d5e6f7a8b'), createdAt: instant, lastUsedAt: instant, expiresAt: instant, remember: boolean(false), ip: nullable(text('192.0.2.7')),
  userAgent: nullable(text('Mozilla/5.0')), current: boolean(true)
})

const version = text('12.7')
export const changeVersions = record<ChangeVersions>(Object.fromEntries(Object.keys(changeTopics).map(topic => [topic, version])) as never)
