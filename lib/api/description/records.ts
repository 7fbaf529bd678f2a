/* Schemas of the records in responses. Each constant has the name of the record's type. */
import type { AuditEntry } from '../../model/audit.js'
import type { BulkOutcome } from '../../model/bulk.js'
import { changeTopics, type ChangeVersions } from '../../model/changes.js'
import {
  holdReasons,
  revertReasons,
  stepNames,
  type CheckResult,
  type Deployment,
  type DeploymentStep,
  type RanScript
} from '../../model/deployment.js'
import type { FileContent, FileEntry } from '../../model/file-entry.js'
import type { HealthDetail, HealthReport, ServerStatus } from '../../model/health.js'
import { labelColors, type Label } from '../../model/label.js'
import { logKinds, type LogSource, type LogSourceMeta, type LogWindow } from '../../model/log-source.js'
import type {
  ContainerFigures,
  DiskFigures,
  MachineHistory,
  MachineMinute,
  MemoryFigures,
  ResourceSnapshot
} from '../../model/machine.js'
import type { Changes, ManifestFile } from '../../model/manifest.js'
import type {
  BrokenProject,
  DayCounts,
  DeploymentBrief,
  Overview,
  PinnedProject,
  ProjectOverview,
  RecentDays
} from '../../model/overview.js'
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
import {
  strategies,
  type BroughtProject,
  type Finding,
  type ImportBrings,
  type ImportResult,
  type PartResult
} from '../../model/transfer.js'
import { uploadFeatures, type UploadPermit } from '../../model/upload-permit.js'
import type { Variable } from '../../model/variable.js'
import { searchTypes, type SearchItem, type SearchResult } from '../../search/search.js'
import type { Durations } from '../../machine/stats.js'
import type { DatabaseState } from '../../transfer/verify.js'
import { policy } from './policy.js'
import {
  anyOf,
  boolean,
  constant,
  described,
  dictionary,
  instant,
  integer,
  list,
  named,
  nullable,
  nullableInstant,
  number,
  oneOf,
  optional,
  record,
  schema,
  text
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

/** The field `success` of a successful response. */
export const success = constant(true)

/** A response `{success: true, message}`. */
export const done = record<{ success: true; message: string }>({ success, message })

/** A project. */
export const project = named(
  'Project',
  record<Project>({
    id: projectId,
    name: text('Shop'),
    description: text(''),
    deployPath: described('The target: an absolute directory on the server', deployPath),
    token: text('9c1185a5c5e9fc54612808977ee8f548', { description: 'The deploy token of the project, a secret' }),
    preDeployScript: described(
      'Script to run before extraction. Empty means none. It replaces the script of a client',
      text('')
    ),
    postDeployScript: described(
      'Script to run after extraction. Empty means none. It replaces the script of a client',
      text('systemctl restart shop')
    ),
    postDeployAsync: described('Whether the post-deploy script runs in the background', boolean(false)),
    allowClientScripts: nullable(
      boolean(true, { description: 'Whether clients may send scripts. Null follows the setting allow_client_scripts' }),
      null
    ),
    allowedEnv: described(
      'Names, or PREFIX_*, of client variables that scripts get even if client scripts are not allowed',
      list(text('NODE_ENV'))
    ),
    runAs: described(
      'The user whose permissions apply to scripts and to writing the target. Null means the user of svc',
      nullable(text('www-data'), null)
    ),
    umask: described('File mode creation mask in octal. Null means the mask of svc', nullable(text('027'), null)),
    maxDiskMb: described(
      'Maximum size of the kept archives and outputs in MB. Null means no limit',
      nullable(integer(1000), null)
    ),
    policy: described(
      'How deployments treat the target, and when they are a success. Absent keys have their default',
      policy
    ),
    scriptTimeoutSeconds: described(
      'Maximum duration of a script in seconds. Null follows the setting script_timeout',
      nullable(integer(600), null)
    ),
    scriptShell: described(
      '`sh`, `bash` or the absolute path of a shell. Null means `sh`',
      nullable(text('/bin/bash'), null)
    ),
    scriptDirectory: described(
      'Working directory of the scripts, relative to the target. Null means the target',
      nullable(text('current'), null)
    ),
    env,
    categoryId: nullable(text('cat_1a2b3c4d5e6f7a8b'), null),
    pm2AppName: described('Name of the PM2 application of the project', nullable(text('shop'), null)),
    pinned: boolean(false),
    tagIds: list(text('tag_1a2b3c4d5e6f7a8b')),
    status: described(
      'The status of the last deployment, or `idle` if there was none',
      oneOf(['idle', 'running', 'success', 'failed'])
    ),
    lastDeployAt: nullableInstant,
    createdAt: instant,
    updatedAt: instant
  })
)

const holderProject = record<NonNullable<TokenHolder['project']>>({
  id: projectId,
  name: text('Shop'),
  env,
  status: oneOf(['idle', 'running', 'success', 'failed'], 'success'),
  lastDeployAt: nullableInstant
})
/** The role and the project of a token. */
export const tokenHolder = record<TokenHolder>({
  role: text('project', {
    description: 'admin, local, project (a deploy token) or global (the deploy token of every project)'
  }),
  name: text('project:proj_1a2b3c4d5e6f7a8b'),
  project: nullable(holderProject)
})
/** The limits of an upload that would be accepted. */
export const uploadPermit = record<UploadPermit>({
  success,
  project: record<UploadPermit['project']>({ id: projectId, name: text('Shop'), env }),
  maxUploadBytes: described('Maximum size of the archive in bytes', bytes),
  maxExtractedBytes: described('Maximum uncompressed size of the archive in bytes', bytes),
  features: described('What an upload may ask for besides its files', list(oneOf(uploadFeatures)))
})

/** The scripts of an earlier deployment. */
export const recentScripts = record<RecentScripts>({
  deployId: described('The deployment that ran the scripts, or null', nullable(deployId)),
  preDeployScript: text(''),
  postDeployScript: text('systemctl restart shop')
})

/** The result of a bulk change. */
export const bulkOutcome = {
  done: integer(2),
  failed: list(record<BulkOutcome['failed'][number]>({ id: projectId, error: text('Not found') }))
}

const step = record<DeploymentStep>({
  name: oneOf(stepNames),
  status: described(
    'A script in the background stays `running` until it ends, even if the deployment has finished',
    oneOf(['success', 'running', 'failed', 'skipped'])
  ),
  startedAt: instant,
  endedAt: nullableInstant,
  exitCode: optional(described('Exit code of a script. Absent for other steps', nullable(integer(0))))
})
const ranScript = record<RanScript>({
  step: oneOf(['preDeploy', 'postDeploy']),
  source: described(
    '`platform` for a script of the project, `client` for a script of the upload',
    oneOf(['platform', 'client'])
  ),
  script: text('npm ci'),
  async: described('Whether the script runs in the background', boolean(false))
})
const ciRun = record<CiRun>({
  system: described('The name of the continuous integration system', text('GitHub Actions')),
  run: described('The number of the run', nullableText),
  url: described('The URL of the run', nullableText),
  actor: described('The user that started the run', nullableText)
})

/** The origin of the files of a deployment. */
export const provenance = named(
  'Provenance',
  record<Provenance>({
    source: described('The kind of client that sent the archive', oneOf(['cli', 'panel'])),
    commit: described('The full id of the Git commit', nullable(text('4b825dc642cb6eb9a060e54bf8d69288fbee4904'))),
    branch: nullable(text('main')),
    tag: nullableText,
    author: described('The name of the author of the commit', nullable(text('Ada'))),
    subject: described('The first line of the commit message', nullable(text('New prices'))),
    dirty: described('Whether tracked files differed from the commit', nullable(boolean(false))),
    repository: described(
      'The URL of the repository, without credentials',
      nullable(text('https://git.example.org/shop.git'))
    ),
    ci: described('The continuous integration run, or null', nullable(ciRun)),
    by: described('The user of the panel that sent the archive. Null for other clients', nullableText)
  })
)

const checkResult = record<CheckResult>({
  check: described('What was checked', text('http://127.0.0.1:3000/up')),
  ok: boolean(true),
  attempts: integer(2),
  message: described('The last answer', text('200')),
  endedAt: instant
})

/** A deployment in a response. Lists may omit `output`. */
type DeploymentAnswer = Omit<Deployment, 'output'> & { output?: string }

/** A deployment. */
export const deployment = named(
  'Deployment',
  record<DeploymentAnswer>({
    id: deployId,
    projectId,
    projectName: text('Shop'),
    status: oneOf(statuses, 'success'),
    triggerSource: described('`cli` for an upload, `rollback` for a rollback', oneOf(['cli', 'rollback'])),
    startTime: instant,
    endTime: nullableInstant,
    duration: described('Seconds with the suffix `s`. Null until the deployment has finished', nullable(text('1.2s'))),
    rollbackOf: described(
      'The deployment whose archive was deployed again. Null for an upload',
      nullable(deployId, null)
    ),
    message: described('A note on the deployment', nullable(text('New prices'))),
    env,
    hasArtifact: described('Whether the archive still exists, so that a rollback is possible', boolean(true)),
    archiveBytes: described('Size of the archive in bytes', nullableBytes),
    archiveSha256: described('SHA-256 checksum of the archive in hexadecimal', nullable(sha256)),
    fileCount: described('Number of files that the deployment installed', nullable(integer(12))),
    errorMessage: described('Why the deployment failed, or who corrected its status. Otherwise null', nullableText),
    actorIp: described('The client address that the server saw', nullable(text('192.0.2.7'))),
    claimedIp: described('The client address in X-Forwarded-For. Null if it is the same as `actorIp`', nullableText),
    placed: described(
      'Sequence number of the change to the target. The highest of a project is live. Null if nothing changed',
      nullable(integer(3))
    ),
    provenance: described(
      'The origin of the files as the client reported it. The server does not verify it',
      nullable(provenance)
    ),
    treeSha256: described(
      'SHA-256 checksum of the list of files in the archive: the same for the same release. Null if it is unknown',
      nullable(sha256)
    ),
    heldFor: described(
      'Why the deployment may still be reverted although its files are in place. Otherwise null',
      nullable(oneOf(holdReasons), null)
    ),
    holdUntil: described(
      'When the earlier files are put back unless the deployment is settled before',
      nullableInstant
    ),
    confirmSeconds: described(
      'The time in which the deployment must be confirmed. Null if it need not be',
      nullable(integer(90), null)
    ),
    revertedAt: described('When the earlier files were put back', nullableInstant),
    revertReason: described('Why the earlier files were put back', nullable(oneOf(revertReasons), null)),
    checks: described('The results of the checks after the files were in place', list(checkResult)),
    steps: list(step),
    scripts: described('The scripts that ran', list(ranScript)),
    backgroundFailed: optional(described('Present if the post-deploy script failed in the background', constant(true))),
    commitUrl: optional(
      described(
        'The URL of the commit, if the setting commit_url or the repository provides it',
        text('https://git.example.org/shop/commit/4b825dc6')
      )
    ),
    output: optional(described('The end of the output', text('→ Extracting 12 files\n'))),
    outputTruncated: optional(described('Present if the beginning of `output` was cut off', boolean(true)))
  })
)

/** A file that a deployment installed. */
export const manifestFile = record<ManifestFile>({
  path: described('Path relative to the target', text('index.html')),
  size: bytes,
  mode: described('File type and permission bits, as in `stat`', integer(0o100644)),
  sha256: described('SHA-256 checksum of the content. For a symbolic link, of its destination', sha256),
  mtimeMs: optional(described('Time of the last modification in milliseconds since 1970', number(1763942400000))),
  ino: optional(described('Number of its inode', integer(131073))),
  before: nullable(
    record<NonNullable<ManifestFile['before']>>({
      size: bytes,
      mode: integer(0o100644),
      sha256,
      mtimeMs: optional(number(1763856000000))
    }),
    null
  )
})
/** The differences between the files of two deployments. */
export const changes = record<Changes>({
  added: list(text('new.html')),
  changed: list(text('index.html')),
  removed: list(text('old.html'))
})

/** A category or a tag. */
export const label = named(
  'Label',
  record<Label>({
    id: text('cat_1a2b3c4d5e6f7a8b'),
    name: text('Websites'),
    color: oneOf(labelColors),
    sortOrder: described('Position in lists: smaller numbers come first', integer(0)),
    projectCount: described('Number of projects with this label', integer(3)),
    createdAt: instant,
    updatedAt: instant
  })
)

/** An entry of a directory of a target. */
export const fileEntry = record<FileEntry>({
  name: text('index.html'),
  path: described('Path relative to the target', text('index.html')),
  isDir: boolean(false),
  size: bytes,
  mtime: described('Time of the last modification', instant)
})
/** The preview of a file of a target. */
export const fileContent = anyOf<FileContent[]>(
  record<Extract<FileContent, { type: 'text' }>>({
    type: constant('text'),
    content: text('<!doctype html>'),
    language: text('html')
  }) as never,
  record<Extract<FileContent, { type: 'binary' }>>({ type: constant('binary'), size: bytes, message }) as never
)

/** An entry of the audit log. */
export const auditEntry = named(
  'AuditEntry',
  record<AuditEntry>({
    id: text('aud_1a2b3c4d5e6f7a8b'),
    at: instant,
    action: described('What was done, as `noun.verb`: `project.create`, `auth.login_failed`', text('project.create')),
    actor: described(
      'Who did it: `admin`, `project:<id>`, `global-deploy`, `local`, `anonymous` or `system`',
      text('admin')
    ),
    ip: described('The client address that the server saw', nullable(text('192.0.2.7'))),
    claimedIp: described('The client address in X-Forwarded-For. Null if it is the same as `ip`', nullableText),
    projectId: nullable(projectId),
    target: described('The id of the changed record, or the key of the changed setting', nullableText),
    detail: nullableText,
    ok: described('Whether the action succeeded', boolean(true)),
    failures: described(
      'Number of failed attempts that the entry sums up. Null for other entries',
      nullable(integer(3), null)
    )
  })
)

const logSourceFields = {
  id: text('lsrc_1a2b3c4d5e6f7a8b'),
  label: text('Shop'),
  filePath: described('Absolute path of the log file', text('/var/log/shop.log')),
  kind: described('How to display the lines: as text, as JSON objects or with terminal colors', oneOf(logKinds))
}
/** A log source. */
export const logSource = named(
  'LogSource',
  record<LogSource>({
    ...logSourceFields,
    projectId,
    sortOrder: integer(0),
    createdAt: instant,
    updatedAt: instant
  })
)
/** The size and the real path of a log file. */
export const logSourceMeta = record<LogSourceMeta>({
  ...logSourceFields,
  resolvedPath: described('The path after following symbolic links', text('/var/log/shop.log')),
  size: described('Size in bytes. For a compressed file, the uncompressed size', bytes)
})
/** Lines of a log file. */
export const logWindow = record<LogWindow>({
  startOffset: described('Byte offset of the first line', bytes),
  endOffset: described('Byte offset after the last line', bytes),
  fileSize: described('Size of the file in bytes', bytes),
  lines: list(text('GET /')),
  truncatedHead: described('Whether the file has more lines before these', boolean(true)),
  truncatedTail: described('Whether the file has more lines after these', boolean(false)),
  binary: described('Whether the file is binary', boolean(false))
})

/** The version and the counts of the server. */
export const serverStatus = named(
  'ServerStatus',
  record<ServerStatus>({
    version: text('1.0.0'),
    uptime: text('3h 4m'),
    projectCount: integer(3),
    deploymentCount: integer(120),
    successCount: integer(118),
    failedCount: integer(2),
    successRate: described('Percentage of the finished deployments. 0 if none has finished', number(98.3))
  })
)
/** The health of the server. */
export const healthReport = named(
  'Health',
  record<HealthReport>({
    status: described(
      '`starting` until the server has an admin token and has recovered from an interrupted run',
      oneOf(['ok', 'starting', 'unhealthy'])
    ),
    uptime: number(11045, { description: 'Seconds since the start of the server' }),
    version: text('1.0.0')
  })
)
const disk = named(
  'Disk',
  record<DiskFigures>({ freeBytes: nullableBytes, totalBytes: nullableBytes, percentUsed: nullable(number(41.5)) })
)
/** The health of the server in detail. */
export const healthDetail = record<HealthDetail>({
  version: text('1.0.0'),
  runtime: record<HealthDetail['runtime']>({ name: text('node'), version: text('20.11.0') }),
  uptimeSec: number(11045),
  serverTime: instant,
  db: record<HealthDetail['db']>({ ok: boolean(true), latencyMs: number(0.1), path: text('/var/lib/svc/svc.db') }),
  disk,
  kiteHome: record<HealthDetail['kiteHome']>({
    path: text('/var/lib/svc'),
    writable: boolean(true),
    tmpWritable: boolean(true)
  }),
  deploy: record<HealthDetail['deploy']>({
    last5: list(
      record<HealthDetail['deploy']['last5'][number]>({
        id: deployId,
        projectId,
        projectName: text('Shop'),
        status: oneOf(statuses, 'success'),
        startTime: instant,
        duration: nullable(text('1.2s'))
      })
    ),
    successRate: nullable(number(98.3))
  }),
  hostNamesChecked: optional(boolean(true)),
  revertsPending: optional(
    described('Deployments whose earlier files could not be put back yet', list(text('dep_1a2b3c4d5e6f7a8b')))
  ),
  secrets: optional(
    record<NonNullable<HealthDetail['secrets']>>({
      ok: boolean(true),
      why: nullableText,
      unreadable: list(text('Shop: API_KEY'))
    })
  ),
  memoryMB: record<HealthDetail['memoryMB']>({ rss: number(63), heapUsed: number(14) })
})

/** The description of a setting. */
export const settingDescription = record<SettingDescription>({
  key: text('max_upload_size'),
  type: oneOf(['text', 'secret', 'number', 'flag', 'list'], 'number'),
  unit: described('Unit of the value, or null', nullable(text('MB'))),
  default: text('500'),
  help: text('Maximum size of an archive.'),
  choices: optional(
    described(
      'The possible items of a list',
      schema<readonly string[]>({ type: 'array', items: { type: 'string' } }, ['deploy_success'])
    )
  )
})
/** The values of settings by key. */
export const settingValues = dictionary(text('500'), { max_upload_size: '500' })

const memory = record<MemoryFigures>({
  totalBytes: bytes,
  freeBytes: bytes,
  availableBytes: bytes,
  usedBytes: bytes,
  percentUsed: number(37.5)
})
const container = record<ContainerFigures>({
  memoryLimitBytes: nullableBytes,
  memoryUsedBytes: nullableBytes,
  cpuLimit: nullable(number(1.5))
})
/** The resource usage of the machine and the server. */
export const resources = record<ResourceSnapshot>({
  collectedAt: instant,
  host: record<ResourceSnapshot['host']>({
    hostname: text('web1'),
    platform: text('linux'),
    arch: text('x64'),
    cpuModel: text('Example CPU'),
    cpuCount: integer(2),
    loadAvg: list(number(0.2)),
    uptimeSec: number(86400)
  }),
  cpu: record<ResourceSnapshot['cpu']>({ percent: number(3.5) }),
  memory,
  disk,
  process: record<ResourceSnapshot['process']>({
    pid: integer(1234),
    runtime: text('node'),
    runtimeVersion: text('20.11.0'),
    uptimeSec: number(11045),
    cpuPercent: number(0.1),
    memoryRssBytes: bytes,
    memoryHeapUsedBytes: bytes
  }),
  container: nullable(container, null)
})

/** Resource usage and deployments of the last 24 hours. */
export const machineHistory = record<MachineHistory>({
  stepMinutes: described('Minutes per row', integer(1)),
  to: instant,
  items: list(
    record<MachineMinute>({
      at: described('Start of the row', instant),
      cpuPercent: described('CPU usage of the machine in percent', number(3.5)),
      processCpuPercent: described('CPU usage of the server in percent', number(0.2)),
      memoryUsedBytes: bytes,
      memoryTotalBytes: bytes,
      memoryRssBytes: described('Memory usage of the server in bytes', bytes),
      diskUsedPercent: nullable(number(41.5)),
      diskFreeBytes: nullableBytes,
      load: described('Load average', number(0.2)),
      succeeded: described('Number of deployments that succeeded', integer(1)),
      failed: described('Number of deployments that failed', integer(0))
    })
  )
})

const dayCounts = record<DayCounts>({ date: text('2030-01-02'), success: integer(5), failed: integer(0) })
const pinned = record<PinnedProject>({
  id: projectId,
  name: text('Shop'),
  env,
  status: oneOf(['idle', 'running', 'success', 'failed'], 'success'),
  lastDeployAt: nullableInstant
})
const brief = record<DeploymentBrief>({
  id: deployId,
  triggerSource: oneOf(['cli', 'rollback']),
  startTime: instant,
  endTime: nullableInstant,
  message: nullable(text('New prices')),
  status: oneOf(statuses, 'failed'),
  hasArtifact: boolean(true),
  errorMessage: nullableText,
  provenance: nullable(provenance),
  backgroundFailed: optional(constant(true))
})
const broken = record<BrokenProject>({
  projectId,
  projectName: text('Shop'),
  projectEnv: env,
  since: described('Start of the first failure since the last success', instant),
  failed: described('The deployment that failed last', brief),
  lastGood: described('The newest successful deployment, or null', nullable(brief)),
  isLastGoodLive: described('Whether the files of `lastGood` are still in the target', boolean(false)),
  goingId: described('A queued or running deployment of the project, or null', nullable(deployId, null))
})
/** The overview of a project. */
export const projectOverview = record<ProjectOverview>({
  live: nullable(deployment as never),
  liveSource: nullable(deployment as never, null),
  broken: described('The current failure of the project, or null', nullable(broken, null)),
  deployments: list(deployment) as never,
  deploymentCount: integer(12)
})
/** The overview of the server. */
export const overview = record<Overview>({
  broken: record<Overview['broken']>({ total: integer(0), items: list(broken) }),
  status: serverStatus,
  health: healthReport,
  runningCount: integer(0),
  queuedCount: integer(0),
  deployments: list(deployment) as never,
  pinned: described('The pinned projects', list(pinned)),
  newestProject: described('The newest project. Null as soon as anything has been deployed', nullable(project, null)),
  days: nullable(record<RecentDays>({ today: text('2030-01-02'), items: list(dayCounts) }))
})

/** The number of deployments per day. */
export const heatmap = record<Heatmap>({
  days: integer(365),
  cells: list(record<Heatmap['cells'][number]>({ date: text('2030-01-02'), count: integer(5), failed: integer(0) }))
})
/** The success rate per day. */
export const successRates = record<SuccessRates>({
  days: integer(30),
  points: list(
    record<SuccessRates['points'][number]>({
      date: text('2030-01-02'),
      success: integer(5),
      failed: integer(0),
      rate: nullable(number(100))
    })
  )
})
const stepMs = record<Durations['recent'][number]['steps'][number]>({
  name: oneOf(stepNames, 'extract'),
  ms: number(120)
})
/** The durations of deployment steps. */
export const durations = record<Durations>({
  days: integer(30),
  projectId: nullable(projectId, null),
  deployments: integer(12),
  steps: list(
    record<Durations['steps'][number]>({
      name: oneOf(stepNames, 'extract'),
      count: integer(12),
      medianMs: number(120),
      p95Ms: number(300),
      maxMs: number(350)
    })
  ),
  recent: list(
    record<Durations['recent'][number]>({
      id: deployId,
      startTime: instant,
      status: oneOf(statuses, 'success'),
      steps: list(stepMs)
    })
  )
})

const pm2Fields = { name: text('shop'), pmId: integer(0), status: text('online') }
/** A PM2 application. */
export const pm2App = record<Pm2App>(pm2Fields)
/** The PM2 application of a project. */
export const pm2Binding = anyOf<Pm2Binding[]>(
  record<Pm2Details>({
    ...pm2Fields,
    bound: constant(true),
    found: constant(true),
    pid: nullable(integer(1234)),
    uptimeMs: number(60000),
    restarts: integer(0),
    unstableRestarts: integer(0),
    cpuPercent: number(0.3),
    memoryBytes: bytes,
    execMode: text('fork_mode'),
    instances: integer(1),
    errorLogPath: nullableText,
    outLogPath: nullableText,
    createdAt: nullable(integer(1_893_553_445_678))
  }) as never,
  record<{ bound: true; found: false; name: string }>({
    bound: constant(true),
    found: constant(false),
    name: text('shop')
  }) as never,
  record<{ bound: false; message: string }>({ bound: constant(false), message }) as never
)

/** The result of a search. */
export const searchResult = record<SearchResult>({
  q: text('shop'),
  groups: list(
    record<SearchResult['groups'][number]>({
      type: oneOf(searchTypes),
      total: integer(1),
      items: list(
        record<SearchItem>({
          id: projectId,
          title: text('Shop'),
          subtitle: deployPath,
          href: text('/projects/proj_1a2b3c4d5e6f7a8b')
        })
      )
    })
  )
})

/** Start directories for choosing a path. */
export const placeHome = record<PlaceHome>({
  home: described('The home directory of the user that svc runs as', text('/root')),
  cwd: described('The working directory of the server', text('/srv')),
  sep: described('The path separator', text('/')),
  roots: described('The roots of the file systems', list(text('/')))
})
/** A directory of the server. */
export const placeListing = record<PlaceListing>({
  path: text('/srv'),
  parent: described('The parent directory. Null for a root', nullable(text('/'))),
  exists: boolean(true),
  isDir: boolean(true),
  truncated: described('Whether the directory has more entries than listed', boolean(false)),
  entries: list(
    record<PlaceEntry>({
      name: text('shop'),
      path: deployPath,
      isDir: boolean(true),
      isSymlink: boolean(false),
      isHidden: boolean(false)
    })
  )
})

/** A file and its size. */
export const foundBytes = record<FoundBytes>({ name: text('1a2b3c.zip'), bytes })
/** The disk usage of svc and of the targets. */
export const storageUsage = record<StorageUsage>({
  home: record<StorageUsage['home']>({
    path: text('/var/lib/svc'),
    bytes,
    freeBytes: nullableBytes,
    totalBytes: nullableBytes,
    percentUsed: nullable(number(41.5))
  }),
  totals: record<StorageUsage['totals']>({ archives: bytes, logs: bytes, tmp: bytes, database: bytes }),
  projects: list(
    record<ProjectUsage>({
      projectId,
      archiveCount: integer(10),
      archiveBytes: bytes,
      logBytes: bytes,
      deployPathBytes: nullableBytes
    })
  )
})
/** The fields of the result of cleaning. */
export const cleaned = {
  dryRun: boolean(false),
  removed: record<{
    archives: Array<{ deployId: string; projectId: string; bytes: number }>
    temporaryFiles: FoundBytes[]
    unrecordedFiles: FoundBytes[]
  }>({
    archives: list(record<{ deployId: string; projectId: string; bytes: number }>({ deployId, projectId, bytes })),
    temporaryFiles: list(foundBytes),
    unrecordedFiles: list(foundBytes)
  }),
  unrecordedLeft: list(foundBytes),
  freedBytes: bytes
}

const counts = { instances: integer(3), startups: integer(4), pushes: integer(12) }
/** The counts of received telemetry reports. */
export const telemetryOverview = record<TelemetryOverview>({
  days: integer(30),
  totals: record<TelemetryCounts>(counts),
  daily: list(record<TelemetryOverview['daily'][number]>({ ...counts, date: text('2030-01-02') })),
  versions: list(record<TelemetryOverview['versions'][number]>({ version: text('1.0.0'), count: integer(3) })),
  platforms: list(
    record<TelemetryOverview['platforms'][number]>({ os: text('linux'), arch: text('x64'), count: integer(3) })
  )
})

const targetId = text('ntgt_1a2b3c4d5e6f7a8b')
const ids = list(text('proj_1a2b3c4d5e6f7a8b'))
const part = { created: ids, replaced: ids, skipped: ids }
const partResult = named('PartResult', record<PartResult>(part))
const brought = record<BroughtProject>({
  id: projectId,
  name: text('Shop'),
  deployPath,
  preDeployScript: text(''),
  postDeployScript: text(''),
  postDeployAsync: boolean(false),
  allowClientScripts: nullable(boolean(true), null),
  allowedEnv: list(text('NODE_ENV')),
  runAs: nullableText,
  scriptShell: nullableText,
  scriptDirectory: nullableText,
  variables: list(record<BroughtProject['variables'][number]>({ name: text('API_KEY'), value: nullableText })),
  hasArtifact: boolean(true)
})
/** The fields of an import's result. The response also contains `success`. */
export const importResult = {
  strategy: oneOf(strategies),
  dryRun: boolean(false),
  settings: partResult,
  categories: partResult,
  tags: partResult,
  projects: partResult,
  logSources: partResult,
  notificationTargets: partResult,
  deployments: partResult,
  artifacts: record<ImportResult['artifacts']>({
    ...part,
    failed: list(record<{ id: string; error: string }>({ id: projectId, error: text('No space') }))
  }),
  brings: record<ImportBrings>({
    settings: list(record<ImportBrings['settings'][number]>({ key: text('webhook_url'), value: nullableText })),
    projects: list(brought),
    logSources: list(
      record<ImportBrings['logSources'][number]>({
        id: logSourceFields.id,
        projectId,
        filePath: logSourceFields.filePath
      })
    ),
    notificationTargets: list(
      record<ImportBrings['notificationTargets'][number]>({
        id: targetId,
        name: text('Team'),
        address: text('https://hooks.slack.com/…')
      })
    )
  }),
  notes: list(text('The package has no archives.'))
}

const finding = record<Finding>({
  check: oneOf(['database', 'deployments', 'deployPath', 'token', 'serverUrl', 'server']),
  level: oneOf(['ok', 'warning', 'error']),
  id: nullableText,
  message: text('The database has 3 projects'),
  next: nullableText
})
/** The result of verifying the database and the targets. */
export const inspection = record<DatabaseState & { findings: Finding[] }>({
  missingTables: list(text('projects')),
  projects: list(
    record<DatabaseState['projects'][number]>({
      id: projectId,
      name: text('Shop'),
      deployPath,
      token: text('…'),
      status: oneOf(['idle', 'running', 'success', 'failed'])
    })
  ),
  deploymentCount: integer(120),
  orphans: list(record<DatabaseState['orphans'][number]>({ id: deployId, projectId })),
  findings: list(finding)
})

/** A variable of a project. */
export const variable = record<Variable>({
  name: text('API_KEY'),
  value: described('The value. Null for a secret', nullable(text('k-123'), null)),
  secret: boolean(true),
  hasValue: described(
    'Whether a value is stored. False for a secret that was imported without its value',
    boolean(true)
  ),
  updatedAt: instant
})

const view = {
  id: targetId,
  name: text('Team'),
  kind: oneOf(notificationKinds, 'slack'),
  events: list(oneOf(['deploy_success', 'deploy_failure'])),
  projectIds: described('Projects to notify about. Empty means all', list(projectId)),
  enabled: boolean(true),
  address: described('Scheme, host and port of the address. The rest is hidden', text('https://hooks.slack.com/…')),
  hasSecret: described('Whether messages are signed with a secret', boolean(false)),
  isFromSettings: described('Whether the target is defined by the settings', boolean(false)),
  createdAt: nullableInstant,
  updatedAt: nullableInstant
}
/** A notification target. */
export const notificationTarget = named('NotificationTarget', record<NotificationTargetView>(view))

/** The caller of a request. */
export const signedIn = record<SignedIn>({
  role: text('admin'),
  name: text('admin'),
  id: described('The id of the session. Null for a bearer token', nullable(text('ses_1a2b3c4d5e6f7a8b'))),
  csrf: described(
    'The value of the header X-Svc-Csrf, which changes with the session need',
    nullable(text('b6589fc6ab0dc82c'))
  ),
  expiresAt: described('When the session ends', nullableInstant)
})
/** A browser session. */
export const listedSession = record<ListedSession>({
  id: text('ses_1a2b3c4d5e6f7a8b'),
  createdAt: instant,
  lastUsedAt: described('Time of the last request, accurate to a minute', instant),
  expiresAt: described('The latest end of the session', instant),
  remember: described('Whether the browser keeps the session after it is closed', boolean(false)),
  ip: described('The client address of the login', nullable(text('192.0.2.7'))),
  userAgent: nullable(text('Mozilla/5.0')),
  current: described('Whether the request uses this session', boolean(true))
})

const version = text('12.7')
/** The versions of the lists. */
export const changeVersions = record<ChangeVersions>(
  Object.fromEntries(Object.keys(changeTopics).map(topic => [topic, version])) as never
)
